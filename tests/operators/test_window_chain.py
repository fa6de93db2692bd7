"""Operators behind operators in one query, and event times that are numbers."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.testing import Driver, oracle, shuffled

SEED = 3
START = datetime(2026, 3, 1, tzinfo=UTC)
DELAY = timedelta(seconds=5)
LAST = "2026-03-01T00:30:00"

app = hr.App("chain")
app.stream(
    "bids",
    schema="id string, auction string, price bigint, at timestamp",
    event_time="at",
    delay=DELAY,
    epoch="milliseconds",
    id="id",
)


def counts(bids: DataFrame, windows: Any) -> DataFrame:
    counted = hr.window(bids, windows, by="auction", bids=hr.count())
    return counted.withColumnsRenamed({"window_start": "began", "window_end": "ended"})


@app.stream
def hottest(bids):
    each = counts(bids, hr.hopping("10 seconds", "2 seconds"))
    return hr.window(each, hr.tumbling("2 seconds"), by="began", most=hr.max("bids"))


@app.stream
def peaks(bids):
    """Three in a row."""
    each = counts(bids, hr.hopping("10 seconds", "2 seconds"))
    hot = hr.window(each, hr.tumbling("2 seconds"), by="began", most=hr.max("bids"))
    hot = hot.withColumnsRenamed({"window_start": "hot_from", "window_end": "hot_until"})
    return hr.window(hot, hr.tumbling("30 seconds"), by=[], peak=hr.max("most"), spans=hr.count())


@app.stream
def busiest(bids):
    each = counts(bids, hr.tumbling("10 seconds"))
    return hr.window(each, hr.tumbling("1 minute"), by=[], most=hr.max("bids"), of=hr.max_by("auction", "bids"))


def bids() -> list[dict[str, Any]]:
    dice = random.Random(SEED)
    times = sorted(dice.randrange(600_000) for _ in range(900))
    return [
        {"id": f"b{n}", "auction": f"a{dice.randrange(12)}", "price": 1, "when": START + timedelta(milliseconds=ms)}
        for n, ms in enumerate(times)
    ]


def sent(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """As the producer writes them: the time is a number."""
    return [
        {**{k: v for k, v in row.items() if k != "when"}, "at": round(row["when"].timestamp() * 1000)} for row in rows
    ]


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_what_a_window_gives_is_not_late_for_the_next_one(spark: SparkSession, bootstrap: str, mode: Mode):
    """In live mode the second operator hears of time with the rows of the first, and at the end of a batch."""
    rows = sent(shuffled(bids(), seed=SEED, at="when", by=DELAY))
    end = [{"id": f"end{n}", "auction": "end", "price": 0, "when": START + timedelta(hours=n + 1)} for n in range(2)]
    names = ("hottest", "busiest", "peaks")
    expected = {name: sorted(map(str, oracle(app, name, {"bids": rows}, spark))) for name in names}
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode, live_batch="5 seconds") as driver:
        for piece in (rows[:200], rows[200:]):
            driver.push("bids", piece)
            driver.advance()
        for row in sent(end):
            for partition in (0, 1):
                driver.push("bids", [row], partition=partition)
            driver.advance()
        found: dict[str, list[str]] = {}
        until = time.monotonic() + (60 if mode is Mode.LIVE else 0)
        while found != expected:
            found = {
                name: sorted(str(row) for row in driver.read(name) if row["window_start"] < LAST) for name in expected
            }
            if time.monotonic() > until:
                break
            time.sleep(0.5)
        assert found == expected, f"seed {SEED}"
        assert [row for name in expected for row in driver.late(name)] == []
