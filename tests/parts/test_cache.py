"""Entries are made once, whole or not at all."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from headrace.errors import PartError
from headrace.parts import cache


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _append_and_make(marks: Path) -> None:
    def build(place: Path) -> None:
        with marks.open("a") as file:
            file.write("made\n")
        (place / "file").write_text("whole")

    assert (cache.made_once("kind", "key", build) / "file").read_text() == "whole"


def test_processes_at_once_make_it_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_append_and_make, args=(marks,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert marks.read_text() == "made\n"


def test_a_failed_build_leaves_no_entry_and_can_be_repeated(own_cache: Path) -> None:
    def fail(place: Path) -> None:
        (place / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.made_once("kind", "key", fail)
    assert not cache.entry("kind", "key").exists()
    assert not list(own_cache.rglob("half"))
    assert cache.made_once("kind", "key", lambda place: (place / "file").touch()).is_dir()


def test_what_a_killed_process_left_is_not_part_of_the_entry(own_cache: Path) -> None:
    left = own_cache / "kind" / "key.making"
    left.mkdir(parents=True)
    (left / "half").touch()
    made = cache.made_once("kind", "key", lambda place: (place / "file").touch())
    assert [path.name for path in made.iterdir()] == ["file"]


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(PartError, match="HR-103") as caught:
        cache.made_once("kind", "key", lambda place: None)
    assert str(tmp_path / "file" / "cache") in str(caught.value)
