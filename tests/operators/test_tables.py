"""`distinct`, `union` and `top` over tables: whatever comes and goes, they are those of the rows that are there."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.operators.event_time import EventTime, mark, marked
from headrace.testing import Delete, Driver, Simulation, oracle
from headrace.testing.change import Event

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))

app = hr.App("tables")
for name in ("web", "shop"):
    app.table(name, schema="id bigint, customer string, product string, price int", key="id", partitions=3)
app.stream("bids", schema="id bigint, auction string, bidder string, price int, at timestamp", event_time="at")


@app.stream
def both(web, shop):
    return hr.union(web, shop.select("price", "product", "customer", "id", "change"))


@app.stream
def customers(web):
    return hr.distinct(web, by="customer")


@app.view(key=["customer", "product"])
def pairs(web, shop):
    """Of a union: a pair is there while one of the tables has it."""
    return hr.distinct(hr.union(web, shop).select("customer", "product", "change").where("customer is not null"))


@app.view(key=["product", "place"])
def dearest(web):
    return hr.top(web, 2, by="price", within="product")


@app.stream
def cheapest(web, shop):
    return hr.top(hr.union(web, shop), 3, by="-price", within="product", skew="split")


@app.stream(partitions=1)
def overall(web):
    return hr.top(web.select("id", "price", "change"), 4, by="price")


@app.view(key=["bidder", "auction"])
def last_bids(bids):
    """Nexmark's q18: the last bid of each bidder for each auction."""
    return hr.top(bids, 1, by="at", within=["bidder", "auction"])


@app.view(key=["auction", "place"])
def best_bids(bids):
    """Nexmark's q19: the ten highest bids for each auction."""
    return hr.top(bids, 10, by="price", within="auction")


STREAMS = ("both", "customers", "cheapest", "overall")
VIEWS = ("pairs", "dearest", "last_bids", "best_bids")


def history(dice: random.Random, count: int) -> dict[str, list[Event]]:
    made: dict[str, list[Event]] = {"web": [], "shop": [], "bids": []}
    for number in range(count):
        name = dice.choice(["web", "web", "shop"])
        if dice.random() < 0.65:
            made[name].append(
                {
                    "id": dice.randrange(20),
                    "customer": dice.choice(["ann", "bob", "cat", None]),
                    "product": dice.choice("xyz"),
                    "price": dice.choice([None, 1, 2, 3, dice.randrange(100)]),
                }
            )
        else:
            made[name].append(Delete({"id": dice.randrange(20)}))
        made["bids"].append(
            {
                "id": number,
                "auction": dice.choice("pq"),
                "bidder": dice.choice("uvw"),
                "price": dice.randrange(20),
                "at": datetime(2026, 3, 1, 12, 0, dice.randrange(60), tzinfo=UTC),
            }
        )
    return made


def text(row: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in row.items() if k != "change"}, sort_keys=True)


def folded(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[text(row)] += {"+": 1, "-": -1}[row["change"]]
    return Counter({row: times for row, times in found.items() if times})


def held(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The rows that a table has, by hand."""
    table: dict[int, dict[str, Any]] = {}
    for event in events:
        if isinstance(event, Delete):
            table.pop(event.key["id"], None)
        elif isinstance(event, dict):
            table[event["id"]] = event
    return list(table.values())


def test_the_rows_that_are_there(spark: SparkSession, driven: Callable[[hr.App], Simulation | Driver], seed: int):
    """After two crashes, against the batch twins and against dictionaries."""
    dice = random.Random(seed)
    for _ in range(CASES):
        given = history(dice, 150)
        with driven(app) as driver:
            for part in (slice(40), slice(40, None)):
                for name, events in given.items():
                    driver.push(name, events[part])
                driver.advance()
                driver.crash(seed=dice.randrange(2**32))
            driver.advance()
            for name in STREAMS:
                assert folded(driver.read(name)) == folded(oracle(app, name, given, spark)), f"seed {seed}, {name}"
            for name in VIEWS:
                answer = sorted(map(text, oracle(app, name, given, spark)))
                assert sorted(map(text, driver.view(name))) == answer, f"seed {seed}, {name}"
            check_by_hand(driver, given, f"seed {seed}")


def check_by_hand(driver: Simulation | Driver, given: dict[str, list[Event]], where: str) -> None:
    web, shop = held(given["web"]), held(given["shop"])
    wanted = {(row["customer"], row["product"]) for row in (*web, *shop) if row["customer"] is not None}
    assert {(row["customer"], row["product"]) for row in driver.view("pairs")} == wanted, where
    assert sum(folded(driver.read("both")).values()) == len(web) + len(shop), where
    for product in "xyz":
        prices = sorted((row["price"] or 0 for row in web if row["product"] == product), reverse=True)[:2]
        found = sorted((row for row in driver.view("dearest") if row["product"] == product), key=lambda r: r["place"])
        assert [row.get("price") or 0 for row in found] == prices, where
    last = {}
    for bid in sorted((b for b in given["bids"] if isinstance(b, dict)), key=lambda b: (b["at"], -b["id"])):
        last[bid["bidder"], bid["auction"]] = bid["id"]
    assert {(row["bidder"], row["auction"]): row["id"] for row in driver.view("last_bids")} == last, where


def test_tables_and_streams_in_live_mode(spark: SparkSession, bootstrap: str, seed: int):
    declared = hr.App("live_tables")
    declared.stream("bids", schema="id bigint, auction string, price int")
    for table in ("web", "shop"):
        declared.table(table, schema="id bigint, customer string", key="id")

    @declared.view(key=["auction", "place"])
    def best(bids):
        return hr.top(bids, 3, by="price", within="auction")

    @declared.view(key="customer")
    def customers(web, shop):
        return hr.distinct(hr.union(web, shop), by="customer")

    @declared.view(key="customer")
    def sources(web, shop):
        """A table whose rows were counted, beside one as it is."""
        counted = hr.aggregate(web, by="customer", n=hr.count())
        both = hr.union(counted, shop.selectExpr("customer", "id as n", "change").where("customer is not null"))
        return hr.aggregate(both, by="customer", n=hr.sum("n"))

    dice = random.Random(seed)
    given: dict[str, list[Event]] = {
        "bids": [{"id": n, "auction": dice.choice("pq"), "price": dice.randrange(9)} for n in range(40)],
    }
    for table in ("web", "shop"):
        given[table] = [{"id": dice.randrange(9), "customer": dice.choice("abcd")} for _ in range(40)]
        given[table] += [Delete({"id": dice.randrange(9)}) for _ in range(3)]
    with Driver(declared, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        for name, events in given.items():
            driver.push(name, events)
        driver.advance()
        for name in ("best", "customers", "sources"):
            answer = sorted(map(text, oracle(declared, name, given, spark)))
            assert sorted(map(text, driver.view(name))) == answer, f"seed {seed}, {name}"


# Without a run


def test_a_union_of_streams(spark: SparkSession):
    one = spark.createDataFrame([(1, "a"), (1, "a")], "n int, x string")
    other = spark.createDataFrame([("a", 1), ("b", 2)], "x string, n int")
    assert sorted(map(tuple, hr.union(one, other).collect())) == [(1, "a"), (1, "a"), (1, "a"), (2, "b")]
    table = spark.createDataFrame([("c", 3, "-")], "x string, n int, change string")
    assert sorted(map(tuple, hr.union(one, table).collect())) == [(1, "a", "+"), (1, "a", "+"), (3, "c", "-")]


def test_a_union_of_columns_of_which_some_may_be_null(spark: SparkSession):
    rows = spark.sql("SELECT array('a') AS tags, named_struct('n', 1) AS one")
    others = spark.sql("SELECT array('b', null) AS tags, named_struct('n', cast(null AS int)) AS one")
    assert hr.union(rows, others).count() == 2


def test_the_event_time_of_a_union(spark: SparkSession):
    rows = spark.createDataFrame([], "at timestamp, sent timestamp")
    short, long = (mark(rows, EventTime("at", delay, idle)) for delay, idle in ((1000, 9), (5000, 7)))
    assert marked(hr.union(short, long).schema) == EventTime("at", 5000, 9)
    assert marked(hr.union(short, rows).schema) is None
    assert marked(hr.union(short, mark(rows, EventTime("sent", 1000, 9))).schema) is None


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ("n int", "lacks `x`"),
        ("n int, x string, y int", "has `y` besides"),
        ("n bigint, x string, change string", "has `n` as bigint and not int"),
    ],
)
def test_columns_that_differ_are_refused(spark: SparkSession, columns: str, what: str):
    one = spark.createDataFrame([], "n int, x string")
    with pytest.raises(DeclarationError, match=what) as raised:
        hr.union(one, one, spark.createDataFrame([], columns))
    assert raised.value.code == "HR-056"
    assert "Input 3" in str(raised.value)


def test_what_cannot_be_told_apart_is_refused(spark: SparkSession):
    rows = spark.createDataFrame([], "n int, x double, change string")
    for options in ({}, {"by": "x"}):
        with pytest.raises(DeclarationError) as raised:
            hr.distinct(rows, **options)
        assert raised.value.code == "HR-032"
    with pytest.raises(DeclarationError) as raised:
        hr.union(rows)
    assert raised.value.code == "HR-056"
    with pytest.raises(DeclarationError) as raised:
        hr.top(rows, 3, by="x", skew="salt")  # pyright: ignore[reportArgumentType]
    assert raised.value.code == "HR-040"
