"""Aggregates: each against a plain-Python model, over groups and over rows, and each mistake with its code."""

from __future__ import annotations

import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import headrace as hr
from headrace.errors import DeclarationError
from headrace.operators import aggregate
from headrace.operators.aggregate import Aggregate
from headrace.operators.window import ddl

SEEDS = range(int(os.environ.get("HEADRACE_DEEP", "1")))
START = datetime(2026, 1, 1, tzinfo=UTC)
WITHIN = timedelta(seconds=4)
SCHEMA = (
    "k string, at timestamp, i int, l bigint, f float, d double, m decimal(10,2), s string, b boolean, raw binary,"
    " day date, seen timestamp"
)
COLUMNS = ("i", "l", "f", "d", "m", "s", "b", "raw", "day", "seen")
NUMBERS = ("i", "l", "f", "d", "m")
Event = dict[str, Any]


def events(seed: int) -> list[Event]:
    """Rows of few different values, so that there are ties in everything; a third of the values are null."""
    dice = random.Random(seed)

    def one() -> Event:
        row = {
            "i": dice.randrange(-3, 4),
            "l": dice.randrange(-3, 4) * 10**15,
            "f": dice.choice([0.0, -0.0, 0.25, -1.5, math.nan, math.inf]),
            "d": dice.choice([0.0, -0.0, 0.25, -1.5, 3.0, math.nan, math.inf, -math.inf]),
            "m": Decimal(dice.randrange(-500, 500)) / 4,
            "s": dice.choice(["", "a", "b", "ß", "ﬀ", "😀"]),
            "b": dice.random() < 0.5,
            "raw": bytearray(dice.choice([b"", b"\x00", b"\x7f", b"\x80", b"\xff\x01"])),
            "day": date(2026, 1, 1) + timedelta(days=dice.randrange(-2, 3)),
            "seen": START + timedelta(microseconds=dice.randrange(3)),
        }
        row = {name: None if dice.random() < 1 / 3 else value for name, value in row.items()}
        at = START + timedelta(microseconds=dice.randrange(12) * 999_999)
        return {"k": f"k{dice.randrange(40)}", "at": at, **row}

    nothing = {"k": "nothing", "at": START, **dict.fromkeys(COLUMNS)}
    return [*(one() for _ in range(400)), nothing]


# The model: SQL's order, then each aggregate of a list of rows in no particular order


def order(value: Any) -> Any:
    """A key that sorts values as SQL does: null, then numbers, then NaN."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, bytes(value) if isinstance(value, bytearray) else value)


def plain(value: Any) -> Any:
    """One zero, and bytes that can be told apart."""
    if isinstance(value, float):
        return value + 0.0
    return bytes(value) if isinstance(value, bytearray) else value


def text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        stamp = f"{value:%Y-%m-%d %H:%M:%S}"
        return f"{stamp}.{value.microsecond:06}".rstrip("0") if value.microsecond else stamp
    if isinstance(value, Decimal):
        return f"{value:.2f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value)


def values(rows: Sequence[Event], column: str) -> list[Any]:
    return [plain(row[column]) for row in rows if row[column] is not None]


def in_time(rows: Sequence[Event], column: str) -> list[Any]:
    kept = [row for row in rows if row[column] is not None]
    return [plain(row[column]) for row in sorted(kept, key=lambda row: (row["at"], order(row[column])))]


def extreme(rows: Sequence[Event], column: str, by: str, greatest: bool) -> Any:
    kept = [row for row in rows if row[by] is not None]
    if not kept:
        return None
    best = (max if greatest else min)((row[by] for row in kept), key=order)
    return plain(min((row[column] for row in kept if order(row[by]) == order(best)), key=order))


def total(found: list[Any]) -> Any:
    return sum(found[1:], found[0]) if found else None


def mean(found: list[Any]) -> float | None:
    return float(sum(found)) / len(found) if found else None


def quantile(found: list[Any], q: float) -> float | None:
    ordered = sorted(float(value) for value in found if not math.isnan(value))
    return ordered[max(math.ceil(round(q * len(ordered), 7)), 1) - 1] if ordered else None


def distinct(found: list[Any]) -> int:
    return len({order(value) for value in found})


def top(found: list[Any], k: int) -> list[tuple[str, int]]:
    counts = Counter(text(value) for value in found)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


Model = Callable[[Sequence[Event]], Any]


def cases() -> dict[str, tuple[Aggregate, Model]]:
    """Every aggregate over every type that it takes, with its model."""
    made: dict[str, tuple[Aggregate, Model]] = {
        "n": (hr.count(), len),
        "stars": (hr.count("*"), len),
        "n_where": (hr.count(where="i > 0"), lambda rows: sum(1 for v in values(rows, "i") if v > 0)),
        "n_struct": (
            hr.count("case when i > 0 then struct(i) end"),
            lambda rows: sum(v > 0 for v in values(rows, "i")),
        ),
        "doubled": (hr.sum("i * 2"), lambda rows: total([v * 2 for v in values(rows, "i")])),
        "sum_where": (
            hr.sum("m", where="s = 'a'"),
            lambda rows: total(values([row for row in rows if row["s"] == "a"], "m")),
        ),
        "min_by_where": (
            hr.min_by("s", "d", where="b"),
            lambda rows: extreme([row for row in rows if row["b"]], "s", "d", greatest=False),
        ),
        "collect_where": (
            hr.collect("s", most=3, where="i >= 0"),
            lambda rows: in_time([row for row in rows if row["i"] is not None and row["i"] >= 0], "s")[:3],
        ),
        "counts": (
            hr.count_min("i", of=[-1, 2, "7"]),
            lambda rows: {word: [str(v) for v in values(rows, "i")].count(word) for word in ("-1", "2", "7")},
        ),
        "flags": (
            hr.count_min("b", of=[True], where="i > 0"),
            lambda rows: {"true": sum(1 for row in rows if row["b"] and row["i"] is not None and row["i"] > 0)},
        ),
    }
    for c in COLUMNS:
        made |= {
            f"n_{c}": (hr.count(c), lambda rows, c=c: len(values(rows, c))),
            f"min_{c}": (hr.min(c), lambda rows, c=c: min(values(rows, c), key=order, default=None)),
            f"max_{c}": (hr.max(c), lambda rows, c=c: max(values(rows, c), key=order, default=None)),
            f"first_{c}": (hr.first(c), lambda rows, c=c: next(iter(in_time(rows, c)), None)),
            f"last_{c}": (hr.last(c), lambda rows, c=c: next(iter(in_time(rows, c)[::-1]), None)),
            f"min_by_{c}": (hr.min_by(c, "i"), lambda rows, c=c: extreme(rows, c, "i", greatest=False)),
            f"max_by_{c}": (hr.max_by(c, "i"), lambda rows, c=c: extreme(rows, c, "i", greatest=True)),
            f"least_{c}": (hr.min_by("s", c), lambda rows, c=c: extreme(rows, "s", c, greatest=False)),
            f"most_{c}": (hr.max_by("s", c), lambda rows, c=c: extreme(rows, "s", c, greatest=True)),
            f"collect_{c}": (hr.collect(c, most=4), lambda rows, c=c: in_time(rows, c)[:4]),
            f"distinct_{c}": (hr.count_distinct(c), lambda rows, c=c: distinct(values(rows, c))),
            f"about_{c}": (hr.approx_distinct(c), lambda rows, c=c: distinct(values(rows, c))),
        }
        if c != "raw":
            made[f"top_{c}"] = (hr.approx_top_k(c, 3), lambda rows, c=c: top(values(rows, c), 3))
    for c in NUMBERS:
        made[f"sum_{c}"] = (hr.sum(c), lambda rows, c=c: total(values(rows, c)))
        if c != "m":
            made[f"avg_{c}"] = (hr.avg(c), lambda rows, c=c: mean(values(rows, c)))
        for q in (0, 0.5, 0.07, 0.99, 1):
            name = f"q{int(q * 100)}_{c}"
            made[name] = (hr.approx_quantile(c, q), lambda rows, c=c, q=q: quantile(values(rows, c), q))
    return made


def shown(value: Any) -> Any:
    """A value as it is compared: equal NaN, datetimes of UTC, structs as tuples."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, list):
        return [shown(one) for one in value]
    return plain(tuple(value) if isinstance(value, tuple) else value)


def frame(spark: SparkSession, rows: Sequence[Event]) -> DataFrame:
    names = ["k", "at", *COLUMNS]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], SCHEMA)


@pytest.fixture
def empty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA + ", tags array<string>, place struct<city: string>, v variant")


@pytest.mark.parametrize("seed", SEEDS)
def test_each_aggregate_of_a_group_equals_its_model(spark: SparkSession, seed: int):
    rows, declared = events(seed), cases()
    groups: defaultdict[str, list[Event]] = defaultdict(list)
    for row in rows:
        groups[row["k"]].append(row)
    # Spark runs many distinct counts beside many other aggregates very slowly.
    for distinct_too in (True, False):
        asked: dict[str, Any] = {
            name: one for name, (one, _) in declared.items() if ("distinct" in one.kind) == distinct_too
        }
        found = hr.window(frame(spark, rows), hr.global_(), by="k", at="at", **asked)
        answers = {row["k"]: row for row in found.collect()}
        assert set(answers) == set(groups)
        for key, members in groups.items():
            for name in asked:
                assert shown(answers[key][name]) == shown(declared[name][1](members)), f"seed {seed}, {key}, {name}"


@pytest.mark.parametrize("seed", SEEDS)
def test_each_aggregate_before_a_row_equals_its_model(spark: SparkSession, seed: int):
    rows, declared = events(seed), cases()
    # One case of each kind and of each type that matters is enough here.
    kept = {name: case for name, case in declared.items() if not name.endswith(("_l", "_b", "_day", "_seen", "_f"))}
    asked: dict[str, Any] = {name: one for name, (one, _) in kept.items()}
    found = hr.sliding(frame(spark, rows), by="k", within=WITHIN, at="at", **asked).collect()
    assert len(found) == len(rows)
    for row in found:
        at = row["at"].astimezone(UTC)
        members = [one for one in rows if one["k"] == row["k"] and at - WITHIN < one["at"] <= at]
        for name, (_, model) in kept.items():
            assert shown(row[name]) == shown(model(members)), f"seed {seed}, key {row['k']}, at {at}, {name}"


def test_a_rank_that_is_whole_is_not_rounded_up(spark: SparkSession):
    """0.07 × 100 is 7.000000000000001 in floating point."""
    rows = spark.range(1, 101).selectExpr("id", "timestamp_seconds(id) as at")
    asked: dict[str, Any] = {f"q{n}": hr.approx_quantile("id", n / 100) for n in range(101)}
    found = hr.window(rows, hr.global_(), by=[], at="at", **asked).collect()[0]
    assert {name: found[name] for name in asked} == {f"q{n}": float(n or 1) for n in range(101)}


def test_the_types_of_the_results(empty: DataFrame):
    found = hr.window(
        empty, hr.global_(), by=[], at="at",
        n=hr.count("tags"), i=hr.sum("i"), f=hr.sum("f"), m=hr.sum("m"), wide=hr.sum("cast(m as decimal(30,4))"),
        mean=hr.avg("l"), low=hr.min("f"), all=hr.collect("day"), d=hr.count_distinct("s"), a=hr.approx_distinct("s"),
        q=hr.approx_quantile("m", 0.5), t=hr.approx_top_k("i", 3), c=hr.count_min("s", "x"), last=hr.last("place.city"),
    )  # fmt: skip
    assert found.schema.simpleString() == (
        "struct<n:bigint,i:bigint,f:double,m:decimal(20,2),wide:decimal(38,4),mean:double,low:float,all:array<date>,"
        "d:bigint,a:bigint,q:double,t:array<struct<item:string,count:bigint>>,c:map<string,bigint>,last:string,"
        "change:string>"
    )


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("made", "expression"),
    [
        ("explode(array(9223372036854775807L, 1L))", "v"),
        ("explode(array(-9223372036854775808L, -1L))", "v"),
        (f"explode(array(cast('{'9' * 38}' as decimal(38,0)), cast(1 as decimal(38,0))))", "v"),
    ],
)
def test_a_sum_that_does_not_fit_is_an_error(spark: SparkSession, made: str, expression: str, ansi: str):
    rows = spark.sql(f"select {made} as v, timestamp'2026-01-01 00:00:00Z' as at")
    before = spark.conf.get("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        with pytest.raises(PySparkException, match="does not fit"):
            hr.window(rows, hr.global_(), by=[], at="at", much=hr.sum(expression)).collect()
        with pytest.raises(PySparkException, match="does not fit"):
            hr.sliding(rows, by=[], within="1 second", at="at", much=hr.sum(expression)).collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))


def test_a_sum_may_be_too_large_on_the_way(spark: SparkSession):
    rows = spark.sql("SELECT explode(array(9000000000000000000L, 9000000000000000000L, -9000000000000000000L)) AS n")
    (one,) = hr.aggregate(rows, by=[], total=hr.sum("n")).collect()
    assert one.total == 9_000_000_000_000_000_000


def test_groups_are_made_of_texts_that_are_equal_byte_by_byte(spark: SparkSession):
    rows = spark.sql("SELECT 'Ann' COLLATE UTF8_LCASE AS who, timestamp '2026-01-01 00:00:00' AS at")
    with pytest.raises(DeclarationError, match="cannot make groups by `who`"):
        hr.aggregate(rows, by="who", n=hr.count())
    with pytest.raises(DeclarationError, match="cannot tell events apart by `who`"):
        hr.dedupe(rows, by="who", within="1 minute", at="at")


def test_names_inside_of_structs_are_quoted(spark: SparkSession):
    made = "a struct<`street-no`: int, `b c`: array<struct<`d``e`: map<string, struct<`f g`: double>>>>>"
    schema = spark.createDataFrame([], made).schema
    assert StructType.fromDDL(ddl([(field.name, field.dataType) for field in schema.fields])) == schema


def test_inputs_are_shared_and_cast(empty: DataFrame):
    bound, prepared = aggregate.bind(
        empty,
        {
            "n": hr.count(),
            "some": hr.count(where="i > 0"),
            "many": hr.count(where="i > 0"),
            "a": hr.sum("i"),
            "b": hr.sum("i", where="b"),
            "c": hr.avg("i"),
            "d": hr.max_by("s", "i"),
            "e": hr.min("i"),
            "f": hr.approx_top_k("i", 2, capacity=64),
            "g": hr.count("tags"),
            "h": hr.count_min("s", of=["x"]),
        },
        "window",
        ["k"],
    )
    assert [(field.name, field.dataType.simpleString()) for field in prepared.schema.fields[len(empty.columns) :]] == [
        ("__hr_in_0", "int"),
        ("__hr_in_1", "bigint"),
        ("__hr_in_2", "bigint"),
        ("__hr_in_3", "double"),
        ("__hr_in_4", "string"),
        ("__hr_in_5", "int"),
        ("__hr_in_6", "string"),
        ("__hr_in_7", "int"),
    ]
    assert [(one.name, one.input, one.by) for one in bound] == [
        ("n", -1, -1), ("some", 0, -1), ("many", 0, -1), ("a", 1, -1), ("b", 2, -1), ("c", 3, -1), ("d", 4, 5),
        ("e", 5, -1), ("f", 6, -1), ("g", 7, -1), ("h", 4, -1),
    ]  # fmt: skip
    told = {one.name: one.told() for one in bound}
    assert told["n"] == {
        "name": "n", "kind": "count", "input": -1, "by": -1, "type": "bigint", "input_type": None, "by_type": None,
        "taken_back": False,
    }  # fmt: skip
    assert told["d"] == {
        "name": "d", "kind": "max_by", "input": 4, "by": 5, "type": "string", "input_type": "string", "by_type": "int",
        "taken_back": False,
    }  # fmt: skip
    assert told["f"] == {
        "name": "f", "kind": "approx_top_k", "input": 6, "by": -1, "type": "array<struct<item:string,count:bigint>>",
        "input_type": "string", "by_type": None, "taken_back": False, "k": 2, "capacity": 64,
    }  # fmt: skip
    assert told["h"]["of"] == ["x"]


# Mistakes


@pytest.mark.parametrize(
    "declare",
    [
        lambda: hr.collect("s", most=0),
        lambda: hr.collect("s", most=True),
        lambda: hr.approx_distinct("s", lg_k=3),
        lambda: hr.approx_distinct("s", lg_k=22),
        lambda: hr.approx_quantile("i", -0.1),
        lambda: hr.approx_quantile("i", 99),
        lambda: hr.approx_quantile("i", math.nan),
        lambda: hr.approx_quantile("i", "0.5"),  # type: ignore[arg-type]
        lambda: hr.approx_quantile("i", 0.5, k=7),
        lambda: hr.approx_top_k("s", 0),
        lambda: hr.approx_top_k("s", 7, capacity=8),
        lambda: hr.approx_top_k("s", 2, capacity=1000),
        lambda: hr.count_min("s", of=[]),
        lambda: hr.count_min("s", of=["1", 1]),
        lambda: hr.count_min("s", of=[1.5]),  # type: ignore[list-item]
        lambda: hr.count_min("s", of=["a"], error=0),
        lambda: hr.count_min("s", of=["a"], confidence=1),
    ],
)
def test_an_option_out_of_range_is_named(declare: Callable[[], Aggregate]):
    with pytest.raises(DeclarationError) as raised:
        declare()
    assert raised.value.code == "HR-035"
    assert raised.value.where is not None
    assert raised.value.where.file == __file__


def test_an_expression_is_text(empty: DataFrame):
    with pytest.raises(DeclarationError) as raised:
        hr.sum(empty.i)  # type: ignore[arg-type]
    assert raised.value.code == "HR-033"


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (hr.sum("nope"), "HR-033"),
        (hr.sum("i +"), "HR-033"),
        (hr.sum("i, l"), "HR-033"),
        (hr.sum("sum(i)"), "HR-033"),
        (hr.max("explode(tags)"), "HR-033"),
        (hr.max("rand()"), "HR-033"),
        (hr.max("row_number() over (order by i)"), "HR-033"),
        (hr.count(where="nope > 1"), "HR-033"),
        (hr.min_by("s", "nope"), "HR-033"),
        (hr.count(where="i"), "HR-034"),
        (hr.sum("s"), "HR-034"),
        (hr.sum("at"), "HR-034"),
        (hr.avg("m"), "HR-034"),
        (hr.avg("s"), "HR-034"),
        (hr.approx_quantile("day", 0.5), "HR-034"),
        (hr.max("tags"), "HR-034"),
        (hr.first("place"), "HR-034"),
        (hr.collect("v"), "HR-034"),
        (hr.count_distinct("tags"), "HR-034"),
        (hr.max("null"), "HR-034"),
        (hr.max("at - at"), "HR-034"),
        (hr.max("s collate unicode_ci"), "HR-034"),
        (hr.max_by("s", "tags"), "HR-034"),
        (hr.approx_top_k("raw", 2), "HR-034"),
        (hr.count_min("raw", "a"), "HR-034"),
        ("count(*)", "HR-037"),
    ],
)
def test_a_mistake_is_named_where_it_was_made(empty: DataFrame, one: Any, code: str):
    with pytest.raises(DeclarationError) as raised:
        hr.window(
            empty,
            hr.tumbling("1 minute"),
            by="k",
            at="at",
            fine=hr.count(),
            wrong=one,
        )
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
    assert raised.value.where.source.strip() == "wrong=one,"


def test_an_unknown_column_is_answered_with_those_there_are(empty: DataFrame):
    with pytest.raises(DeclarationError) as raised:
        hr.sliding(empty, by="k", within="1 minute", at="at", spent=hr.sum("amount"))
    assert raised.value.what == (
        "`sliding` cannot read the column of `spent`, `amount`: its input does not have such a column."
    )
    assert raised.value.found == ", ".join(empty.columns)
