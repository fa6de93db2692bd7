"""The sides of a join may be taken from one stream, which is read once."""

from __future__ import annotations

import json
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
from headrace.kernel import bridge
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


@app.stream
def retold(events):
    """What is costly is used once on one side and often on the other, and is an error in rows that were left out."""
    digested = F.expr("if(ad is null, raise_error('left out'), md5(ad))")
    there = events.where("ad is not null").withColumn("digest", digested)
    shows = there.where("kind = 'show' and digest > '0' and digest <> ad").selectExpr(
        "id as show", "digest", "substring(digest, 1, 9) as part", "at as shown"
    )
    later = there.where("kind <> 'show'").drop("ad", "kind")
    return hr.join(later, shows, on="digest", within=("-30 seconds", "-1 second"))


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
def test_two_selections_of_one_stream(spark: SparkSession, bootstrap: str, mode: Mode, seed: int):
    given = rows(seed)
    end = {"id": -1, "kind": "click", "ad": "end", "at": START + timedelta(hours=1)}
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode, live_batch="30 seconds") as driver:
        driver.push("events", given[: COUNT // 2])
        driver.advance()
        driver.push("events", [*given[COUNT // 2 :], b"not an event"])
        for partition in (0, 1):
            driver.push("events", [end], partition=partition)
        driver.advance()
        for name in ("attributed", "followed", "retold"):
            expected = bag(oracle(app, name, {"events": given}, spark))
            assert expected, "the test is about something"
            assert bag(driver.read(name)) == expected, f"seed {seed}, {name}"
            assert driver.late(name) == []
            assert driver.progress()[name].rows_in == COUNT + 3, "each record is read once"


def test_a_function_of_pythons_is_called_only_for_the_rows_of_its_side(spark: SparkSession):
    """Spark would call it below the pass, for the rows of both sides."""
    events = spark.createDataFrame([(1, "show"), (2, "click")], "id int, kind string")
    parsed = F.udf(lambda kind: 1 if kind == "click" else 1 // 0, "int")
    clicks, shows = events.where("kind = 'click'"), events.where("kind = 'show'")
    names = ("left_", "right_")
    assert bridge.one_pass(clicks.withColumn("n", parsed("kind")), shows, "side", names) is None
    both = bridge.one_pass(clicks, shows, "side", names)
    assert both is not None
    assert sorted((row.side, row.left_0, row.right_0) for row in both.collect()) == [(0, 2, None), (1, None, 1)]
