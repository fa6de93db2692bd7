"""`aggregate`: whatever comes, changes and goes, in whatever batches, the aggregates of the rows that the table has."""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.testing import Delete, Driver, Simulation, oracle
from headrace.testing.change import Event

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
LARGE = 9_000_000_000_000_000_000
WEIGHTS = (None, 0.1, 0.2, 0.3, -0.0, 1e300, -1e300, 1e-5, 12.75, math.inf, math.nan)

app = hr.App("aggregates")
app.table(
    "sales",
    schema="id bigint, shop string, item string, amount bigint, price decimal(10,2), owed decimal(30,4), weight double",
    key="id",
    partitions=3,
)
app.table("items", hr.postgres("public.items"), schema="name string, maker string, cost int", key="name")


@app.view(key="shop")
def shops(sales):
    return hr.aggregate(
        sales,
        by="shop",
        n=hr.count(),
        priced=hr.count("price"),
        amounts=hr.sum("amount"),
        revenue=hr.sum("price"),
        owed=hr.sum("owed"),
        weight=hr.sum("weight"),
        mean=hr.avg("weight"),
        cheapest=hr.min("price"),
        last_item=hr.max("item"),
        lightest=hr.min("weight"),
        items=hr.count_distinct("item", where="amount > 0"),
        best=hr.max_by("id", "price"),
        worst=hr.min_by("struct(item, id)", "price"),
        dearest=hr.max_by("item", "amount", ties=2),
    )


@app.stream
def pairs(sales):
    return hr.aggregate(sales, by=["shop", "item"], n=hr.count(), most=hr.max("amount"))


@app.stream(partitions=1)
def everything(sales):
    return hr.aggregate(sales, by=[], n=hr.count(), least=hr.min("id"), items=hr.count_distinct("item"))


@app.stream
def sizes(sales):
    """An aggregate of an aggregate: how many shops have so many sales."""
    return hr.aggregate(hr.aggregate(sales, by="shop", n=hr.count()), by="n", shops=hr.count(), last=hr.max("shop"))


@app.stream
def makers(sales, items):
    """Joined, aggregated and ranked in one query."""
    sold = hr.join(sales, items, on={"item": "name"})
    return hr.top(hr.aggregate(sold, by="maker", cost=hr.sum("cost")), 2, by="cost")


@app.view(key="shop")
def split(sales):
    return hr.aggregate(
        sales,
        by="shop",
        skew="split",
        n=hr.count(),
        priced=hr.count("price"),
        amounts=hr.sum("amount"),
        revenue=hr.sum("price"),
        owed=hr.sum("owed"),
        whole_price=hr.avg("cast(price * 4 as int)"),
        cheapest=hr.min("price"),
        last_item=hr.max("item"),
        items=hr.count_distinct("item", where="amount > 0"),
        best=hr.max_by("id", "price"),
        worst=hr.min_by("struct(item, id)", "price"),
    )


phone = hr.App("phone")
phone.stream("calls", schema="who string, seconds int")


@phone.view(key="who")
def callers(calls):
    return hr.aggregate(calls, by="who", n=hr.count(), longest=hr.max("seconds"))


STREAMS = ("pairs", "everything", "sizes", "makers")
TABLES = ("sales", "items")


def history(dice: random.Random, count: int) -> list[tuple[str, Event]]:
    """Puts, changes of every column, deletions of rows that are there and of some that are not, repeats, and nulls."""
    made: list[tuple[str, Event]] = []
    for _ in range(count):
        kind = dice.random()
        if kind < 0.55:
            made.append(("sales", sale(dice)))
        elif kind < 0.8:
            made.append(("sales", Delete({"id": dice.randrange(40)})))
        elif kind < 0.93:
            row = {"name": f"i{dice.randrange(5)}", "maker": dice.choice(["a", "b", None]), "cost": dice.randrange(9)}
            made.append(("items", row))
        else:
            made.append(("items", Delete({"name": f"i{dice.randrange(5)}"})))
        if dice.random() < 0.1:
            made.append(made[-1])
    return made


def sale(dice: random.Random) -> dict[str, Any]:
    """A sale; the large amounts are of two ids, so that their sum fits a bigint."""
    number = dice.randrange(40)
    large = {0: LARGE, 1: -LARGE}.get(number, 4)
    return {
        "id": number,
        "shop": dice.choice(["x", "y", "z"]),
        "item": dice.choice([f"i{dice.randrange(6)}", None]),
        "amount": dice.choice([None, 0, 1, 2, 3, large, large]),
        "price": dice.choice([None, Decimal(dice.randrange(500)) / 100]),
        "owed": dice.choice([None, Decimal("99999999999999999999999999.9999"), Decimal(dice.randrange(9)) / 10000]),
        "weight": dice.choice(WEIGHTS if dice.random() < 0.5 else (None, dice.random(), dice.uniform(-1e9, 1e9))),
    }


def model(events: Sequence[tuple[str, Event]]) -> dict[str, dict[Any, dict[str, Any]]]:
    """The tables, as dictionaries."""
    tables: dict[str, dict[Any, dict[str, Any]]] = {"sales": {}, "items": {}}
    for name, event in events:
        key = "id" if name == "sales" else "name"
        if isinstance(event, Delete):
            tables[name].pop(event.key[key], None)
        elif isinstance(event, dict):
            tables[name][event[key]] = event
    return tables


def of(table: str, events: Sequence[tuple[str, Event]]) -> list[Event]:
    return [event for name, event in events if name == table]


# What is compared


def text(row: dict[str, Any]) -> str:
    """A row without the sums of doubles, which the batch twin rounds at every step."""
    return json.dumps({k: v for k, v in row.items() if k not in ("change", "weight", "mean")}, sort_keys=True)


def folded(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[text(row)] += {"+": 1, "-": -1}[row["change"]]
    return Counter({row: times for row, times in found.items() if times})


def by_hand(sales: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """`shops` of the rows of the table, in plain Python."""
    groups: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in sales:
        groups[row["shop"]].append(row)
    return {shop: _shop(rows) for shop, rows in groups.items()}


def _shop(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def values(column: str) -> list[Any]:
        return [row[column] for row in rows if row[column] is not None]

    def total(column: str) -> Any:
        return sum(values(column)) if values(column) else None

    weights = values("weight")
    priced = [row for row in rows if row["price"] is not None]
    best = min(priced, key=lambda row: (-row["price"], row["id"]), default=None)
    worst = min(priced, key=lambda row: (row["price"], row["item"] is not None, row["item"], row["id"]), default=None)
    most = max(values("amount"), default=None)
    tied = [row["item"] for row in rows if most is not None and row["amount"] == most]
    return {
        "n": len(rows),
        "priced": len(priced),
        "amounts": total("amount"),
        "revenue": total("price"),
        "owed": total("owed"),
        "weight": _real(weights),
        "mean": None if not weights else _real(weights) / len(weights),
        "cheapest": min(values("price"), default=None),
        "last_item": max(values("item"), default=None),
        "lightest": min(weights, key=lambda w: (math.isnan(w), w), default=None),
        "items": len({row["item"] for row in rows if (row["amount"] or 0) > 0 and row["item"] is not None}),
        "best": best and best["id"],
        "worst": worst and {"item": worst["item"], "id": worst["id"]},
        "dearest": None if most is None else sorted(tied, key=lambda item: (item is not None, item or ""))[:2],
    }


def _real(values: Sequence[float]) -> Any:
    if any(map(math.isnan, values)):
        return math.nan
    return math.fsum(values) if values else None


def same(found: Any, wanted: Any) -> bool:
    """Whether a value of a record is this one; not one digit may be wrong."""
    if isinstance(wanted, dict):
        return all(same(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, float) and not math.isfinite(wanted):
        return str(found).replace("Infinity", "inf").lower() == str(wanted)
    if isinstance(wanted, Decimal):
        return Decimal(str(found)) == wanted
    return found == wanted


def test_the_aggregates_of_what_the_table_has(
    spark: SparkSession, driven: Callable[[hr.App], Simulation | Driver], seed: int
):
    """Half way against dictionaries, and at the end, after two crashes, against the batch twin too."""
    dice = random.Random(seed)
    for _ in range(CASES):
        events = history(dice, 240)
        half = len(events) // 2
        with driven(app) as driver:
            for part in (slice(half), slice(half, None)):
                for name in TABLES:
                    driver.push(name, of(name, events[part]))
                driver.advance()
                check_by_hand(driver, events[: part.stop], f"seed {seed}, up to {part.stop}")
                driver.crash(seed=dice.randrange(2**32))
            driver.advance()
            check_by_hand(driver, events, f"seed {seed}, at the end")
            given = {name: of(name, events) for name in TABLES}
            for name in ("shops", "split"):
                answer = sorted(map(text, oracle(app, name, given, spark)))
                assert sorted(map(text, driver.view(name))) == answer, f"seed {seed}, {name}"
            for name in STREAMS:
                assert folded(driver.read(name)) == folded(oracle(app, name, given, spark)), f"seed {seed}, {name}"


def check_by_hand(driver: Simulation | Driver, events: Sequence[tuple[str, Event]], where: str) -> None:
    found = {row["shop"]: row for row in driver.view("shops")}
    wanted = by_hand(model(events)["sales"].values())
    assert found.keys() == wanted.keys(), where
    for shop, row in wanted.items():
        given = found[shop]
        wrong = {name: (given.get(name), value) for name, value in row.items() if not same(given.get(name), value)}
        assert not wrong, f"{where}, {shop}: {wrong}"


def test_in_live_mode(spark: SparkSession, bootstrap: str, seed: int):
    declared = hr.App("live_aggregates")
    declared.table("sales", schema="id bigint, shop string, amount int", key="id")

    @declared.view(key="shop")
    def shops(sales):
        return hr.aggregate(sales, by="shop", n=hr.count(), total=hr.sum("amount"), most=hr.max("amount"))

    dice = random.Random(seed)
    events: list[Event] = []
    for _ in range(60):
        if dice.random() < 0.6:
            events.append({"id": dice.randrange(15), "shop": dice.choice("xy"), "amount": dice.randrange(9)})
        else:
            events.append(Delete({"id": dice.randrange(15)}))
    with Driver(declared, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("sales", events[:30])
        driver.advance()
        driver.crash(seed=seed)
        driver.push("sales", events[30:])
        driver.advance()
        answer = sorted(map(text, oracle(declared, "shops", {"sales": events}, spark)))
        assert sorted(map(text, driver.view("shops"))) == answer, f"seed {seed}"


def test_a_large_group(spark: SparkSession, bootstrap: str, seed: int):
    """More values than a page holds, and then fewer and fewer."""
    declared = hr.App("large_group")
    declared.table("sales", schema="id bigint, amount bigint", key="id", partitions=2)

    @declared.view(key="all")
    def totals(sales):
        kept = hr.aggregate(
            sales, by=[], least=hr.min("amount"), most=hr.max("amount"), n=hr.count(),
            different=hr.count_distinct("amount"), whose=hr.max_by("id", "amount"),
        )  # fmt: skip
        return kept.selectExpr("1 as all", "*")

    dice = random.Random(seed)
    table: dict[int, int] = {}

    def put(count: int) -> list[Event]:
        rows = [{"id": dice.randrange(5000), "amount": dice.randrange(3000)} for _ in range(count)]
        table.update((row["id"], row["amount"]) for row in rows)
        return list(rows)

    def delete(share: Callable[[int], bool]) -> list[Event]:
        gone = [key for key, amount in table.items() if share(amount)]
        for key in gone:
            del table[key]
        return [Delete({"id": key}) for key in gone]

    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        for change in (
            lambda: put(3000),
            lambda: delete(lambda amount: amount < 700 or amount > 2000),
            lambda: put(50),
            lambda: delete(lambda amount: amount % 8 > 0),
        ):
            driver.push("sales", change())
            driver.advance()
            (row,) = driver.view("totals")
            most = max(table.values())
            assert row == {
                "all": 1, "least": min(table.values()), "most": most, "n": len(table),
                "different": len(set(table.values())), "whose": min(k for k, v in table.items() if v == most),
            }, f"seed {seed}"  # fmt: skip
            driver.crash(seed=dice.randrange(2**32))
        driver.push("sales", delete(lambda _: True))
        driver.advance()
        assert driver.view("totals") == []
        until = time.monotonic() + 30
        while (left := driver.progress()["totals"].operators.get("aggregate")) is None or left["keys"]:
            assert time.monotonic() < until, f"still held: {left}"
            time.sleep(0.1)


def test_of_a_stream(spark: SparkSession, bootstrap: str):
    calls = [{"who": who, "seconds": seconds} for who, seconds in (("ann", 3), ("bob", 9), ("ann", 7), ("ann", 7))]
    with Driver(phone, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("calls", calls[:2])
        driver.advance()
        driver.push("calls", calls[2:])
        driver.advance()
        found = sorted((row["who"], row["n"], row["longest"]) for row in driver.view("callers"))
        assert found == [("ann", 3, 7), ("bob", 1, 9)]
        assert sorted(map(text, oracle(phone, "callers", {"calls": calls}, spark))) == sorted(
            map(text, driver.view("callers"))
        )


def test_a_hot_key_is_named(spark: SparkSession, bootstrap: str):
    calls = [{"who": "ann" if n % 3 else f"x{n}", "seconds": 1} for n in range(20_000)]
    with Driver(phone, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("calls", calls)
        driver.advance()
        until = time.monotonic() + 30
        while not (hot := driver.progress()["callers"].hot) and time.monotonic() < until:
            time.sleep(0.1)
        assert hot.keys() == {"aggregate"}
        assert hot["aggregate"]["key"] == '{"who":"ann"}'
        assert 0.5 < float(hot["aggregate"]["share"]) < 0.8


@pytest.mark.parametrize(
    ("by", "aggregates", "code"),
    [
        ("shop", {}, "HR-037"),
        ("shop", {"n": 1}, "HR-037"),
        ("nope", {"n": hr.count()}, "HR-030"),
        ("weight", {"n": hr.count()}, "HR-032"),
        ("shop", {"change": hr.count()}, "HR-036"),
        ("shop", {"shop": hr.count()}, "HR-036"),
        ("shop", {"n": hr.sum("shop")}, "HR-034"),
        ("shop", {"n": hr.sum("nope")}, "HR-033"),
        ("shop", {"n": hr.first("weight")}, "HR-055"),
        ("shop", {"n": hr.last("weight")}, "HR-055"),
        ("shop", {"n": hr.collect("weight")}, "HR-055"),
        ("shop", {"n": hr.approx_distinct("weight")}, "HR-055"),
        ("shop", {"n": hr.approx_quantile("weight", 0.5)}, "HR-055"),
        ("shop", {"n": hr.max_by("shop", "weight", ties=2), "skew": "split"}, "HR-055"),
        ("shop", {"n": hr.count_distinct("shop"), "m": hr.count_distinct("weight"), "skew": "split"}, "HR-055"),
        ("shop", {"n": hr.count(), "skew": "salt"}, "HR-040"),
        ("shop", {"skew": hr.count()}, "HR-036"),
    ],
)
def test_a_mistake_is_named_where_it_was_made(spark: SparkSession, by: str, aggregates: dict[str, Any], code: str):
    rows = spark.createDataFrame([], "shop string, weight double, change string")
    with pytest.raises(DeclarationError) as raised:
        hr.aggregate(rows, by=by, **aggregates)
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
