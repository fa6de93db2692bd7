"""kill -9 of the broker under a run: the query says so, goes on by itself when the log is back, and loses nothing."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.parts.embedded import Parts
from headrace.settings import Settings

app = hr.App("away")
app.stream("readings", schema="id string, at timestamp", event_time="at", id="id")


@app.stream
def unique(readings: DataFrame) -> DataFrame:
    return hr.dedupe(readings, by="id", within="10 minutes")


class Sender(threading.Thread):
    """Sends readings until it is told to stop; what the log does not take at once is sent again by the client."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(daemon=True)
        self.sent: list[str] = []
        self._done = threading.Event()
        self._producer = Producer(connection)

    def stop(self) -> None:
        self._done.set()
        self.join()
        self._producer.flush()

    def run(self) -> None:
        while not self._done.wait(0.05):
            self.sent.append(f"r{len(self.sent)}")
            self._producer.send("readings", {"id": self.sent[-1], "at": datetime.now(UTC)}, key=self.sent[-1])


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
    return Settings.load(tmp_path)


def wait_for(condition: Callable[[], bool], run: Run) -> None:
    until = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < until, run.progress()
        run.wait(0.2)


def results(connection: Connection) -> set[str]:
    return {json.loads(record.value or b"")["id"] for record in read(connection, "unique")}


def test_a_query_outlives_its_broker(spark: SparkSession, settings: Settings):
    with ExitStack() as brokers:
        first = brokers.enter_context(Parts.start(settings))
        connection = Connection(first.bootstrap)
        with Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=first.bootstrap, spark=spark) as run:
            sender = Sender(connection)
            sender.start()
            wait_for(lambda: bool(results(connection)), run)

            os.kill(first.started[0].record.server.pid, signal.SIGKILL)
            first.stop()
            wait_for(lambda: any("log unreachable" in (told.error or "") for told in run.progress()), run)

            again = brokers.enter_context(Parts.start(settings))
            assert again.bootstrap == first.bootstrap
            back = len(sender.sent)
            wait_for(lambda: len(sender.sent) > back, run)
            sender.stop()
            wait_for(lambda: results(connection) == set(sender.sent), run)
            wait_for(lambda: all(told.error is None and not sum(told.lag.values()) for told in run.progress()), run)
