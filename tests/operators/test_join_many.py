"""Joins in which a key has many rows, of which only what has changed is written: after crashes they are all there.

A batch brings fewer rows than a key has, so that changes are written; after a crash the state is what was written.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

import headrace as hr
from headrace.testing import Delete, Driver, Simulation, oracle

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
PARTS, EACH, ORDERS = 7, 70, 300
START = datetime(2026, 1, 1, tzinfo=UTC)
STEP_S = 3

app = hr.App("many")
app.table("orders", schema="id bigint, country string, amount int", key="id", partitions=2)
app.table("countries", schema="name string, rate int", key="name")
app.table("rates", schema="country string, number int, valid_from timestamp, valid_to timestamp, rate int",
          key=["country", "number"])  # fmt: skip
app.stream("clicks", schema="click int, country string, at timestamp", event_time="at", partitions=2)
app.stream("shows", schema="show int, country string, shown timestamp", event_time="shown", partitions=2)


@app.stream
def sold(orders, countries):
    return hr.join(orders, countries, on={"country": "name"}, how="full")


@app.stream
def near(clicks, shows):
    return hr.join(clicks, shows, on="country", within=("-10 seconds", "3 hours"), how="left")


@app.stream
def rated(clicks, rates):
    return hr.join(clicks, rates, on="country", as_of="at", correct=True, how="left", retention="1 day")


TABLES = ("sold", "rated")


def part(dice: random.Random, number: int) -> Iterable[tuple[str, Any]]:
    """Rows of a batch; of some orders the country changes, some are deleted."""
    for n in range(number * EACH, (number + 1) * EACH):
        order, country = dice.randrange(ORDERS), dice.choice("aaab")
        if dice.random() < 0.15:
            yield "orders", Delete({"id": order})
        else:
            yield "orders", {"id": order, "country": country, "amount": dice.randrange(100)}
        at = START + timedelta(seconds=n * STEP_S)
        yield "clicks", {"click": n, "country": dice.choice("aaabc"), "at": at}
        if dice.random() < 0.06:
            yield "shows", {"show": n, "country": dice.choice("aab"), "shown": at}
    if dice.random() < 0.4:
        yield "countries", dice.choice([Delete({"name": "a"}), {"name": "a", "rate": number}])
    if dice.random() < 0.4:
        since = START + timedelta(seconds=dice.randrange(PARTS * EACH * STEP_S))
        row = {"country": "a", "number": dice.randrange(3), "valid_from": since, "valid_to": None}
        yield "rates", row | {"rate": number}


def closing() -> Iterable[tuple[str, Any]]:
    """Changes that all rows of a key hear of, and what brings the watermark behind all intervals."""
    yield "countries", {"name": "a", "rate": -1}
    yield "rates", {"country": "a", "number": 0, "valid_from": START, "valid_to": None, "rate": -1}
    at = START + timedelta(hours=20)
    for _ in range(2):
        yield "clicks", {"click": -1, "country": "end", "at": at}
        yield "shows", {"show": -1, "country": "END", "shown": at}


def text(row: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in row.items() if k != "change"}, sort_keys=True)


def folded(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[text(row)] += -1 if row.get("change") == "-" else 1
    return Counter({row: times for row, times in found.items() if times})


def test_many_rows_of_a_key(spark: SparkSession, driven: Callable[[hr.App], Simulation | Driver], seed: int):
    dice = random.Random(seed)
    for _ in range(CASES):
        given: dict[str, list[Any]] = {name: [] for name in ("orders", "countries", "rates", "clicks", "shows")}
        with driven(app) as driver:

            def push(
                events: Iterable[tuple[str, Any]], driver: Simulation | Driver = driver, given: Any = given
            ) -> None:
                batch: dict[str, list[Any]] = {}
                for name, event in events:
                    batch.setdefault(name, []).append(event)
                for name, found in batch.items():
                    driver.push(name, found)
                    given[name] += found
                driver.advance()

            for number in range(PARTS):
                push(part(dice, number))
                if dice.random() < 0.2:
                    driver.crash(seed=dice.randrange(2**32))
            driver.crash(seed=dice.randrange(2**32))
            push(closing())
            for name in TABLES:
                wanted = folded(oracle(app, name, given, spark))
                assert folded(driver.read(name)) == wanted, f"seed {seed}, {name}"
            assert driver.late("near") == [], f"seed {seed}"
            wanted = folded(row for row in oracle(app, "near", given, spark) if row["click"] != -1)
            assert folded(row for row in driver.read("near") if row["click"] != -1) == wanted, f"seed {seed}, near"
