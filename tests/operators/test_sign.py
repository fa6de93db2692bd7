"""The column `change`: an operator over streams does not take a table, and no other column may have its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.errors import DeclarationError

CHANGES = "id int, k string, at timestamp, change string"
QUOTES = "id int, k string, at timestamp, change int"


@pytest.mark.parametrize(
    "operator",
    [
        lambda rows: hr.window(rows, hr.tumbling("1 minute"), by="k", n=hr.count(), at="at"),
        lambda rows: hr.window(rows, hr.session("1 minute"), by="k", n=hr.count(), at="at"),
        lambda rows: hr.sliding(rows, by="k", within="1 minute", n=hr.count(), at="at"),
        lambda rows: hr.dedupe(rows, by="id", within="1 minute", at="at"),
    ],
    ids=["window", "session", "sliding", "dedupe"],
)
def test_what_is_taken_back_is_not_counted_as_a_row(spark: SparkSession, operator: Callable[[DataFrame], Any]):
    with pytest.raises(DeclarationError, match="takes a stream, whose rows stay") as raised:
        operator(spark.createDataFrame([], CHANGES))
    assert raised.value.code == "HR-047"


def test_a_window_that_may_be_corrected_is_a_table(spark: SparkSession):
    rows = hr.event_time(spark.createDataFrame([], "k string, at timestamp"), "at")
    minutes = hr.window(rows, hr.tumbling("1 minute"), by="k", lateness="1 hour", n=hr.count())
    with pytest.raises(DeclarationError) as raised:
        hr.window(minutes, hr.tumbling("1 hour"), by=[], total=hr.sum("n"))
    assert raised.value.code == "HR-047"
    assert hr.aggregate(minutes, by="k", total=hr.sum("n")).columns == ["k", "total", "change"]


@pytest.mark.parametrize(
    "operator",
    [
        lambda rows, table: hr.sliding(rows, by="k", within="1 minute", n=hr.count(), at="at"),
        lambda rows, table: hr.top(rows, 3, by="id"),
        lambda rows, table: hr.distinct(rows),
        lambda rows, table: hr.union(rows, rows),
        lambda rows, table: hr.join(rows, table, on="k"),
    ],
    ids=["sliding", "top", "distinct", "union", "join"],
)
def test_a_column_of_that_name_is_not_lost(spark: SparkSession, operator: Callable[[DataFrame, DataFrame], Any]):
    rows = spark.createDataFrame([], QUOTES)
    with pytest.raises(DeclarationError, match="the name of the sign of a row") as raised:
        operator(rows, spark.createDataFrame([], "k string, owner string, change string"))
    assert (raised.value.code, raised.value.found) == ("HR-036", "change int")
    renamed = rows.withColumnRenamed("change", "moved")
    assert "moved" in operator(renamed, spark.createDataFrame([], "k string, owner string, change string")).columns


def test_where_it_is_in_nobodys_way_it_stays(spark: SparkSession):
    rows = hr.event_time(spark.createDataFrame([], QUOTES), "at")
    assert "change" in hr.dedupe(rows, by="id", within="1 minute").columns
    assert hr.window(rows, hr.tumbling("1 minute"), by="k", moved=hr.sum("change")).columns[-1] == "moved"
