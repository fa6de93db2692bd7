"""What the state of an operator depends on is written down, so that a changed declaration is not run on old state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.kernel import bridge
from headrace.operators.table import OFFSET, SIGN, normalize
from headrace.operators.upserts import to_upserts

OF_STREAM = ("cast(value as string) as id", "cast(value as string) as name", "timestamp as at")
OF_TABLE = ("cast(value as string) as id", "cast(value as string) as name", "value as n", "cast(value as int) as small",
            "'+' as change")  # fmt: skip
OF_EVENTS = (*OF_STREAM, "timestamp as received", "value as n")
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
    columns = OF_STREAM if what == "a column of a sliding count" else OF_TABLE
    before, after = CHANGED[what]
    assert operators(spark, columns, before) == operators(spark, columns, before)
    assert operators(spark, columns, before) != operators(spark, columns, after)


def operators(spark: SparkSession, columns: Sequence[str], declared: Declared) -> list[dict[str, Any]]:
    rows = spark.readStream.format("rate").load().selectExpr(*columns)
    with bridge.building(bridge.Build("orders", "orders.late", {})) as build:
        declared(hr.event_time(rows, "at") if "at" in rows.columns else rows)
    return build.operators


def window(rows: DataFrame, windows: Any = None, **options: Any) -> DataFrame:
    given: dict[str, Any] = {"by": "id", "lateness": "1 hour", "c": hr.sum("n", where="n > 1")}
    return hr.window(rows, windows or hr.tumbling("1 hour"), **(given | options))


def sliding(rows: DataFrame, **options: Any) -> DataFrame:
    given: dict[str, Any] = {"by": "id", "within": "1 hour", "c": hr.sum("n", where="n > 1")}
    return hr.sliding(rows, **(given | options))


def dedupe(rows: DataFrame, **options: Any) -> DataFrame:
    given: dict[str, Any] = {"by": "id", "within": "1 hour"}
    return hr.dedupe(rows, **(given | options))


def aggregate(rows: DataFrame, **options: Any) -> DataFrame:
    given: dict[str, Any] = {"by": "id", "c": hr.max_by("name", "n", where="n > 1")}
    return hr.aggregate(rows, **(given | options))


def top(rows: DataFrame, n: int = 3, **options: Any) -> DataFrame:
    given: dict[str, Any] = {"by": "n", "within": "id"}
    return hr.top(rows, n, **(given | options))


def join(rows: DataFrame, **options: Any) -> DataFrame:
    given: dict[str, Any] = {"on": {"id": "other"}}
    return hr.join(rows, rows.selectExpr("id as other", "n as much", "change"), **(given | options))


def pairs(rows: DataFrame, **options: Any) -> DataFrame:
    other = rows.selectExpr("id as other", "at as on_at", "received as on_received")
    given: dict[str, Any] = {"on": {"id": "other"}, "within": ("-1 hour", "0")}
    return hr.join(rows, other, **(given | options))


def lookup(rows: DataFrame, **options: Any) -> DataFrame:
    table = rows.selectExpr("id as other", "at as valid_from", "received as valid_to", "'+' as change")
    given: dict[str, Any] = {"on": {"id": "other"}}
    return hr.join(rows, table, **(given | options))


def normalized(rows: DataFrame, key: str = "id", **_: Any) -> DataFrame:
    return normalize(rows.selectExpr("id", "name", f"'+' as {SIGN}", f"n as {OFFSET}"), [key])


MEANT: dict[str, tuple[Sequence[str], Callable[..., DataFrame], dict[str, list[dict[str, Any]]]]] = {
    "window": (
        OF_EVENTS,
        window,
        {
            "emit": [{"emit": "early"}],
            "lateness_ms": [{"lateness": "2 hours"}, {"lateness": "0 seconds"}],
            "size_ms": [{"windows": hr.tumbling("2 hours")}],
            "offset_ms": [{"windows": hr.tumbling("1 hour", offset="5 minutes")}],
            "timezone": [{"windows": hr.tumbling("1 day", timezone="Europe/Berlin")}],
            "kind": [{"windows": hr.hopping("1 hour", "1 hour")}, {"windows": hr.session("1 hour")}],
            "by": [{"by": "name"}, {"by": []}],
            "time": [{"at": "received"}],
            "aggregates": [
                {"c": hr.sum("n + 1", where="n > 1")},
                {"c": hr.sum("n", where="n > 2")},
                {"c": hr.sum("n")},
                {"c": hr.max("n", where="n > 1")},
                {"d": hr.count()},
            ],
        },
    ),
    "hopping": (
        OF_EVENTS,
        partial(window, windows=hr.hopping("1 hour", "10 minutes")),
        {"every_ms": [{"windows": hr.hopping("1 hour", "5 minutes")}]},
    ),
    "session": (
        OF_EVENTS,
        partial(window, windows=hr.session("1 hour")),
        {"gap_ms": [{"windows": hr.session("2 hours")}]},
    ),
    "global": (
        OF_EVENTS,
        partial(window, windows=hr.global_(every=5), lateness="0 seconds"),
        {
            "every_rows": [{"windows": hr.global_(every=6)}],
            "every_ms": [{"windows": hr.global_(every="5 seconds")}],
        },
    ),
    "sketches": (
        OF_EVENTS,
        partial(window, c=hr.approx_quantile("n", 0.5), d=hr.collect("n"), e=hr.count_min("n", of=["1"])),
        {
            "aggregates": [
                {"c": hr.approx_quantile("n", 0.9)},
                {"d": hr.collect("n", most=5)},
                {"e": hr.count_min("n", of=["2"])},
            ]
        },
    ),
    "sliding": (
        OF_EVENTS,
        sliding,
        {
            "emit": [{"emit": "final"}, {"emit": "arrival"}],
            "lateness_ms": [{"lateness": "1 hour"}],
            "within_ms": [{"within": "2 hours"}],
            "by": [{"by": "name"}],
            "time": [{"at": "received"}],
            "aggregates": [{"c": hr.sum("n + 1", where="n > 1")}, {"c": hr.sum("n")}],
        },
    ),
    "dedupe": (
        OF_EVENTS,
        dedupe,
        {"by": [{"by": "name"}], "within_ms": [{"within": "2 hours"}], "time": [{"at": "received"}]},
    ),
    "aggregate": (
        OF_TABLE,
        aggregate,
        {
            "by": [{"by": "name"}],
            "aggregates": [
                {"c": hr.max_by("id", "n", where="n > 1")},
                {"c": hr.max_by("name", "n + 1", where="n > 1")},
                {"c": hr.max_by("name", "n")},
                {"c": hr.max_by("name", "n", where="n > 1", ties=3)},
            ],
        },
    ),
    "top": (OF_TABLE, top, {"n": [{"n": 4}], "score": [{"by": "n + 1"}], "by": [{"within": "name"}]}),
    "join": (OF_TABLE, join, {"on": [{"on": {"name": "other"}}], "whole": [{"how": "left"}, {"how": "full"}]}),
    "interval join": (
        OF_EVENTS,
        pairs,
        {
            "lower_ms": [{"within": ("-2 hours", "0")}],
            "upper_ms": [{"within": ("-1 hour", "1 hour")}],
            "lateness_ms": [{"lateness": "1 hour"}],
            "whole": [{"how": "left"}],
            "at": [{"at": ("received", None)}, {"at": (None, "on_received")}],
        },
    ),
    "lookup join": (
        OF_EVENTS,
        lookup,
        {"as_of": [{"as_of": "received"}], "whole": [{"how": "left"}], "wait_ms": [{"wait": "1 hour"}]},
    ),
    "lookup join as of a time": (
        OF_EVENTS,
        partial(lookup, as_of="at"),
        {
            "as_of": [{"as_of": "received"}],
            "retention_ms": [{"retention": "1 hour"}],
            "correct": [{"correct": True}],
            "at": [{"at": "received"}],
        },
    ),
    "table": (OF_EVENTS, normalized, {"by": [{"key": "name"}]}),
}


@pytest.mark.parametrize("what", MEANT)
def test_what_the_state_of_an_operator_means_is_compared(spark: SparkSession, what: str):
    """Each change is seen, and it is said which."""
    columns, declared, changes = MEANT[what]
    before = operators(spark, columns, declared)
    assert before == operators(spark, columns, declared)
    for facet, changed in changes.items():
        for options in changed:
            (old,), (new,) = before, operators(spark, columns, partial(declared, **options))
            assert facet in {name for name in (*old, *new) if old.get(name) != new.get(name)}, options


def test_where_late_rows_go_and_how_columns_pass_is_not_state(spark: SparkSession):
    before = operators(spark, OF_EVENTS, window)
    assert before == operators(spark, OF_EVENTS, partial(window, late="drop"))
    assert before == operators(spark, OF_EVENTS, lambda rows: window(rows.drop("name")))
