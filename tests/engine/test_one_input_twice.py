"""One input that a function uses twice: each use is a read of its own, in every mode and after every start."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace import names
from headrace.engine.mode import Mode
from headrace.log.consumer import read
from headrace.testing import Delete, Driver, oracle

START = datetime(2026, 1, 1, tzinfo=UTC)

app = hr.App("twice")
app.stream("payments", schema="id string, amount bigint, at timestamp", event_time="at", id="id", partitions=2)
app.table("sales", schema="id bigint, shop string, amount bigint", key="id", partitions=2)


@app.stream
def both(payments):
    """A payment that is small and even comes out twice."""
    small = payments.where("amount < 15").select("id", "amount", "at")
    return hr.union(small, payments.where("amount % 2 = 0").select("id", "amount", "at"))


@app.view(key="window_start")
def minutes(payments):
    """What is behind two reads of one stream goes by the slower of them."""
    marked = payments.select("id", "amount", "at", F.lit(1).alias("n"))
    return hr.window(
        hr.union(marked, payments.withColumn("n", F.lit(2))), hr.tumbling("1 minute"), by=[], n=hr.sum("n")
    )


@app.view(key="id")
def shares(sales):
    """A table and an aggregate of itself."""
    totals = hr.aggregate(sales, by="shop", total=hr.sum("amount"))
    return hr.join(sales, totals, on="shop")


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize(
    "modes",
    [(Mode.EXACT, Mode.EXACT), (Mode.LIVE, Mode.LIVE), (Mode.LIVE, Mode.EXACT)],
    ids=["exact", "live", "live, then exact"],
)
def test_each_use_is_a_read_of_its_own(spark: SparkSession, bootstrap: str, seed: int, modes: tuple[Mode, Mode]):
    dice = random.Random(seed)
    events = [{"id": f"p{n}", "amount": dice.randrange(30), "at": START + timedelta(seconds=5 * n)} for n in range(90)]
    rows: list[Any] = [
        Delete({"id": key}) if dice.random() < 0.2 else {"id": key, "shop": f"s{key % 3}", "amount": dice.randrange(99)}
        for key in (dice.randrange(12) for _ in range(90))
    ]
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=modes[0]) as driver:
        for part in range(3):
            driver.push("payments", events[30 * part : 30 * part + 30], partition=part % 2)
            driver.push("sales", rows[30 * part : 30 * part + 30])
            driver.advance()
            if part == 1:
                if modes[0] is Mode.EXACT:
                    driver.crash()
                driver.stop()
                driver.mode = modes[1]
        inputs = {"payments": events, "sales": rows}
        wanted = oracle(app, "shares", inputs, spark)
        assert wanted
        assert bag(driver.view("shares")) == bag(wanted)
        wanted = oracle(app, "both", inputs, spark)
        ids = [one.header(names.HEADER_ID) for one in read(driver.connection, driver.graph.node("both").topic)]
        if modes[0] is Mode.EXACT:
            assert bag(driver.read("both")) == bag(wanted)
        else:
            assert set(bag(driver.read("both"))) == set(bag(wanted))
            assert {one for one in ids if one and "~1@" not in one}
        assert max(bag(wanted).values()) == 2
        told = {row["window_start"]: row["n"] for row in driver.view("minutes")}
        assert told
        assert set(told.values()) == {36}
        assert driver.late("minutes") == []
