"""Two runs in one session, each with a query of the same name: neither sees anything of the other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.settings import Settings

START = datetime(2026, 1, 1, tzinfo=UTC)


def shop(name: str, source: str, result: str) -> hr.App:
    app = hr.App(name)
    schema = "n bigint, at timestamp"
    app.stream("orders", topic=source, schema=schema, event_time="at", delay="0 s", idle="1 hour", partitions=1)

    @app.stream(topic=result, partitions=1)
    def totals(orders):
        return hr.window(orders, hr.tumbling("1 minute"), by=[], sold=hr.sum("n"))

    return app


def orders(count: int, n: int) -> list[dict[str, Any]]:
    return [{"n": n, "at": START + timedelta(minutes=minute)} for minute in range(count)]


@pytest.mark.timeout(400)
def test_they_do_not_mix(spark: SparkSession, bootstrap: str, tmp_path: Path, topic: Callable[[str], str]):
    connection = Connection(bootstrap)
    # One has events of an hour, the other of two minutes: a shared clock would close windows too early or never.
    given = {"one": orders(60, 1), "two": orders(2, 5)}
    topics = {name: (topic("orders"), topic("totals")) for name in given}
    ensure(connection, [Topic(one, 1) for pair in topics.values() for one in pair])
    with ExitStack() as stack, Producer(connection) as producer:
        runs = {
            name: stack.enter_context(
                Run.start(
                    shop(name, *topics[name]),
                    mode=Mode.EXACT,
                    settings=Settings.load(tmp_path / name),
                    bootstrap=bootstrap,
                    spark=spark,
                )
            )
            for name in given
        }
        for name, events in given.items():
            for event in events:
                producer.send(topics[name][0], event)
        producer.flush()
        for run in runs.values():
            run.finish_input()
        told = {name: _told(run, len(given[name])) for name, run in runs.items()}
        runs["one"].stop()
        # What has ended takes nothing of the other one with it.
        producer.send(topics["two"][0], {"n": 5, "at": START + timedelta(minutes=2)})
        producer.flush()
        runs["two"].finish_input()
        assert _told(runs["two"], 3).rows_in == 3
    assert {name: one.rows_in for name, one in told.items()} == {"one": 60, "two": 2}
    assert {name: (one.event_time or "")[11:16] for name, one in told.items()} == {"one": "00:59", "two": "00:01"}
    assert {name: (one.watermark or "")[11:16] for name, one in told.items()} == {"one": "00:59", "two": "00:01"}
    found = {name: [json.loads(record.value or b"") for record in read(connection, topics[name][1])] for name in given}
    assert [row["sold"] for row in found["one"]] == [1] * 59
    assert [row["sold"] for row in found["two"]] == [5] * 2


def _told(run: Run, rows: int) -> Any:
    """Progress once it has counted so many rows, its clock has come to the last of them, and no more came of it."""
    until = time.monotonic() + 120
    while (one := run.progress()[0]).rows_in < rows or sum(one.lag.values()) or not _is_told(one):
        assert time.monotonic() < until, one
        time.sleep(0.05)
    return one


def _is_told(one: Any) -> bool:
    return bool(one.watermark and one.event_time) and one.watermark[:16] == one.event_time[:16]
