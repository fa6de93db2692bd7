"""What the state of an operator depends on is written down, so that a changed declaration is not run on old state."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.kernel import bridge
from headrace.operators.upserts import to_upserts

OF_STREAM = ("cast(value as string) as id", "cast(value as string) as name", "timestamp as at")
OF_TABLE = ("cast(value as string) as id", "cast(value as string) as name", "value as n", "cast(value as int) as small",
            "'+' as change")  # fmt: skip
Declared = Callable[[DataFrame], DataFrame]


def joined(rows: DataFrame, on: str) -> DataFrame:
    other = rows.selectExpr("id as other", "n as much", "change")
    return hr.join(rows, other, on={on: "other"})


CHANGED: dict[str, tuple[Declared, Declared]] = {
    "the left column of a join": (lambda rows: joined(rows, "id"), lambda rows: joined(rows, "name")),
    "a column of a view behind a join": (
        lambda rows: to_upserts(joined(rows, "id").select("id", "change"), ["id"]),
        lambda rows: to_upserts(joined(rows, "id").select("id", "name", "change"), ["id"]),
    ),
    "the key of a view behind a join": (
        lambda rows: to_upserts(joined(rows, "id"), ["id"]),
        lambda rows: to_upserts(joined(rows, "id"), ["name"]),
    ),
    "a column of a ranking": (
        lambda rows: hr.top(rows.drop("small"), 3, by="n", within="id"),
        lambda rows: hr.top(rows, 3, by="n", within="id"),
    ),
    "a column of a sliding count": (
        lambda rows: hr.sliding(rows.select("at", "id"), within="1 minute", by="id", c=hr.count()),
        lambda rows: hr.sliding(rows.select("at", "id", "name"), within="1 minute", by="id", c=hr.count()),
    ),
    "the type of what is counted": (
        lambda rows: hr.aggregate(rows, by="id", c=hr.count_distinct("n")),
        lambda rows: hr.aggregate(rows, by="id", c=hr.count_distinct("small")),
    ),
    "the type of what is compared": (
        lambda rows: hr.aggregate(rows, by="id", c=hr.max_by("name", "n")),
        lambda rows: hr.aggregate(rows, by="id", c=hr.max_by("name", "small")),
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_change_that_old_state_does_not_fit_is_seen(spark: SparkSession, what: str):
    def operators(declared: Declared) -> list[str]:
        ticks = spark.readStream.format("rate").load()
        sliding = what == "a column of a sliding count"
        rows = hr.event_time(ticks.selectExpr(*OF_STREAM), "at") if sliding else ticks.selectExpr(*OF_TABLE)
        with bridge.building(bridge.Build("orders", "orders.late", {})) as build:
            declared(rows)
        return build.operators

    before, after = CHANGED[what]
    assert operators(before) == operators(before)
    assert operators(before) != operators(after)
