"""How changes become records of a view: a row that is replaced is one record, from wherever its changes come."""

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

import headrace as hr
from headrace.engine.mode import Mode
from headrace.testing import Delete, Driver, oracle
from headrace.testing.change import Event

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
START = datetime(2026, 3, 1, tzinfo=UTC)

app = hr.App("upserts")
app.table("orders", schema="id bigint, product string, amount int", key="id", partitions=3)
app.stream("clicks", schema="who string, n int, at timestamp", event_time="at", delay="1 hour", partitions=1)


@app.view(key="product")
def totals(orders):
    return hr.aggregate(orders, by="product", n=hr.count(), amount=hr.sum("amount"))


@app.view(key="product")
def popular(orders):
    """Rows leave and come back by a condition, and columns that change are left out."""
    counted = hr.aggregate(orders, by="product", n=hr.count(), amount=hr.sum("amount"))
    return counted.where("amount > 3").select("product", "n", "change")


@app.view(key="place")
def ranking(orders):
    return hr.top(orders, 3, by="amount")


@app.view(key="id")
def ranked(orders):
    """A row changes its place: both places come from one task, and the key is another."""
    return hr.top(orders, 3, by="amount")


@app.view(key=["who", "window_start"])
def visits(clicks):
    return hr.window(clicks, hr.session("10 seconds"), by="who", emit="early", n=hr.sum("n"))


@app.view(key=["who", "window_start"])
def minutes(clicks):
    return hr.window(clicks, hr.tumbling("1 minute"), by="who", emit="early", n=hr.sum("n"))


VIEWS = ("totals", "popular", "ranking", "ranked", "visits", "minutes")
LASTING = {Mode.EXACT: ("ranking", "minutes"), Mode.LIVE: ("minutes",)}


def history(dice: random.Random, count: int) -> list[Event]:
    made: list[Event] = [{"id": key, "product": "a", "amount": 0} for key in range(4)]
    for _ in range(count):
        if dice.random() < 0.75:
            made.append({"id": dice.randrange(8), "product": dice.choice("abc"), "amount": dice.randrange(5)})
        else:
            made.append(Delete({"id": dice.randrange(4, 8)}))
    return made


def clicked(dice: random.Random, count: int) -> list[Event]:
    return [
        {"who": dice.choice("uv"), "n": dice.randrange(4), "at": START + timedelta(seconds=dice.randrange(100))}
        for _ in range(count)
    ]


def rows(found: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps({k: v for k, v in row.items() if k != "change"}, sort_keys=True) for row in found)


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_a_row_that_is_replaced_is_one_record(spark: SparkSession, bootstrap: str, mode: Mode, seed: int):
    dice = random.Random(seed)
    for _ in range(CASES):
        given = {"orders": history(dice, 60), "clicks": clicked(dice, 30)}
        with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
            for part in (slice(20), slice(20, None)):
                for name, events in given.items():
                    driver.push(name, events[part])
                driver.advance()
            for name in VIEWS:
                assert rows(driver.view(name)) == rows(oracle(app, name, given, spark)), f"seed {seed}, {name}"
                if name != "popular":
                    flicker(driver, name, f"seed {seed}, {name}")
            for name in LASTING[mode]:
                assert all(record.value is not None for record in driver.records(name)), f"seed {seed}, {name}"


def flicker(driver: Driver, name: str, where: str) -> None:
    """No record says what the one before said of its key, and nothing is deleted that is not there."""
    last: dict[bytes | None, bytes | None] = {}
    for record in driver.records(name):
        assert last.get(record.key) != record.value, f"{where}: {record.key} is {record.value} again"
        last[record.key] = record.value


def test_a_row_that_comes_from_another_task_than_it_goes(spark: SparkSession, bootstrap: str, seed: int):
    """An order moves from product to product, and with it from task to task, and its price stays the same."""
    declared = hr.App("moves")
    declared.table("orders", schema="id bigint, product string", key="id", partitions=3)
    declared.table("products", schema="product string, price int", key="product")

    @declared.view(key="id")
    def priced(orders, products):
        return hr.join(orders, products, on="product").select("id", "price", "change")

    dice = random.Random(seed)
    products: list[Event] = [{"product": f"p{n}", "price": n // 4} for n in range(12)]
    orders: list[Event] = []
    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("products", products)
        for _ in range(4):
            moved: list[Event] = [{"id": n, "product": f"p{dice.randrange(12)}"} for n in range(30)]
            orders += moved
            driver.push("orders", moved)
            driver.advance()
            given = {"orders": orders, "products": products}
            assert rows(driver.view("priced")) == rows(oracle(declared, "priced", given, spark)), f"seed {seed}"
        assert all(record.value is not None for record in driver.records("priced"))
        assert max(Counter(record.key for record in driver.records("priced")).values()) <= 4


def test_rows_that_cannot_be_in_the_view_are_kept_aside(spark: SparkSession, bootstrap: str):
    declared = hr.App("odd")
    declared.table("orders", schema="id bigint, product string, word string", key="id")

    @declared.view(key="product")
    def named(orders):
        return orders.selectExpr("product", "id", "word as change")

    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        driver.push(
            "orders",
            [
                {"id": 1, "product": "a", "word": "+"},
                {"id": 2, "product": None, "word": "+"},
                {"id": 3, "product": "c", "word": "?"},
            ],
        )
        driver.advance()
        assert driver.view("named") == [{"product": "a", "id": 1}]
        assert sorted(row["id"] for row in driver.late("named")) == [2, 3]


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_each_row_without_a_key_is_kept_aside(spark: SparkSession, bootstrap: str, mode: Mode):
    declared = hr.App("keyless")
    declared.table("orders", schema="id bigint, product string", key="id")
    declared.table("products", schema="id string, maker string", key="id")

    @declared.view(key="maker")
    def makers(orders, products):
        return hr.join(orders.withColumnRenamed("id", "order"), products, on={"product": "id"}, how="left")

    with Driver(declared, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        driver.push("products", [{"id": "lamp", "maker": "m"}, {"id": "desk", "maker": None}])
        driver.advance()
        driver.push("orders", [{"id": n, "product": "chair"} for n in range(5)])
        driver.push("orders", [{"id": 5, "product": "lamp"}, {"id": 6, "product": "desk"}])
        driver.advance()
        assert [row["order"] for row in driver.view("makers")] == [5]
        assert {row["order"] for row in driver.late("makers")} == {0, 1, 2, 3, 4, 6}
