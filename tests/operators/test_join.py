"""`join` of tables: whatever the order, the crashes and the mode, it is the join of the rows that both tables have."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import DeclarationError, RunError
from headrace.settings import Settings
from headrace.testing import Delete, Driver, Simulation, oracle
from headrace.testing.change import Event

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))

app = hr.App("joins")
app.table("orders", schema="id bigint, product string, amount int", key="id", partitions=3)
app.table("products", hr.postgres("public.products"), schema="name string, maker string, price int", key="name")


@app.stream
def inner(orders, products):
    return hr.join(orders, products, on={"product": "name"})


@app.stream
def left(orders, products):
    return hr.join(orders, products, on={"product": "name"}, how="left")


@app.stream
def full(orders, products):
    return hr.join(orders, products.withColumnRenamed("name", "product"), on="product", how="full")


@app.stream
def right(orders, products):
    """Many meet many: orders of products whose name begins like the maker's."""
    makers = orders.selectExpr("id", "substr(product, 1, 1) as maker", "change")
    return hr.join(makers, products, on="maker", how="right")


@app.view(key="id")
def priced(orders, products):
    return hr.join(orders, products, on={"product": "name"}).selectExpr("id", "amount * price as total", "change")


NAMES = ("inner", "left", "right", "full")


def history(dice: random.Random, count: int) -> list[tuple[str, Event]]:
    """Puts, changes of every column, deletions of rows that are there and of some that are not, and nulls."""

    def product() -> str:
        return f"{dice.choice('ab')}{dice.randrange(3)}"

    made: list[tuple[str, Event]] = []
    for _ in range(count):
        kind = dice.random()
        if kind < 0.5:
            order = {"id": dice.randrange(12), "product": dice.choice([product(), product(), None])}
            made.append(("orders", order | {"amount": dice.randrange(3)}))
        elif kind < 0.65:
            made.append(("orders", Delete({"id": dice.randrange(12)})))
        elif kind < 0.9:
            row = {"name": product(), "maker": dice.choice(["a", "b", None]), "price": dice.randrange(3)}
            made.append(("products", row))
        else:
            made.append(("products", Delete({"name": product()})))
    return made


def of(table: str, events: Sequence[tuple[str, Event]]) -> list[Event]:
    return [event for name, event in events if name == table]


def folded(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        sign = {"+": 1, "-": -1}[row["change"]]
        found[json.dumps({k: v for k, v in row.items() if k != "change"}, sort_keys=True)] += sign
    return Counter({row: times for row, times in found.items() if times})


def test_the_join_of_what_the_tables_hold(
    spark: SparkSession, driven: Callable[[hr.App], Simulation | Driver], seed: int
):
    dice = random.Random(seed)
    for _ in range(CASES):
        events = history(dice, 120)
        with driven(app) as driver:
            for part in range(3):
                for name, event in events[part * 40 : part * 40 + 40]:
                    driver.push(name, [event])
                driver.advance()
                driver.crash(seed=dice.randrange(2**32))
            driver.advance()
            given = {name: of(name, events) for name in ("orders", "products")}
            for name in NAMES:
                wanted = folded(oracle(app, name, given, spark))
                assert folded(driver.read(name)) == wanted, f"seed {seed}, {name}"
            table = {json.dumps(row, sort_keys=True) for row in driver.view("priced")}
            answer = oracle(app, "priced", given, spark)
            assert table == {json.dumps(row, sort_keys=True) for row in answer}, f"seed {seed}"


def model(events: Sequence[tuple[str, Event]]) -> dict[str, dict[Any, dict[str, Any]]]:
    tables: dict[str, dict[Any, dict[str, Any]]] = {"orders": {}, "products": {}}
    for name, event in events:
        key = "id" if name == "orders" else "name"
        if isinstance(event, Delete):
            tables[name].pop(event.key[key], None)
        elif isinstance(event, dict):
            tables[name][event[key]] = event
    return tables


def test_the_batch_twin_is_the_join(spark: SparkSession, seed: int):
    """Against loops over dictionaries."""
    events = history(random.Random(seed), 200)
    tables = model(events)
    orders, products = tables["orders"].values(), tables["products"]
    given = {name: of(name, events) for name in ("orders", "products")}
    joined = [
        order | {k: v for k, v in products[order["product"]].items() if k != "name"} | {"name": order["product"]}
        for order in orders
        if order["product"] in products
    ]
    alone = [order for order in orders if order["product"] not in products]
    bare = {json.dumps({k: v for k, v in row.items() if v is not None}, sort_keys=True) for row in joined}
    found = {json.dumps({k: v for k, v in row.items() if k != "change"}, sort_keys=True)
             for row in oracle(app, "inner", given, spark)}  # fmt: skip
    assert found == bare, f"seed {seed}"
    assert len(oracle(app, "left", given, spark)) == len(joined) + len(alone), f"seed {seed}"
    unsold = [name for name in products if not any(order["product"] == name for order in orders)]
    assert len(oracle(app, "full", given, spark)) == len(joined) + len(alone) + len(unsold), f"seed {seed}"


def test_live_a_join_of_tables(spark: SparkSession, bootstrap: str, seed: int):
    events = history(random.Random(seed), 120)
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE, live_batch="20 seconds") as driver:
        for part in range(3):
            for name, event in events[part * 40 : part * 40 + 40]:
                driver.push(name, [event])
            driver.advance()
        given = {name: of(name, events) for name in ("orders", "products")}
        for name in NAMES:
            wanted = folded(oracle(app, name, given, spark))
            assert folded(driver.read(name)) == wanted, f"seed {seed}, {name}"


def test_a_view_can_be_read(spark: SparkSession, bootstrap: str):
    declared = hr.App("chain")
    declared.table("orders", schema="id bigint, product string", key="id")
    declared.table("products", schema="product string, price int", key="product")

    @declared.view(key="id")
    def priced(orders, products):
        return hr.join(orders, products, on="product")

    @declared.view(key="id")
    def dear(priced):
        return priced.where("price > 5").select("id", "price", "change")

    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("orders", [{"id": 1, "product": "a"}, {"id": 2, "product": "b"}])
        driver.push("products", [{"product": "a", "price": 3}, {"product": "b", "price": 9}])
        driver.advance()
        assert driver.view("dear") == [{"id": 2, "price": 9}]
        driver.push("products", [{"product": "a", "price": 7}, {"product": "b", "price": 1}])
        driver.advance()
        assert driver.view("dear") == [{"id": 1, "price": 7}]
        driver.push("orders", [Delete({"id": 1})])
        driver.advance()
        assert driver.view("dear") == []


def test_what_does_not_fit_a_table_is_a_dead_letter(spark: SparkSession, bootstrap: str):
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("orders", [{"id": 1, "product": "a0", "amount": 1}, b'{"id": "x"}', b"{"])
        driver.push("products", [b'{"before": null}', b'{"op": "t"}', b'{"op": "m"}', b'{"op": "u", "after": {}}'])
        driver.push("products", [{"name": "a0", "maker": "a", "price": 2}])
        driver.advance()
        assert [(row["id"], row["price"]) for row in driver.read("inner")] == [(1, 2)]
        # Every query that reads the table says what it refuses.
        assert len({letter.source for letter in driver.dead("orders")}) == 2
        assert sorted({letter.reason for letter in driver.dead("products")}) == [
            "`op` is t, which cannot be applied to single rows",
            "field `after.name` is missing",
            "field `op` is missing: it is not an envelope of Debezium's",
        ]


@pytest.mark.parametrize(
    ("on", "what"),
    [
        ([], "was not told in which columns"),
        ("id", "names the column `id`, which its right side does not have"),
        ({"amount": "name"}, "cannot compare `amount` with `name`: they are of different types"),
    ],
)
def test_what_cannot_be_joined(spark: SparkSession, on: Any, what: str):
    orders = spark.createDataFrame([], "id bigint, product string, amount int, change string")
    products = spark.createDataFrame([], "name string, price int, change string")
    with pytest.raises(DeclarationError, match=what):
        hr.join(orders, products, on=on)


def test_ambiguous_columns_are_refused(spark: SparkSession):
    orders = spark.createDataFrame([], "id bigint, product string, price int, change string")
    products = spark.createDataFrame([], "name string, price int, change string")
    with pytest.raises(DeclarationError, match="Both sides of `join` have a column `price`") as refused:
        hr.join(orders, products, on={"product": "name"})
    assert refused.value.code == "HR-050"


def test_a_table_without_columns_is_refused(spark: SparkSession, bootstrap: str, tmp_path: Path):
    declared = hr.App("bare")
    declared.table("cards", hr.postgres("public.cards"), key="card")

    @declared.stream
    def copied(cards):
        return cards

    with pytest.raises(RunError, match="whose columns are not declared"):
        Run.start(declared, mode=Mode.EXACT, settings=Settings.load(tmp_path), bootstrap=bootstrap, spark=spark)
