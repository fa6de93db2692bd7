"""A full disk under the progress files: it is said, the queries go on, and so does what is told when there is room."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from starlette.requests import Request

import headrace as hr
from headrace.engine import progress
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress
from headrace.engine.run import Run
from headrace.errors import ServeError
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ends, ensure
from headrace.serve.console.audit import Audit
from headrace.settings import Settings

FULL = "No space left on device"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few pages; who may not mount one skips."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], check=False)
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path) -> Path:
    """Use up what is free."""
    file = place / "full"
    with file.open("wb", buffering=0) as out, suppress(OSError):
        while out.write(bytes(512)):
            pass
    return file


def test_what_does_not_fit_is_not_cut(small: Path):
    settings = Settings.load(small)
    event = Progress("shop", "totals", "exact", "running", progress.moment(), progress.moment(), os.getpid())
    told = 0
    while (why := progress.write(settings, event)) is None:
        told += 1
    assert told > 0
    assert why == f"progress cannot be written to {small / '.headrace' / 'runs' / 'shop'}: {FULL}"
    lines = (small / ".headrace" / "runs" / "shop" / "totals.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == told
    assert len(set(lines)) == 1
    assert lines[0].endswith("\n")


def test_an_action_of_the_console_that_cannot_be_written_down_is_not_done(small: Path):
    book = Audit(Settings.load(small), "shop")
    request, done = Request({"type": "http", "state": {"user": "ann"}, "client": ("127.0.0.1", 1)}), []

    def act(*names: str) -> None:
        for name in names:
            with book.noted(request, name, "totals"):
                done.append(name)

    act("stop")
    full = fill(small)
    with pytest.raises(ServeError) as refused:
        act(*["start"] * 1000)  # the last page of the file may have room for some
    assert refused.value.code == "HR-543"
    full.unlink()
    act("promote")
    told = [(one.action, one.outcome) for one in book.last(10_000)]
    assert told[:2] == [("promote", "done"), ("promote", "asked")]
    assert told[-2:] == [("stop", "done"), ("stop", "asked")]
    assert len(told) == len(book.file.read_text().splitlines())
    assert abs(2 * len(done) - len(told)) <= 1


@pytest.mark.timeout(300)
def test_a_run_says_it_and_goes_on(
    spark: SparkSession, bootstrap: str, small: Path, tmp_path: Path, topic: Callable[[str], str]
):
    app, source, result = hr.App("full"), topic("numbers"), topic("copies")
    app.stream("numbers", topic=source, schema="n bigint", partitions=1)

    @app.stream(topic=result, partitions=1)
    def copies(numbers):
        return numbers

    connection = Connection(bootstrap)
    ensure(connection, [Topic(source, 1), Topic(result, 1)])
    settings = Settings.load(small, checkpoints=str(tmp_path / "checkpoints"))
    with (
        Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark) as run,
        Producer(connection) as producer,
    ):

        def until(done: Callable[[], bool], what: str) -> None:
            deadline = time.monotonic() + 120
            while not done():
                run.check()
                assert time.monotonic() < deadline, f"{what}: {run.progress()}"
                time.sleep(0.05)

        until(lambda: run.progress()[0].state == "running", "it runs")
        full = fill(small)
        until(lambda: FULL in (run.progress()[0].error or ""), "the full disk is named")
        producer.send(source, {"n": 1})
        producer.flush()
        until(lambda: ends(connection, result)[0] > 0, "the query goes on")
        assert run.progress()[0].state == "running"
        full.unlink()
        until(lambda: run.progress()[0].error is None, "there is room again")
        (written,) = progress.latest(settings, "full")
        assert written.rows_in == 1
