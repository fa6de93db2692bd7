"""The watermark follows the slowest partition: against a plain model of it, and what that spares or costs a row."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine import frames
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.settings import Settings
from headrace.testing import Driver

SCHEMA = "id string, at timestamp"
START = datetime(2026, 1, 1, tzinfo=UTC)
DELAY = timedelta(minutes=2)
WITHIN = timedelta(minutes=10)
PARTITIONS = 3
UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)

Event = dict[str, Any]


def app(**options: Any) -> hr.App:
    made = hr.App("clock")
    made.stream("readings", schema=SCHEMA, event_time="at", id="id", **{"partitions": PARTITIONS, **options})

    @made.stream
    def unique(readings: DataFrame) -> DataFrame:
        return hr.dedupe(readings, by="id", within=WITHIN)

    return made


def drifting(dice: random.Random) -> list[list[Event]]:
    """By partition, events of which each is less than the delay behind an earlier one of its own partition, with gaps;
    partitions are hours apart."""
    partitions: list[list[Event]] = []
    for number in range(PARTITIONS):
        at = START + timedelta(hours=dice.uniform(0, 12))
        due: list[tuple[datetime, Event]] = []
        for count in range(dice.randrange(40, 80)):
            at += timedelta(minutes=dice.choice([0.1, 1, 30]) * dice.random())
            event = {"id": f"{number}-{count}", "at": at}
            due += [(at + DELAY * dice.random(), event)] * dice.choice([1, 1, 2])
        partitions.append([event for _, event in sorted(due, key=lambda one: one[0])])
    return partitions


def expected(partitions: Sequence[Sequence[Event]], read: dict[str, int]) -> datetime:
    """The watermark when so many records of every partition have been read."""
    newest = [max((e["at"] for e in events[: read[str(n)]]), default=None) for n, events in enumerate(partitions)]
    return UNKNOWN if None in newest else _milliseconds(min(at for at in newest if at is not None) - DELAY)


def _milliseconds(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


@pytest.mark.parametrize("case", range(2))
def test_a_partition_that_lags_loses_nothing(
    spark: SparkSession, bootstrap: str, rng: random.Random, deep: int, case: int, monkeypatch: pytest.MonkeyPatch
):
    for _ in range(deep):
        monkeypatch.setattr(frames, "MOST_RECORDS_A_BATCH", rng.randrange(20, 60))
        partitions = drifting(rng)
        with Driver(app(delay=DELAY), spark=spark, bootstrap=bootstrap) as driver:
            for number, events in enumerate(partitions):
                driver.push("readings", events, partition=number)
            driver.advance()
            assert driver.late("unique") == []
            kept = sorted(row["id"] for row in driver.read("unique"))
            assert kept == sorted({event["id"] for events in partitions for event in events})
            batches = _batches(driver)
        before = dict.fromkeys(map(str, range(PARTITIONS)), 0)
        reached = UNKNOWN
        for read, watermark in batches:
            if read == before:
                break  # the input is finished, and the driver lets time come to the newest event
            reached = max(reached, expected(partitions, before))
            assert watermark == reached
            before = read
        assert len(batches) > 3
        assert reached > UNKNOWN
        newest = max(event["at"] for events in partitions for event in events)
        assert batches[-1][1] == _milliseconds(newest - DELAY)


def _batches(driver: Driver) -> list[tuple[dict[str, int], datetime]]:
    """Of every batch, how much of each partition has been read at its end, and the watermark that it used."""
    assert driver._run is not None
    query = driver._run._running[0].spark
    assert query is not None
    told = query.recentProgress
    read = [next(iter(json.loads(batch.sources[0].endOffset).values())) for batch in told]
    return list(zip(read, [datetime.fromisoformat(batch.eventTime["watermark"]) for batch in told], strict=True))


def test_an_event_from_the_future_is_a_dead_letter_and_moves_nothing(spark: SparkSession, bootstrap: str):
    now = datetime.now(UTC)
    near, far = now + timedelta(minutes=50), now + timedelta(hours=2)
    with Driver(app(delay=DELAY, future="1 hour"), spark=spark, bootstrap=bootstrap) as driver:
        for partition in range(PARTITIONS):
            driver.push("readings", [{"id": f"near-{partition}", "at": near}], partition=partition)
            driver.push("readings", [{"id": f"far-{partition}", "at": far}], partition=partition)
        driver.advance()
        driver.push("readings", [{"id": "now", "at": now + timedelta(minutes=45)}])
        driver.advance()
        assert sorted(row["id"] for row in driver.read("unique")) == ["near-0", "near-1", "near-2", "now"]
        letters = driver.dead("readings")
        assert sorted(json.loads(letter.raw or b"")["id"] for letter in letters) == ["far-0", "far-1", "far-2"]
        assert all(letter.reason.endswith("is in the future") for letter in letters)
        assert max(watermark for _, watermark in _batches(driver)) == _milliseconds(near - DELAY)


def test_a_quiet_partition_stops_holding_the_watermark_back(
    spark: SparkSession, bootstrap: str, tmp_path: Path, topic: Callable[[str], str]
):
    both = hr.App("idle")
    sources = {"patient": "1 hour", "quick": "2 seconds"}
    for name, idle in sources.items():
        both.stream(name, schema=SCHEMA, topic=topic(name), event_time="at", delay=DELAY, idle=idle, id="id")

    @both.stream(topic=topic("waits"))
    def waits(patient: DataFrame) -> DataFrame:
        return hr.dedupe(patient, by="id", within=WITHIN)

    @both.stream(topic=topic("goes_on"))
    def goes_on(quick: DataFrame) -> DataFrame:
        return hr.dedupe(quick, by="id", within=WITHIN)

    connection, topics = Connection(bootstrap), [both.graph().node(name).topic for name in sources]
    ensure(connection, [Topic(name, 2) for name in topics])
    behind, ahead = START + timedelta(hours=1), START + timedelta(hours=9)

    def send(partition: int, at: datetime) -> None:
        with Producer(connection) as producer:
            for name in topics:
                producer.send(name, {"id": str(at), "at": at}, partition=partition)

    def watermark(query: str) -> datetime:
        told = {one.query: one.watermark for one in run.progress()}
        return datetime.fromisoformat(told.get(query) or "1970-01-01T00:00:00Z")

    send(1, behind)
    settings = Settings.load(tmp_path)
    with Run.start(both, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark) as run:
        until, minute = time.monotonic() + 120, 0
        while watermark("goes_on") < ahead - DELAY or watermark("waits") < behind - DELAY:
            assert time.monotonic() < until, run.progress()
            send(0, ahead + timedelta(minutes=minute))
            minute += 1
            run.wait(0.5)
        assert watermark("waits") == behind - DELAY
