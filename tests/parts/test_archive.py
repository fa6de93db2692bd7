"""Class archives, by the JVM that is there: used when they fit, and harmless when they do not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headrace.parts import archive, java, kafka
from headrace.parts.java import Java

MAIN = "kafka.tools.StorageTool"


@pytest.fixture
def home() -> Java:
    return java.find()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The jars of the broker, and a cache in which there is nothing."""
    jars = kafka._jars(print)
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return jars


@pytest.fixture
def jar(broker: list[Path], tmp_path: Path) -> Path:
    return Path(shutil.copy(broker[0], tmp_path / "some.jar"))


def run(home: Java, *arguments: str) -> str:
    done = subprocess.run([home.executable, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def class_path(jars: Sequence[Path]) -> list[str]:
    return ["-cp", ":".join(map(str, jars))]


def short(home: Java, jars: Sequence[Path]) -> Callable[[list[str]], list[str]]:
    """A rehearsal that loads the classes of an empty program."""

    def rehearse(options: list[str]) -> list[str]:
        run(home, *options, *class_path(jars), "-version")
        return class_path(jars)

    return rehearse


def test_a_jvm_takes_its_classes_from_the_archive(home: Java, broker: list[Path]) -> None:
    def rehearse(options: list[str]) -> list[str]:
        run(home, *options, *class_path(broker), MAIN, "random-uuid")
        return class_path(broker)

    assert archive.options(home, broker) == []
    archive.record(home, broker, rehearse, print)
    archive.record(home, broker, lambda _: pytest.fail("it was rehearsed again"), print)
    options = archive.options(home, broker)
    loaded = run(home, *options, *class_path(broker), "-Xlog:class+load", MAIN, "random-uuid")
    assert f"{MAIN} source: shared objects file" in loaded


def test_what_cannot_be_recorded_is_left_out_and_not_tried_again(home: Java, jar: Path) -> None:
    def broken(_: list[str]) -> list[str]:
        raise OSError("no space left")

    said: list[str] = []
    archive.record(home, [jar], broken, said.append)
    assert said == ["  it goes without: no space left"]
    archive.record(home, [jar], lambda _: pytest.fail("it was rehearsed again"), print)
    assert archive.options(home, [jar]) == []


def test_a_class_list_that_java_cannot_use_is_left_out(home: Java, jar: Path) -> None:
    archive.record(home, [jar], lambda _: class_path([jar]), print)
    assert archive.options(home, [jar]) == []


def test_an_archive_that_does_not_fit_says_nothing(home: Java, broker: list[Path], jar: Path) -> None:
    archive.record(home, [jar], short(home, [jar]), print)
    options = archive.options(home, [jar])
    assert options
    assert len(run(home, *options, *class_path(broker), MAIN, "random-uuid").splitlines()) == 1


def test_a_cut_or_changed_one_is_not_used(home: Java, jar: Path) -> None:
    archive.record(home, [jar], short(home, [jar]), print)
    file = Path(archive.options(home, [jar])[0].partition("=")[2])
    whole = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(whole[: len(whole) // 2])
    assert archive.options(home, [jar]) == []
    file.write_bytes(whole)
    assert archive.options(home, [jar])
    os.utime(jar, (1, 1))
    assert archive.options(home, [jar]) == []


def test_one_whose_files_are_gone_is_removed(home: Java, jar: Path, tmp_path: Path) -> None:
    archive.record(home, [jar], short(home, [jar]), print)
    file = Path(archive.options(home, [jar])[0].partition("=")[2])
    other = jar.rename(tmp_path / "other.jar")
    assert file.exists()
    archive.record(home, [other], short(home, [other]), print)
    assert archive.options(home, [other])
    assert not file.parent.exists()
