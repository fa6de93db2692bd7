"""What operators refuse: each mistake is a declaration error with a place, what was found and a fix that works."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.app import load
from headrace.errors import DeclarationError, DeclarationErrors
from headrace.operators import table
from headrace.operators.keys import is_key
from headrace.operators.table import OFFSET, SIGN

ORDERS = "id int, product string, price double, at timestamp, change string"
PRODUCTS = "product string, maker string, change string"
CLICKS = "id int, ad string, at timestamp"

Operator = Callable[..., Any]


def line() -> int:
    return sys._getframe(1).f_lineno


def refused(call: Callable[[], Any]) -> DeclarationError:
    """The error, which has all that an error has."""
    with pytest.raises(DeclarationError) as raised:
        call()
    error = raised.value
    assert error.where is not None
    assert error.where.file == __file__
    assert error.fix
    assert str(error)
    return error


@pytest.fixture
def orders(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], ORDERS)


@pytest.fixture
def products(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], PRODUCTS)


@pytest.fixture
def clicks(spark: SparkSession) -> DataFrame:
    return hr.event_time(spark.createDataFrame([], CLICKS), "at")


@pytest.fixture
def rates(spark: SparkSession) -> DataFrame:
    """A table as a function is given it."""

    def records(time: str | None) -> DataFrame:
        more = f", {time} timestamp" if time else ""
        return spark.createDataFrame([], f"ad string, rate int, {SIGN} string, {OFFSET} bigint{more}")

    return table.of_records(records, ["ad"])


# What is not a DataFrame


@pytest.mark.parametrize("what", [None, [], "orders", hr.App("given").stream("orders", schema="id string"), 5])
@pytest.mark.parametrize(
    "operator",
    [
        lambda what, _: hr.join(what, what, on="id"),
        lambda what, rows: hr.join(rows, what, on="id"),
        lambda what, _: hr.aggregate(what, by="id", n=hr.count()),
        lambda what, _: hr.distinct(what),
        lambda what, _: hr.top(what, 3, by="id"),
        lambda what, rows: hr.union(rows, what),
        lambda what, _: hr.union(what),
        lambda what, _: hr.history(what),
        lambda what, _: hr.window(what, hr.tumbling("1 minute"), by="id", n=hr.count()),
        lambda what, _: hr.sliding(what, by="id", within="1 minute", n=hr.count()),
        lambda what, _: hr.dedupe(what, by="id", within="1 minute"),
        lambda what, _: hr.event_time(what, "at"),
    ],
)
def test_an_operator_takes_dataframes(orders: DataFrame, operator: Operator, what: Any):
    error = refused(lambda: operator(what, orders))
    assert error.code == "HR-058"


def test_an_operator_over_declarations_is_named_when_the_file_is_loaded(tmp_path: Path):
    file = tmp_path / "app.py"
    file.write_text(
        'import headrace as hr\napp = hr.App("shop")\n'
        'payments = app.stream("payments", schema="id string, card string")\n'
        'cards = app.table("cards", schema="card string", key="card")\n'
        'enriched = hr.join(payments, cards, on="card")\n'
    )
    with pytest.raises(DeclarationErrors) as raised:
        load(file)
    error = raised.value.errors[0]
    assert (error.code, error.found) == ("HR-058", "Source payments")
    assert error.where is not None
    assert error.where.line == 5
    assert "write a function whose parameters are the declared names" in error.fix


def test_a_declared_function_is_named(orders: DataFrame):
    app = hr.App("given")

    @app.stream
    def large(orders) -> Any: ...

    assert refused(lambda: hr.union(orders, large)).found == "Declared large"  # pyright: ignore[reportArgumentType]


# What does not name columns

NO_NAMES = [None, 5, {"id"}, {"id": "product"}, [["id"]], [None]]


@pytest.mark.parametrize("by", [*NO_NAMES, "column"], ids=str)
@pytest.mark.parametrize(
    ("option", "operator"),
    [
        ("by", lambda rows, clicks, by: hr.aggregate(rows, by=by, n=hr.count())),
        ("by", lambda rows, clicks, by: hr.window(clicks, hr.tumbling("1 minute"), by=by, n=hr.count())),
        ("by", lambda rows, clicks, by: hr.sliding(clicks, by=by, within="1 minute", n=hr.count())),
        ("by", lambda rows, clicks, by: hr.dedupe(clicks, by=by, within="1 minute")),
        ("by", lambda rows, clicks, by: hr.distinct(rows, by=[by] if by is None else by)),  # pyright: ignore
        ("within", lambda rows, clicks, by: hr.top(rows, 3, by="price", within=by)),
    ],
    ids=["aggregate", "window", "sliding", "dedupe", "distinct", "top"],
)
def test_what_does_not_name_columns(orders: DataFrame, clicks: DataFrame, option: str, operator: Operator, by: Any):
    given = F.col("id") if by == "column" else by
    error = refused(lambda: operator(orders, clicks, given))
    assert error.code == "HR-032"
    assert str(error.found).startswith(f"{option}=")
    assert f"`{option}=[" in error.fix


@pytest.mark.parametrize(
    "on", [*NO_NAMES[:3], {"product": ["product"]}, [["product"]], {1: "product"}, b"product"], ids=str
)
def test_what_does_not_name_columns_of_a_join(orders: DataFrame, products: DataFrame, on: Any):
    error = refused(lambda: hr.join(orders, products, on=on))
    assert error.code == "HR-050"
    assert 'on="card"' in error.fix


def test_a_condition_is_not_what_a_join_takes(orders: DataFrame, products: DataFrame):
    error = refused(lambda: hr.join(orders, products, on=orders.product == products.product))  # pyright: ignore
    assert error.code == "HR-050"
    assert "on=Column<" in str(error.found)


def test_a_join_without_on(orders: DataFrame, products: DataFrame):
    error = refused(lambda: hr.join(orders, products))
    assert (error.code, error.what) == ("HR-050", "`join` was not told in which columns the rows are equal.")


def test_pairs_are_a_mapping(orders: DataFrame, products: DataFrame):
    error = refused(lambda: hr.join(orders, products, on=[("product", "maker")]))  # pyright: ignore
    assert error.code == "HR-050"
    assert error.fix.endswith('on={"product": "maker"}')
    assert hr.join(orders, products.select("maker", "change"), on={"product": "maker"}).columns


def test_distinct_of_nothing(orders: DataFrame):
    assert refused(lambda: hr.distinct(orders, by=[])).code == "HR-032"


@pytest.mark.parametrize("at", [["at"], 5, "column"], ids=str)
@pytest.mark.parametrize(
    "operator",
    [
        lambda rows, at: hr.window(rows, hr.tumbling("1 minute"), by="id", at=at, n=hr.count()),
        lambda rows, at: hr.sliding(rows, by="id", within="1 minute", at=at, n=hr.count()),
        lambda rows, at: hr.dedupe(rows, by="id", within="1 minute", at=at),
        lambda rows, at: hr.event_time(rows, at),
    ],
)
def test_what_does_not_name_a_time(clicks: DataFrame, operator: Operator, at: Any):
    assert refused(lambda: operator(clicks, F.col("at") if at == "column" else at)).code == "HR-030"


@pytest.mark.parametrize(
    "call",
    [
        lambda rows: hr.dedupe(rows, by="id", within=60),  # pyright: ignore
        lambda rows: hr.dedupe(rows, by="id", within=None),  # pyright: ignore
        lambda rows: hr.event_time(rows, "at", delay=5),  # pyright: ignore
        lambda rows: hr.sliding(rows, by="id", within=b"1 minute", n=hr.count()),  # pyright: ignore
        lambda rows: hr.dedupe(rows, by="id", within="9" * 400 + " days"),
    ],
)
def test_what_is_not_a_duration(clicks: DataFrame, call: Operator):
    assert refused(lambda: call(clicks)).code == "HR-005"


def test_a_bound_beyond_all_measure(clicks: DataFrame, spark: SparkSession):
    shows = hr.event_time(spark.createDataFrame([], "ad string, shown timestamp"), "shown")
    error = refused(lambda: hr.join(clicks, shows, on="ad", within=("9" * 400 + " days", "0")))
    assert error.code == "HR-050"
    assert "is not between 0 and 100 years" in error.what


@pytest.mark.parametrize("by", [["price"], None, 5, "column"], ids=str)
def test_a_score_is_text(orders: DataFrame, by: Any):
    given: Any = F.col("price") if by == "column" else by
    error = refused(lambda: hr.top(orders, 3, by=given))
    assert error.code == "HR-033"
    assert error.what == "The `by` of `top` is not text."


def test_a_column_to_count_is_text(orders: DataFrame):
    assert refused(lambda: hr.count(F.col("id"))).code == "HR-033"  # pyright: ignore[reportArgumentType]
    assert refused(lambda: hr.count_min("id", {"a", "b"})).code == "HR-035"  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("how", [None, ["left"], "column"], ids=str)
def test_a_word_is_text(orders: DataFrame, products: DataFrame, how: Any):
    how = F.col("left") if how == "column" else how
    error = refused(lambda: hr.join(orders, products, on="product", how=how))
    assert error.code == "HR-040"


# The sign of a row


@pytest.mark.parametrize(
    "operator",
    [
        lambda rows: hr.join(rows, rows.select("change"), on="change"),
        lambda rows: hr.aggregate(rows, by="change", n=hr.count()),
        lambda rows: hr.aggregate(rows, by=["id", "change"], n=hr.count()),
        lambda rows: hr.top(rows, 3, by="price", within="change"),
        lambda rows: hr.distinct(rows, by="change"),
    ],
    ids=["join", "aggregate", "aggregate two", "top", "distinct"],
)
def test_rows_are_not_told_apart_by_their_sign(orders: DataFrame, operator: Operator):
    error = refused(lambda: operator(orders))
    assert error.code == "HR-032"
    assert "it says what becomes of a row" in error.what


def test_aggregate_does_not_lose_a_column_of_that_name(spark: SparkSession):
    quotes = spark.createDataFrame([], "symbol string, change double")
    assert refused(lambda: hr.aggregate(quotes, by="symbol", n=hr.count())).code == "HR-036"
    assert refused(lambda: hr.aggregate(quotes, by="change", n=hr.count())).code == "HR-036"


@pytest.mark.parametrize(
    "one",
    [
        hr.count(where="change = '+'"),
        hr.sum("if(change = '+', price, -price)"),
        hr.max("Change"),
        hr.max_by("product", "change"),
        hr.max_by("struct(*)", "price"),
        hr.count_distinct("to_json(struct(id, *))"),
    ],
)
def test_no_aggregate_uses_the_sign(orders: DataFrame, one: Any):
    at = line() + 1
    error = refused(lambda: hr.aggregate(orders, by="product",
                                         n=one))  # fmt: skip
    assert error.code == "HR-033"
    assert "cannot use `change` in the" in error.what
    assert error.where is not None
    assert error.where.line == at + 1


def test_no_score_uses_the_sign(orders: DataFrame):
    error = refused(lambda: hr.top(orders, 3, by="if(change = '+', price, 0)"))
    assert error.code == "HR-033"
    assert "cannot use `change` in its `by`" in error.what


def test_a_product_is_no_star(orders: DataFrame, clicks: DataFrame):
    assert hr.aggregate(orders, by="product", n=hr.sum("(price) * (2 *id)"), m=hr.count("*")).columns
    twice = clicks.selectExpr("*", "'+' as turned")
    assert hr.aggregate(twice, by="ad", n=hr.max("to_json(struct(*))")).columns, "a stream has no sign"


# Joins


def test_retention_is_for_as_of(clicks: DataFrame, spark: SparkSession):
    ads = spark.createDataFrame([], "ad string, owner string, change string")
    error = refused(lambda: hr.join(clicks, ads, on="ad", retention="1 day"))
    assert error.code == "HR-050"
    assert error.what == "`join` of a stream and a table without `as_of` does not take `retention`."


@pytest.mark.parametrize("correct", ["no", 1, None])
def test_correct_is_true_or_false(clicks: DataFrame, rates: DataFrame, correct: Any):
    error = refused(lambda: hr.join(clicks, rates, on="ad", as_of="at", correct=correct))
    assert (error.code, error.found) == ("HR-040", f"correct={correct!r}")


@pytest.mark.parametrize("how", ["right", "full"])
def test_a_table_alone_never_comes_out(clicks: DataFrame, spark: SparkSession, how: Any):
    ads = spark.createDataFrame([], "ad string, owner string, change string")
    error = refused(lambda: hr.join(clicks, ads, on="ad", how=how))
    assert error.code == "HR-040"
    assert "rows of the table alone never come out" in error.what


def test_a_column_that_one_side_does_not_have(orders: DataFrame, products: DataFrame):
    assert "which its left side does not have" in refused(lambda: hr.join(orders, products, on="maker")).what
    error = refused(lambda: hr.join(orders, products, on="id"))
    assert (error.code, error.what) == ("HR-030", "`join` names the column `id`, which its right side does not have.")
    assert error.found == "product, maker, change"


def test_a_join_makes_no_groups(orders: DataFrame):
    error = refused(lambda: hr.join(orders, orders, on="price"))
    assert (error.code, error.what) == ("HR-032", "`join` cannot compare rows by `price`.")


@pytest.mark.parametrize(
    ("left", "right", "fix"),
    [
        ("int", "bigint", 'the left side: `.withColumn("k", F.col("k").cast("bigint"))`'),
        ("bigint", "int", 'the right side: `.withColumn("k", F.col("k").cast("bigint"))`'),
        ("decimal(10,2)", "decimal(12,2)", 'the left side: `.withColumn("k", F.col("k").cast("decimal(12,2)"))`'),
        ("int", "decimal(10,0)", 'the left side: `.withColumn("k", F.col("k").cast("decimal(10,0)"))`'),
        ("decimal(10,2)", "bigint", '.cast("decimal(21,2)"))` and the right side: '),
        ("string", "int", 'the right side: `.withColumn("k", F.col("k").cast("string"))`'),
        ("int", "string", 'the left side: `.withColumn("k", F.col("k").cast("string"))`'),
        ("date", "timestamp", 'the right side: `.withColumn("k", F.col("k").cast("date"))`'),
    ],
)
def test_the_wider_type_is_cast_to(spark: SparkSession, left: str, right: str, fix: str):
    rows = spark.createDataFrame([], f"a int, k {left}, change string")
    others = spark.createDataFrame([], f"b int, k {right}, change string")
    error = refused(lambda: hr.join(rows, others, on="k"))
    assert error.code == "HR-050"
    assert fix in error.fix
    cast = re.search(r'cast\("(.*?)"\)', error.fix)
    assert cast
    rows, others = (one.withColumn("k", F.col("k").cast(cast[1])) for one in (rows, others))
    assert hr.join(rows, others, on="k").columns == ["a", "k", "b", "change"]


def test_a_name_with_a_dot_is_quoted_in_a_fix(spark: SparkSession):
    rows = spark.createDataFrame([], "`a.b` int, change string")
    others = spark.createDataFrame([], "`a.b` bigint, change string")
    error = refused(lambda: hr.join(rows, others, on="a.b"))
    assert '`.withColumn("a.b", F.col("`a.b`").cast("bigint"))`' in error.fix
    assert hr.join(rows.withColumn("a.b", F.col("`a.b`").cast("bigint")), others, on="a.b").columns


def test_a_table_whose_history_is_asked_for_stays_as_it_is(rates: DataFrame, spark: SparkSession):
    sales = hr.event_time(spark.createDataFrame([], "tax bigint, at timestamp"), "at")
    error = refused(lambda: hr.join(sales, rates, on={"tax": "rate"}, as_of="at"))
    assert error.fix.startswith('cast the right side: `hr.history(…).withColumn("rate", F.col("rate").cast("bigint"))`')
    told = hr.history(rates).withColumn("rate", F.col("rate").cast("bigint"))
    assert hr.join(sales, told, on={"tax": "rate"}, as_of="at").columns
    sales = hr.event_time(spark.createDataFrame([], "tax smallint, at timestamp"), "at")
    error = refused(lambda: hr.join(sales, rates, on={"tax": "rate"}, as_of="at"))
    assert error.fix.startswith('cast the left side: `.withColumn("tax", F.col("tax").cast("int"))`')


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("date", '`.withColumn("day", F.col("day").cast("timestamp"))`'),
        ("string", '`.withColumn("day", F.col("day").cast("timestamp"))`'),
        ("timestamp_ntz", '`.withColumn("day", F.col("day").cast("timestamp"))`'),
        ("bigint", '`.withColumn("day", F.timestamp_millis("day"))`'),
        ("double", "name a column that is a timestamp"),
    ],
)
def test_a_time_that_is_none(spark: SparkSession, rates: DataFrame, kind: str, fix: str):
    sales = hr.event_time(spark.createDataFrame([], f"ad string, day {kind}, at timestamp"), "at")
    at = line() + 1
    error = refused(lambda: hr.join(sales, rates, on="ad",
                                    as_of="day"))  # fmt: skip
    assert (error.code, error.found) == ("HR-050", f"day {kind}")
    assert "event time" not in str(error)
    assert error.where is not None
    assert error.where.line == at + 1
    assert fix in error.fix


def test_times_of_versions_that_are_none(clicks: DataFrame, spark: SparkSession):
    own = spark.createDataFrame([], "ad string, valid_from date, valid_to timestamp, change string")
    error = refused(lambda: hr.join(clicks, own, on="ad", as_of="at"))
    assert (error.code, error.found) == ("HR-050", "valid_from date")
    assert "event time" not in str(error)


@pytest.mark.parametrize("as_of", [["at"], 5, "column"], ids=str)
def test_as_of_names_a_column(clicks: DataFrame, rates: DataFrame, as_of: Any):
    given: Any = F.col("at") if as_of == "column" else as_of
    at = line() + 1
    error = refused(lambda: hr.join(clicks, rates, on="ad",
                                    as_of=given))  # fmt: skip
    assert error.code == "HR-030"
    assert error.where is not None
    assert error.where.line == at + 1


@pytest.mark.parametrize("name", ["version", "valid_from"])
def test_as_of_adds_columns(clicks: DataFrame, spark: SparkSession, name: str):
    def records(time: str | None) -> DataFrame:
        more = f", {time} timestamp" if time else ""
        return spark.createDataFrame([], f"ad string, {name} timestamp, {SIGN} string, {OFFSET} bigint{more}")

    own = table.of_records(records, ["ad"])
    error = refused(lambda: hr.join(clicks, own, on="ad", as_of="at"))
    assert (error.code, error.what) == (
        "HR-036",
        f"`join` with `as_of` adds a column `{name}`, and the table has one.",
    )
    assert refused(lambda: hr.history(own)).what == f"`history` adds a column `{name}`, and the table has one."


def test_a_second_join_as_of_a_time(clicks: DataFrame, rates: DataFrame):
    once = hr.join(clicks, rates.select("*"), on="ad").columns
    assert once
    first = hr.join(clicks, rates, on="ad", as_of="at").withColumnRenamed("rate", "first")
    error = refused(lambda: hr.join(first, rates, on="ad", as_of="at"))
    assert error.code == "HR-050"
    assert error.fix.endswith('`.drop("valid_from", "valid_to", "version")`')
    again = first.drop("valid_from", "valid_to", "version")
    assert "version" in hr.join(again, rates, on="ad", as_of="at").columns


# Rankings and aggregates


def test_a_score_that_is_misspelt(orders: DataFrame):
    at = line() + 1
    error = refused(lambda: hr.top(orders, 3,
                                   within="product",
                                   by="prise"))  # fmt: skip
    assert (error.code, error.what) == (
        "HR-033",
        "`top` cannot read its `by`, `prise`: its input does not have such a column.",
    )
    assert error.found == "id, product, price, at"
    assert error.where is not None
    assert error.where.line == at + 2
    assert "aggregate" not in str(error)


@pytest.mark.parametrize("by", ["map(product, id)", "struct(id, map(product, id))", "parse_json('1')"])
def test_a_score_without_an_order(orders: DataFrame, by: str):
    assert refused(lambda: hr.top(orders, 3, by=by)).code == "HR-042"
    assert hr.top(orders, 3, by="struct(price, id)").columns


def test_an_aggregate_of_a_stream_that_is_none_of_a_table(clicks: DataFrame, orders: DataFrame):
    error = refused(lambda: hr.aggregate(clicks, by="ad", n=hr.first("id")))
    assert error.code == "HR-055"
    assert "table" not in str(error)
    assert "`hr.window` with `hr.global_()`" in error.fix
    assert hr.window(clicks, hr.global_(), by="ad", n=hr.first("id")).columns
    assert "the rows of a table go again" in refused(lambda: hr.aggregate(orders, by="id", n=hr.first("price"))).what


# Names and types


def test_an_event_time_with_a_dot(spark: SparkSession):
    rows = spark.createDataFrame([], "id int, `a.b` timestamp, `at it` timestamp, `x``y` timestamp")
    for name in ("a.b", "at it", "x`y"):
        timed = hr.event_time(rows, name)
        assert hr.window(timed, hr.tumbling("1 minute"), by="id", n=hr.count()).columns[-1] == "n"
        assert hr.sliding(timed, by="id", within="1 minute", n=hr.count()).columns[-1] == "change"
        assert hr.dedupe(timed, by="id", within="1 minute").columns == rows.columns
        assert hr.union(timed, timed).columns == rows.columns
        assert hr.event_time(timed, "a.b").columns == rows.columns
        others = hr.event_time(spark.createDataFrame([], "id int, shown timestamp"), "shown")
        assert hr.join(timed, others, on="id", within=("0", "1 hour")).columns == [*rows.columns, "shown"]


def test_keys_of_views_are_exact(spark: SparkSession):
    rows = spark.createDataFrame([], "a string, b double, c array<int>, d decimal(10,2)")
    collated = rows.selectExpr("a collate unicode_ci as a").schema["a"].dataType
    assert [is_key(field.dataType) for field in rows.schema.fields] == [True, False, False, True]
    assert not is_key(collated)
