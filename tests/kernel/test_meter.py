"""The gauges: they are carried to the driver a few times a second, so each test waits until they say it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.kernel import bridge
from headrace.kernel.bridge import Gauge

Records = Callable[..., DataFrame]

GOOD = b'{"at":"2026-03-01T11:00:00Z"}'
LATER = b'{"at":"2026-03-01T11:30:00Z"}'
FUTURE = b'{"at":"2026-03-02T11:00:00Z"}'
BAD = b'{"at":5}'


@pytest.fixture
def query(spark: SparkSession, topic: Callable[[str], str]) -> Iterator[str]:
    name = topic("query")
    yield name
    bridge.forget(spark, name)


def run(records: DataFrame, query: str, *, timed: bool = True) -> int:
    """Decode them all; the number of rows."""
    return bridge.decode(
        records,
        query=query,
        topic="t",
        dead_topic="t.dead",
        ddl="at timestamp NOT NULL",
        event_time="at" if timed else None,
        future_ms=3_600_000,
        kafka=None,
    ).count()


def gauges_of(spark: SparkSession, query: str) -> list[Gauge]:
    return [gauge for gauge in bridge.gauges(spark) if gauge.query == query]


def wait_for(spark: SparkSession, query: str, expected: list[Gauge]) -> None:
    deadline = time.monotonic() + 120
    while (found := gauges_of(spark, query)) != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == expected


def micros(hour: int, minute: int) -> int:
    return int(datetime(2026, 3, 1, hour, minute, tzinfo=UTC).timestamp()) * 1_000_000


def test_rows_and_dead_letters_are_counted_by_partition(spark: SparkSession, query: str, records: Records) -> None:
    first = records([GOOD, BAD, LATER, GOOD, b"", FUTURE], partition=0)
    second = records([GOOD] * 40, partition=7)
    third = records([BAD, None], partition=2)
    # Partition by partition in one task, and each in a task of its own.
    assert run(first.union(second).union(third).coalesce(1), query) == 43
    once = [
        Gauge(query, "t", 0, 6, 3, 0, 0, 6, micros(11, 30)),
        Gauge(query, "t", 2, 2, 2, 0, 0, 2, None),
        Gauge(query, "t", 7, 40, 0, 0, 0, 40, micros(11, 0)),
    ]
    wait_for(spark, query, once)
    assert run(first.union(second).union(third), query) == 43
    twice = [
        Gauge(g.query, g.of, g.partition, 2 * g.rows, 2 * g.dead, 0, 0, g.next_offset, g.event_time_us) for g in once
    ]
    wait_for(spark, query, twice)


def test_without_an_event_time_there_is_none(spark: SparkSession, query: str, records: Records) -> None:
    run(records([GOOD, BAD]), query, timed=False)
    wait_for(spark, query, [Gauge(query, "t", 0, 2, 1, 0, 0, 2, None)])


def test_a_forgotten_query_starts_from_zero(spark: SparkSession, query: str, records: Records) -> None:
    other = f"{query}_2"
    run(records([GOOD, GOOD, BAD]), query)
    run(records([GOOD]), other)
    wait_for(spark, query, [Gauge(query, "t", 0, 3, 1, 0, 0, 3, micros(11, 0))])
    bridge.forget(spark, query)
    wait_for(spark, query, [])
    run(records([GOOD]), query)
    wait_for(spark, query, [Gauge(query, "t", 0, 1, 0, 0, 0, 1, micros(11, 0))])
    wait_for(spark, other, [Gauge(other, "t", 0, 1, 0, 0, 0, 1, micros(11, 0))])
    bridge.forget(spark, other)
