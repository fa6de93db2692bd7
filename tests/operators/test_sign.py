"""The column `change`: it is not lost, nothing else has its name, and what goes is what came."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.errors import DeclarationError, Location
from headrace.operators import sign
from headrace.operators.upserts import to_upserts

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


def orders(spark: SparkSession, *, streaming: bool) -> DataFrame:
    columns = ("value as id", "cast(value as string) as k", "timestamp as at", "'+' as change")
    if streaming:
        return spark.readStream.format("rate").load().selectExpr(*columns)
    return spark.range(3).selectExpr("id as value", "timestamp_seconds(id) as timestamp").selectExpr(*columns)


LOST: dict[str, Callable[[DataFrame], DataFrame]] = {
    "select": lambda rows: rows.select("id", "k"),
    "drop": lambda rows: rows.drop("change"),
    "behind an operator": lambda rows: hr.aggregate(rows, by="k", n=hr.count()).where("n > 1").select("k", "n"),
    "after other steps": lambda rows: rows.select("id", "k").where("id > 1").withColumn("more", F.lit(1)),
    "one side of a union": lambda rows: rows.select("k").union(rows.where("change = '+'").select("k")),
}
KEPT: dict[str, Callable[[DataFrame], DataFrame]] = {
    "as it is": lambda rows: rows,
    "named": lambda rows: rows.select("k", "change"),
    "looked at": lambda rows: rows.where("change = '+'").drop("change"),
    "another word": lambda rows: rows.selectExpr("k", "if(change = '+', 1, -1) as times"),
    "a stream": lambda rows: hr.dedupe(hr.event_time(rows.where("change = '+'").drop("change"), "at"),
                                       by="id", within="1 minute").select("k"),
}  # fmt: skip


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("how", [*LOST, *KEPT])
def test_rows_of_a_table_do_not_lose_their_sign_unseen(spark: SparkSession, how: str, streaming: bool):
    rows = orders(spark, streaming=streaming)
    if how in KEPT:
        sign.refuse_lost(KEPT[how](rows), "the result", Location("app.py", 1))
        return
    with pytest.raises(DeclarationError, match="was left out") as raised:
        sign.refuse_lost(LOST[how](rows), "the result", Location("app.py", 1))
    assert (raised.value.code, str(raised.value.where)) == ("HR-059", "app.py:1")


MOVING: dict[str, Callable[[DataFrame], DataFrame]] = {
    "the clock in an aggregate": lambda rows: hr.aggregate(rows, by="k", n=hr.count(where="at > current_timestamp()")),
    "the day before a ranking": lambda rows: hr.top(rows.withColumn("day", F.current_date()), 3, by="id"),
    "the clock in a score": lambda rows: hr.top(rows, 3, by="id * unix_timestamp()"),
    "chance before a join": lambda rows: hr.join(
        rows.withColumn("token", F.expr("uuid()")), rows.select(F.col("k").alias("other"), "change"), on={"k": "other"}
    ),
    "the time of day in a condition": lambda rows: hr.distinct(rows.where("at < now()"), by="k"),
    "behind a join": lambda rows: to_upserts(
        hr.join(rows, rows.select(F.col("k").alias("other"), "change"), on={"k": "other"}).withColumn(
            "seen", F.current_timestamp()
        ),
        ["id"],
    ),
}


@pytest.mark.parametrize("what", MOVING)
def test_what_could_not_be_taken_back_is_refused(spark: SparkSession, what: str):
    with pytest.raises(DeclarationError, match="could not be taken back") as raised:
        MOVING[what](orders(spark, streaming=True))
    assert raised.value.code == "HR-060"
    assert raised.value.where is not None
    assert raised.value.where.file == __file__


def test_the_clock_may_be_looked_at_where_nothing_is_taken_back(spark: SparkSession):
    rows = orders(spark, streaming=True)
    seen = hr.aggregate(rows, by="k", n=hr.count()).withColumn("seen", F.current_timestamp())
    assert "seen" in to_upserts(seen, ["k"]).columns
    stream = hr.event_time(rows.where("change = '+'").drop("change"), "at").withColumn("seen", F.current_timestamp())
    assert "seen" in hr.dedupe(stream, by="id", within="1 minute").columns
    assert "n" in hr.aggregate(stream, by="seen", n=hr.count()).columns
