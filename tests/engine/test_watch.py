"""The watch over a run: a duty that fails is named and done again, and nothing ends it without a word."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine import checkpoint, watch
from headrace.engine.mode import Mode
from headrace.engine.query import SupervisedQuery
from headrace.engine.run import Run
from headrace.errors import RunError
from headrace.settings import Settings

Start = Callable[[], Run]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path)


@pytest.fixture
def start(spark: SparkSession, bootstrap: str, settings: Settings, topic: Callable[[str], str]) -> Start:
    """A run of two queries that read one stream."""
    app, source = hr.App("watched"), topic("numbers")
    app.stream("numbers", topic=source, schema="n bigint", partitions=1)

    @app.stream(topic=topic("first"), partitions=1)
    def first(numbers):
        return numbers

    @app.stream(topic=topic("second"), partitions=1)
    def second(numbers):
        return numbers.where("n > 0")

    return lambda: Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.timeout(300)
def test_a_duty_that_fails_is_named_and_done_again(start: Start, monkeypatch: pytest.MonkeyPatch):
    supervise, odd = SupervisedQuery.supervise, [ValueError("odd")] * 3

    def fails(running: SupervisedQuery) -> None:
        if running.query.name == "first" and odd:
            raise odd.pop()
        supervise(running)

    monkeypatch.setattr(watch, "PROGRESS_S", 0.0)
    with start() as run:
        monkeypatch.setattr(SupervisedQuery, "supervise", fails)
        until(lambda: any("looking after `first` fails: ValueError: odd" in (e.error or "") for e in run.progress()))
        until(lambda: not odd and all(event.error is None for event in run.progress()))
        run.check()


@pytest.mark.timeout(300)
def test_a_duty_that_fails_for_good_ends_the_run(start: Start, monkeypatch: pytest.MonkeyPatch):
    def fails(running: SupervisedQuery) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(watch, "WATCH_S", 0.01)
    run = start()
    monkeypatch.setattr(SupervisedQuery, "supervise", fails)
    with pytest.raises(RunError) as raised:
        run.wait()
    with pytest.raises(RunError):
        run.stop()
    assert raised.value.code == "HR-319"
    assert raised.value.found == "ValueError: odd"


@pytest.mark.timeout(300)
def test_one_query_that_does_not_stop_keeps_nothing_else(
    start: Start, spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    run, stop = start(), SupervisedQuery.stop

    def fails(running: SupervisedQuery) -> None:
        if running.query.name == "first":
            raise TimeoutError("it goes on")
        stop(running)

    with monkeypatch.context() as patched:
        patched.setattr(SupervisedQuery, "stop", fails)
        with pytest.raises(RunError, match="`first` failed to end") as raised:
            run.stop()
    assert raised.value.code == "HR-319"
    (left,) = [one for one in spark.streams.active if (one.name or "").startswith(("first", "second"))]
    with checkpoint.held(checkpoint.location(settings, "watched", "second"), "watched", "second"):
        pass
    # The one that goes on is a writer, and holds its checkpoint as long as it is.
    monkeypatch.setattr(checkpoint, "_WRITER_ENDS_S", 0.0)
    with pytest.raises(RunError) as raised:
        start()
    assert raised.value.code == "HR-306"
    left.stop()
    run.stop()
    with start():
        pass
