"""A query of a run is stopped and started again by a command; its input waits, and nothing is lost or doubled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine import commands
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.settings import Settings


def wait_for(condition: Callable[[], bool], run: Run) -> None:
    until = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < until, run.progress()
        run.wait(0.2)


def test_a_query_follows_commands(spark: SparkSession, bootstrap: str, tmp_path: Path, topic: Callable[[str], str]):
    app = hr.App("obeys")
    given, taken = topic("given"), topic("taken")
    app.stream("readings", schema="id string, at timestamp", topic=given, event_time="at", id="id")

    @app.stream(topic=taken)
    def copied(readings: DataFrame) -> DataFrame:
        return readings

    settings, connection = Settings.load(tmp_path), Connection(bootstrap)

    def send(*ids: str) -> None:
        with Producer(connection) as producer:
            for one in ids:
                producer.send(given, {"id": one, "at": datetime.now(UTC)}, key=one)

    def results() -> list[str]:
        return sorted(json.loads(record.value or b"")["id"] for record in read(connection, taken))

    with Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark) as run:
        send("a", "b")
        wait_for(lambda: results() == ["a", "b"], run)
        (told,) = run.progress()
        commands.send(settings, "obeys", "copied", "stopped", "2020-01-01T00:00:00.000Z")  # of another run
        run.wait(1.5)
        assert run.progress()[0].state == "running"
        commands.send(settings, "obeys", "copied", "stopped", told.started_at)
        wait_for(lambda: run.progress()[0].state == "stopped", run)
        send("c")
        run.wait(3)
        assert results() == ["a", "b"]
        commands.send(settings, "obeys", "copied", "running", told.started_at)
        wait_for(lambda: results() == ["a", "b", "c"], run)
        wait_for(lambda: run.progress()[0].state == "running", run)


def test_what_is_no_command_is_ignored(tmp_path: Path):
    settings = Settings.load(tmp_path)
    commands.send(settings, "obeys", "copied", "stopped", "now")
    assert commands.wanted(settings, "obeys", "copied", "now") == "stopped"
    for wrong in ("", "[]", '{"wanted": "stopped"}', "\x00"):
        (settings.state / "runs" / "obeys" / "copied.command").write_text(wrong, encoding="utf-8")
        assert commands.wanted(settings, "obeys", "copied", "now") == "running"
