"""`sliding` in batch: which rows count for a row, what comes out, and what is refused."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.errors import DeclarationError
from headrace.operators import aggregate
from headrace.operators.event_time import EventTime, marked
from headrace.operators.sliding import sliding_operator

SEEDS = range(2 * int(os.environ.get("HEADRACE_DEEP", "1")))
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "card string, bank int, amount bigint, at timestamp"


@pytest.fixture
def empty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA + ", price double, tags array<string>, `odd name` string")


@pytest.mark.parametrize("keys", [["card"], ["card", "bank"], []], ids=lambda keys: "+".join(keys) or "all")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_row_counts_what_is_within(spark: SparkSession, seed: int, keys: list[str]):
    """Times are multiples of half the length and their neighbours, so that ties and both ends of the range occur."""
    dice = random.Random(seed)
    within = timedelta(milliseconds=7)

    def time() -> datetime | None:
        if dice.random() < 0.05:
            return None
        return START + timedelta(microseconds=dice.randrange(-12, 12) * 3500 + dice.choice([-1, 0, 0, 1]))

    rows = [(dice.choice(["a", "b", None]), dice.choice([1, 2, None]), dice.randrange(100), time()) for _ in range(300)]
    places = [["card", "bank"].index(key) for key in keys]
    expected: Counter[Any] = Counter()
    for row in rows:
        if row[3] is not None:
            same = [
                other[2]
                for other in rows
                if other[3] is not None
                and all(other[place] == row[place] for place in places)
                and row[3] - within < other[3] <= row[3]
            ]
            expected[(*row, len(same), sum(same), max(same), "+")] += 1
    found = hr.sliding(
        spark.createDataFrame(rows, SCHEMA),
        by=keys, within=within, at="at", n=hr.count(), spent=hr.sum("amount"), most=hr.max("amount"),
    ).collect()  # fmt: skip
    assert Counter((*row[:3], row["at"].astimezone(UTC), *row[4:]) for row in found) == expected, f"seed {seed}"


def test_the_event_time_stays_marked_and_columns_stay_as_they_are(empty: DataFrame):
    rows = hr.event_time(empty, "at", delay="5 seconds")
    found = hr.sliding(rows, by="odd name", within="1 minute", emit="arrival", n=hr.count())
    assert found.columns == [*empty.columns, "n"]
    assert marked(found.schema) == EventTime("at", 5000, 30_000)
    assert marked(hr.sliding(empty, by=[], within="1 minute", at="at", n=hr.count()).schema) is None


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, True),
        ({"emit": "early", "lateness": "1 minute"}, True),
        ({"emit": "final"}, False),
        ({"emit": "final", "lateness": "1 minute", "late": "drop"}, True),
        ({"emit": "arrival"}, False),
        ({"emit": "arrival", "lateness": "1 minute"}, False),
    ],
)
def test_what_may_be_corrected_has_a_change(empty: DataFrame, options: dict[str, Any], changes: bool):
    found = hr.sliding(empty, by="card", within="1 minute", at="at", n=hr.count(), **options)
    assert found.columns == [*empty.columns, "n", *(["change"] if changes else [])]


def test_what_the_kernel_is_told(empty: DataFrame):
    bound, _ = aggregate.bind(empty, {"n": hr.count(), "spent": hr.sum("amount * 2")}, "sliding", empty.columns)
    told = sliding_operator(empty, ["card"], "at", 60_000, bound, emit="early", lateness_ms=5000, late="drop")
    assert told.told(view=True) == {
        "kind": "sliding",
        "form": 3,
        "layout": {
            "by": ["card"],
            "time": "at",
            "columns": ["card", "bank", "amount", "at", "price", "tags", "odd name"],
            "aggregates": [
                {
                    "name": "n", "kind": "count", "input": -1, "by": -1, "type": "bigint", "input_type": None,
                    "by_type": None, "taken_back": False,
                },
                {
                    "name": "spent", "kind": "sum", "input": 0, "by": -1, "type": "bigint", "input_type": "bigint",
                    "by_type": None, "taken_back": False,
                },
            ],
            "output": "`card` string, `bank` int, `amount` bigint, `at` timestamp, `price` double,"
            " `tags` array<string>, `odd name` string, `n` bigint, `spent` bigint, `change` string",
            "unique": None,
            "changes": True,
            "view": True,
        },
        "options": {"within_ms": 60_000, "early": True, "lateness_ms": 5000, "drop_late": True},
    }  # fmt: skip
    held = "`card` string, `bank` int, `amount` bigint, `at` timestamp, `price` double, `tags` array<string>"
    assert told.means(empty.schema) == {
        "kind": "sliding",
        "by": ["card string"],
        "time": "at",
        "within_ms": 60_000,
        "emit": "early",
        "lateness_ms": 5000,
        "holds": f"{held}, `odd name` string",
        "aggregates": ["n = count() as bigint", "spent = sum(amount * 2) as bigint bigint"],
        "form": 3,
    }


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"by": "nope", "within": "1 minute", "n": hr.count()}, "HR-030"),
        ({"by": "price", "within": "1 minute", "n": hr.count()}, "HR-032"),
        ({"by": ["card", "card"], "within": "1 minute", "n": hr.count()}, "HR-032"),
        ({"by": "card", "within": "soon", "n": hr.count()}, "HR-005"),
        ({"by": "card", "within": "0 seconds", "n": hr.count()}, "HR-005"),
        ({"by": "card", "within": 60, "n": hr.count()}, "HR-005"),
        ({"by": "card", "within": "1 minute", "n": hr.count(), "at": "card"}, "HR-007"),
        ({"by": "card", "within": "1 minute", "n": hr.count(), "at": None}, "HR-031"),
        ({"by": "card", "within": "1 minute", "amount": hr.sum("amount")}, "HR-036"),
        ({"by": "card", "within": "1 minute", "AMOUNT": hr.sum("amount")}, "HR-036"),
        ({"by": "card", "within": "1 minute", "n": hr.count(), "N": hr.count()}, "HR-036"),
        ({"by": "card", "within": "1 minute", "__hr_n": hr.count()}, "HR-036"),
        ({"by": "card", "within": hr.count()}, "HR-036"),
        ({"by": "card", "within": "1 minute"}, "HR-037"),
        ({"by": "card", "within": "1 minute", "every": "1 second"}, "HR-037"),
        ({"by": "card", "within": "1 minute", "n": hr.count(), "emit": "sometimes"}, "HR-040"),
        ({"by": "card", "within": "1 minute", "n": hr.count(), "late": "ignore"}, "HR-040"),
        ({"by": "card", "within": "1 minute", "n": hr.count(), "lateness": "a while"}, "HR-005"),
        ({"by": "card", "within": "1 minute", "change": hr.count()}, "HR-036"),
    ],
)
def test_a_mistake_is_named_where_it_was_made(empty: DataFrame, options: dict[str, Any], code: str):
    with pytest.raises(DeclarationError) as raised:
        hr.sliding(empty, **{"at": "at", **options})
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
