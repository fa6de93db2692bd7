"""`min_by` and `max_by` with `ties`: the values of all rows with the extreme `by`, in a stream and in batch."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import DeclarationError
from headrace.testing import Driver, oracle

START = datetime(2026, 1, 1, tzinfo=UTC)


def app() -> hr.App:
    declared = hr.App("ties")
    declared.stream("bids", schema="id bigint, item string, price bigint, at timestamp", event_time="at")

    @declared.stream
    def best(bids):
        return hr.window(
            bids,
            hr.tumbling("1 minute"),
            by="item",
            most=hr.max_by("struct(id, price)", "price", ties=3),
            least=hr.min_by("id", "price", ties=2),
            one=hr.max_by("struct(price, id)", "price"),
        )

    return declared


def expected(events: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[Any, Any, Any]]:
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        minute = event["at"].replace(second=0, microsecond=0)
        groups[event["item"], minute.strftime("%H:%M")].append(event)
    found = {}
    for key, rows in groups.items():
        prices = [row["price"] for row in rows if row["price"] is not None]
        if not prices:
            found[key] = (None, None, None)
            continue
        top = sorted(row["id"] for row in rows if row["price"] == max(prices))
        low = sorted(row["id"] for row in rows if row["price"] == min(prices))
        most = [{"id": one, "price": max(prices)} for one in top[:3]]
        found[key] = (most, low[:2], {"price": max(prices), "id": top[0]})
    return found


def test_all_rows_with_the_extreme_value(spark: SparkSession, bootstrap: str):
    seed = int(os.environ.get("HEADRACE_SEED", random.randrange(2**32)))
    print(f"HEADRACE_SEED={seed}")
    dice = random.Random(seed)
    events = [
        {
            "id": n,
            "item": dice.choice("abc"),
            "price": dice.choice([None, 1, 2, 3]),
            "at": START + timedelta(seconds=n // 2),
        }
        for n in range(600)
    ]
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("bids", events[:300])
        driver.advance()
        driver.crash()
        driver.push("bids", events[300:])
        driver.push("bids", [{"id": -1, "item": "z", "price": 1, "at": START + timedelta(hours=1)}] * 2, partition=0)
        driver.push("bids", [{"id": -1, "item": "z", "price": 1, "at": START + timedelta(hours=1)}], partition=1)
        driver.advance()
        rows = driver.read("best")
    for answer in (rows, oracle(app(), "best", {"bids": events}, spark)):
        got = {
            (row["item"], row["window_start"][11:16]): (row["most"], row["least"], row["one"])
            for row in answer
            if row["item"] != "z"
        }
        assert got == expected(events)


@pytest.mark.parametrize("ties", [0, -1, True, "3"])
def test_ties_are_a_whole_number(ties: Any):
    with pytest.raises(DeclarationError, match="cannot use its `ties`"):
        hr.max_by("id", "price", ties=ties)


def test_a_struct_of_lists_cannot_be_kept(spark: SparkSession):
    rows = spark.sql("select array(1) as tags, 1 as price, timestamp'2026-01-01' as at")
    with pytest.raises(DeclarationError, match="cannot use `struct\\(tags, price\\)`"):
        hr.window(rows, hr.global_(), by=[], at="at", best=hr.max_by("struct(tags, price)", "price"))
