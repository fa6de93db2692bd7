"""Latencies: buckets, percentiles, and what a run tells of them."""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine.latency import WINDOW_S, Latency, least, percentile
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress
from headrace.engine.run import Run
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.settings import Settings

EARLIER_MS = 3_600_000


def test_a_percentile_is_within_a_bucket_of_the_true_one():
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    values = sorted(int(chance.lognormvariate(4, 2)) for _ in range(1000))
    bounds = [least(bucket) for bucket in range(192)]
    counts = [0] * len(bounds)
    for value in values:
        counts[bisect_right(bounds, value) - 1] += 1
    for share in (0.5, 0.9, 0.99):
        true = values[round(share * len(values)) - 1]
        assert percentile(counts, share) == pytest.approx(true, rel=0.07, abs=0.5)
    assert percentile([0, 0], 0.5) == 0.0


def test_only_the_last_seconds_count():
    latency = Latency()
    assert latency.look(100.0, ()) is None
    assert latency.look(101.0, [0, 0, 0, 4]) == (3.0, 3.0)
    assert latency.look(105.0, [0, 0, 0, 4, 0, 6]) == (5.0, 5.0)
    assert latency.look(101.5 + WINDOW_S, [0, 0, 0, 4, 0, 7]) == (5.0, 5.0)
    assert latency.look(120.0 + WINDOW_S, [0, 0, 0, 4, 0, 7]) is None
    for second in range(1000):
        latency.look(200.0 + second, [second])
    assert len(latency._seen) < 2 * WINDOW_S


def whole(readings: DataFrame) -> DataFrame:
    return readings.where("n >= 0")


def once(readings: DataFrame) -> DataFrame:
    return hr.dedupe(readings, by="id", within="1 minute")


def gathered(readings: DataFrame) -> DataFrame:
    return hr.window(readings, hr.tumbling("1 minute"), by="n", many=hr.count(), emit="early")


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_a_run_tells_what_it_has_written_and_how_long_that_took(
    mode: Mode, spark: SparkSession, bootstrap: str, tmp_path: Path, topic: Callable[..., str]
):
    """The records are an hour old, so what is told is an hour and the time that it took."""
    source, settings, connection = topic("readings"), Settings.load(tmp_path), Connection(bootstrap)
    app = hr.App("timed")
    app.stream(
        "readings", schema="id string, n int, at timestamp", topic=source, event_time="at", id="id", partitions=2
    )
    app.stream(topic=topic())(whole)
    app.stream(topic=topic())(once)
    app.view(key=["n", "window_start"], topic=topic())(gathered)
    ensure(connection, [Topic(source, 2)])
    past = int(time.time() * 1000) - EARLIER_MS
    with Producer(connection) as producer:
        for n in range(40):
            producer.send(source, {"id": f"r{n}", "n": n, "at": datetime.now(UTC)}, timestamp=past)
    with Run.start(app, mode=mode, settings=settings, bootstrap=bootstrap, spark=spark) as run:
        measured: dict[str, Progress] = {}
        until = time.monotonic() + 120
        while len(measured) < 3:
            assert time.monotonic() < until, run.progress()
            run.wait(0.3)
            for told in run.progress():
                if told.rows_out >= 40 and told.latency_p50_ms is not None:
                    measured[told.query] = told
    for told in measured.values():
        assert told.latency_p50_ms == pytest.approx(EARLIER_MS, rel=0.14)
        assert told.latency_p99_ms == pytest.approx(EARLIER_MS, rel=0.14)
        assert told.latency_p50_ms is not None
        assert told.latency_p99_ms is not None
        assert told.latency_p50_ms <= told.latency_p99_ms
        assert told.rows_out == 40
