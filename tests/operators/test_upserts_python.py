"""The records of a view whose rows go through a Python function behind the last operator.

Rows go to Python in groups, and come back in order: what is encoded is behind what the operator gives by any number of
rows.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType

import headrace as hr
from headrace.kernel import bridge
from headrace.testing import Delete, Driver, oracle
from headrace.testing.change import Event

KEPT = 40

app = hr.App("behind_python")
app.table("orders", schema="id bigint, product string, amount int", key="id", partitions=3)
app.stream("clicks", schema="who string, n int", partitions=2)


@F.udf(StringType())
def label(n: int) -> str:
    return f"n{n}"


@F.udf(BooleanType())
def is_large(amount: int) -> bool:
    return amount is not None and amount > 20


@F.udf(LongType())
def twice(amount: int) -> int:
    return 2 * amount


def sums(orders):
    return hr.aggregate(orders, by="product", n=hr.count(), amount=hr.sum("amount"))


@app.view(key="product")
def some(orders):
    """Rows leave and come back by what Python says of them."""
    return sums(orders).withColumn("label", label("n")).where(is_large("amount")).withColumn("double", twice("amount"))


@app.view(key="id")
def copied(orders):
    return orders.withColumn("label", label("amount"))


@app.stream
def named(clicks):
    return clicks.withColumn("label", label("n"))


VIEWS = ("some", "copied")


def orders(dice: random.Random) -> tuple[list[Event], list[Event]]:
    """What is there, and what becomes of it: the rows that are replaced come before others that are only put."""
    before: list[Event] = [{"id": key, "product": f"p{key % 20}", "amount": 9} for key in range(60)]
    after: list[Event] = [
        {"id": key, "product": f"p{dice.randrange(20)}", "amount": dice.randrange(40)}
        for key in dice.sample(range(KEPT), KEPT // 2)
    ]
    after += [Delete({"id": key}) for key in dice.sample(range(KEPT, 60), 10)]
    after += [{"id": 100 + key, "product": f"q{key}", "amount": 30} for key in range(12)]
    return before, after


def rows(found: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps({k: v for k, v in row.items() if k != "change"}, sort_keys=True) for row in found)


def test_what_is_behind_a_python_function_has_every_row_once(spark: SparkSession, bootstrap: str, seed: int):
    """A batch is run again after it was written, and nothing of it is written again."""
    parts = orders(random.Random(seed))
    clicks: list[Event] = [{"who": f"w{n}", "n": n} for n in range(40)]
    given = {"orders": [*parts[0], *parts[1]], "clicks": clicks}
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for number, part in enumerate(parts):
            driver.push("orders", part)
            driver.push("clicks", clicks[number::2])
            driver.advance()
        written = {name: len(driver.records(name)) for name in (*VIEWS, "named")}
        timed = {gauge.query: sum(gauge.latencies) for gauge in bridge.gauges(spark) if gauge.of == "sink"}
        assert {name: timed[name] for name in written} == written, f"seed {seed}"
        driver.crash()
        driver.advance()
        assert {name: len(driver.records(name)) for name in written} == written, f"seed {seed}"
        for name in written:
            answer = rows(oracle(app, name, given, spark))
            assert answer
            assert rows(driver.view(name) if name in VIEWS else driver.read(name)) == answer, f"seed {seed}, {name}"
        gone = {json.loads(record.key or b"{}")["id"] for record in driver.records("copied") if record.value is None}
        assert len(gone) == 10, f"seed {seed}: only what was deleted was ever away"
        assert all(KEPT <= key < 60 for key in gone), f"seed {seed}"
