"""The sides of a join may be taken from one stream, which is read once."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.engine.mode import Mode
from headrace.testing import Driver, oracle

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 90

app = hr.App("sides")
app.stream("events", schema="id int, kind string, ad string, at timestamp", event_time="at", delay="10 seconds")


@app.stream
def attributed(events):
    """Two selections with nothing in common, and what is costly in one of them."""
    clicks = events.where("kind = 'click'").selectExpr("id as click", "ad", "at", "md5(ad) as digest")
    shows = events.where("kind = 'show' and ad <> 'c'").selectExpr("id as show", "ad", "at as shown")
    return hr.join(clicks, shows, on="ad", within=("-60 seconds", "0 seconds"), how="left")


@app.stream
def followed(events):
    """Every event with what came before it: all rows are on the left, some on the right."""
    before = events.where("kind = 'show'").selectExpr("id as show", "upper(ad) as name", "at as shown")
    shouted = events.withColumn("name", F.upper("ad")).drop("ad", "kind")
    return hr.join(shouted, before, on="name", within=("-30 seconds", "-1 second"))


def rows(seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    return [
        {
            "id": n,
            "kind": dice.choice(["click", "show", "other"]),
            "ad": dice.choice(["a", "b", "c", None]),
            "at": START + timedelta(seconds=n * 4 + dice.randrange(-4, 4)),
        }
        for n in range(COUNT)
    ]


def bag(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_two_selections_of_one_stream(spark: SparkSession, bootstrap: str, mode: Mode):
    seed = int(os.environ.get("HEADRACE_SEED", random.SystemRandom().randrange(2**32)))
    print(f"HEADRACE_SEED={seed}")
    given = rows(seed)
    end = {"id": -1, "kind": "click", "ad": "end", "at": START + timedelta(hours=1)}
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode, live_batch="30 seconds") as driver:
        driver.push("events", given[: COUNT // 2])
        driver.advance()
        driver.push("events", [*given[COUNT // 2 :], b"not an event"])
        for partition in (0, 1):
            driver.push("events", [end], partition=partition)
        driver.advance()
        for name in ("attributed", "followed"):
            expected = bag(oracle(app, name, {"events": given}, spark))
            assert expected, "the test is about something"
            assert bag(driver.read(name)) == expected, f"seed {seed}, {name}"
            assert driver.late(name) == []
            assert driver.progress()[name].rows_in == COUNT + 3, "each record is read once"
