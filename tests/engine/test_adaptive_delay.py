"""A delay that follows how late events come."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.testing import Driver

START = datetime(2026, 5, 4, 12, tzinfo=UTC)

app = hr.App("adaptive")
app.stream(
    "positions",
    schema="id string, car string, at timestamp",
    event_time="at",
    delay=hr.adaptive(0.95, least="1 second", most="10 minutes"),
    id="id",
    partitions=1,
)


@app.stream
def seconds(positions):
    return hr.window(positions, hr.tumbling("1 second"), by=[], n=hr.count())


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_windows_are_given_as_soon_as_the_share_of_events_has_come(spark: SparkSession, bootstrap: str, mode: Mode):
    """Events up to 3 seconds late: 95 of 100 are less than that, so a window need not wait for 10 minutes."""
    dice = random.Random(5)
    rows = [
        {
            "id": f"p{n}",
            "car": "c",
            "at": START + timedelta(seconds=n / 100 - dice.choice((0, 0, 0, 3 * dice.random()))),
        }
        for n in range(6000)
    ]
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        driver.push("positions", rows[:500])
        driver.advance()
        assert driver.read("seconds") == []  # too few were seen: the upper bound holds
        for start in range(500, 6000, 500):
            driver.push("positions", rows[start : start + 500])
            driver.advance()
        given = [datetime.fromisoformat(row["window_end"]) for row in driver.read("seconds")]
        assert START + timedelta(seconds=50) < max(given) <= START + timedelta(seconds=59)
        late = len(driver.late("seconds"))
        assert late < 0.05 * len(rows), late
