"""A check finds what is wrong inside of functions: all of it at once, with its place, and with nothing but Spark."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, IntegerType

import headrace as hr
from headrace.app import App
from headrace.engine import live, udf_types
from headrace.engine.check import Verdict, check
from headrace.engine.mode import Mode
from headrace.errors import HeadraceError
from headrace.parts.jars import pyspark_jars
from headrace.settings import Settings

BOTH = (Mode.LIVE, Mode.EXACT)
ORDERS = "id string, card string, amount double, at timestamp"


def declared() -> App:
    app = hr.App("checked")
    app.stream("orders", schema=ORDERS, event_time="at", delay="5 seconds", id="id")
    app.table("cards", schema="card string, owner string", key="card")
    app.table("owners", hr.postgres("public.owners"), key="owner")
    return app


@pytest.fixture
def checked(spark: SparkSession, tmp_path: Path) -> Callable[..., Verdict]:
    def run(app: App, *modes: Mode) -> Verdict:
        return check(app.graph(), spark, Settings.load(tmp_path), modes or BOTH)

    return run


def place(error: HeadraceError) -> str:
    """The text of the line that an error names, which must be one of this file."""
    assert error.where is not None
    assert error.where.file == __file__
    assert error.fix
    return error.where.source


def test_a_right_app_is_right_and_nothing_is_written(checked: Callable[..., Verdict], tmp_path: Path):
    app = declared()

    @app.stream
    def large(orders):
        return orders.where("amount > 100")

    @app.view(key="card")
    def spent(large, cards):
        known = hr.join(large, cards, on="card")
        return hr.aggregate(known, by="card", spent=hr.sum("amount"))

    @app.stream
    def rich(spent):
        return spent.where("spent > 5")

    assert checked(app) == Verdict((), {})
    assert list(tmp_path.iterdir()) == []


def test_every_mistake_is_told_at_once(checked: Callable[..., Verdict]):
    app = declared()

    @app.stream
    def misspelt(orders):
        return orders.where("amonut > 5")

    @app.view(key="card")
    def no_key(orders):
        return orders.select("id", "amount")

    @app.stream
    def raises(orders):
        return orders.where(f"amount > {LIMITS['amount']}")

    @app.stream
    def leaves(orders):
        raise SystemExit(3)

    @app.stream
    def wrong_type(orders):
        return hr.aggregate(orders, by="card", n=hr.sum("at"))

    @app.stream
    def counted(orders):
        return orders.limit(orders.count())

    verdict = checked(app)
    assert [(error.code, place(error).strip()) for error in verdict.errors] == [
        ("HR-302", 'return orders.where("amonut > 5")'),
        ("HR-303", "def no_key(orders):"),
        ("HR-302", "return orders.where(f\"amount > {LIMITS['amount']}\")"),
        ("HR-302", "raise SystemExit(3)"),
        ("HR-034", 'return hr.aggregate(orders, by="card", n=hr.sum("at"))'),
        ("HR-344", "return orders.limit(orders.count())"),
    ]
    assert all(not error.what.startswith("In ") for error in verdict.errors)
    assert verdict.unchecked == {}


LIMITS: dict[str, int] = {}


def test_functions_inside_of_one_query_are_checked_each(checked: Callable[..., Verdict]):
    app = declared()

    @app.stream
    def first(orders):
        return orders.where("amonut > 5")

    @app.stream
    def second(orders):
        return orders.where("crad = 'a'")

    @app.stream
    def both(first, second):
        return hr.union(first, second)

    @app.view(key="id")
    def read(both):
        return both

    verdict = checked(app)
    assert [place(error).strip() for error in verdict.errors] == [
        'return orders.where("amonut > 5")',
        "return orders.where(\"crad = 'a'\")",
    ]
    assert verdict.unchecked == {
        "both": "it reads `first`, which is not right yet",
        "read": "it reads `both`, which is not right yet",
    }


def test_what_only_the_database_knows_is_said(checked: Callable[..., Verdict]):
    app = declared()

    @app.stream
    def misspelt(orders):
        return orders.where("amonut > 5")

    @app.view(key="owner")
    def named(misspelt, owners):
        return owners

    @app.stream
    def after(named):
        return named

    verdict = checked(app)
    assert [place(error).strip() for error in verdict.errors] == ['return orders.where("amonut > 5")']
    assert "database knows the columns of the table `owners`" in verdict.unchecked["named"]
    assert verdict.unchecked["after"] == "it reads `named`, which was not checked"


def in_python(orders):
    return orders.withColumn("amount", twice("amount"))


def before_an_operator(orders):
    rows = orders.withColumn("amount", twice("amount"))
    return hr.sliding(rows, by="card", within="1 minute", spent=hr.sum("amount"))


def in_lambda(orders):
    return orders.withColumn("amount", F.udf(lambda x: x * 2, "double")("amount"))


def coalesced(orders):
    return orders.coalesce(1)


@F.udf(DoubleType())
def twice(x):
    return 2 * x


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (in_python, "twice("),
        (before_an_operator, "twice("),
        (in_lambda, "F.udf("),
        (coalesced, ".coalesce("),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_what_live_mode_refuses_is_told_of_live_mode(
    checked: Callable[..., Verdict], function: Callable[..., Any], line: str
):
    app = declared()
    app.stream(function)
    (error,) = checked(app).errors
    assert error.code == "HR-308"
    assert error.what.startswith("In live mode: ")
    assert line in place(error)
    assert checked(app, Mode.EXACT) == Verdict((), {})
    (alone,) = checked(app, Mode.LIVE).errors
    assert alone.what == error.what.removeprefix("In live mode: ")


def test_operators_of_headrace_and_sparks_joins_and_aggregates_are_taken_live(checked: Callable[..., Verdict]):
    app = declared()

    @app.stream
    def joined(orders):
        left = orders.alias("left")
        return left.join(orders.alias("right"), "id").select("left.card")

    @app.stream
    def sliding(orders):
        return hr.sliding(orders, by="card", within="1 minute", n=hr.count())

    @app.view(key="card")
    def grouped(orders):
        return orders.groupBy("card").count()

    @app.stream
    def distinct(orders):
        return hr.union(orders, orders).dropDuplicates(["id"])

    @app.view(key=["card", "window_start"])
    def windows(orders):
        return hr.window(orders, hr.tumbling("1 minute"), by="card", n=hr.count())

    assert checked(app, Mode.LIVE).errors == ()


def test_spark_does_refuse_what_is_refused_here():
    """Its own list of what it takes is in a class; a name of ours among them would refuse what runs."""
    (jar,) = pyspark_jars().glob("spark-sql_*.jar")
    with zipfile.ZipFile(jar) as classes:
        names = [name for name in classes.namelist() if "/runtime/RealTimeModeAllowlist$.class" in name]
        text = classes.read(names[0]).decode("latin-1")
        there = {name.rpartition("/")[2].removesuffix("Exec.class") for name in classes.namelist()}
    taken = set(re.findall(r"org\.apache\.spark\.sql\.execution\.[\w.]*?(\w+)Exec", text))
    assert {"Project", "Union", "StreamingDeduplicate"} <= taken
    assert live.REFUSED & taken == set()
    assert len(live.REFUSED & there) > len(live.REFUSED) / 2


def misspelt_type(x):
    return x


@F.udf(DoubleType())
def two_arguments(x, y):
    return x + y


@F.udf
def number_as_text(x) -> int:
    return int(x)


@F.udf(IntegerType())
def text_as_number(x) -> str:
    return str(x)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (misspelt_type, "cannot be read"),
        (two_arguments, "missing a required argument: 'y'"),
        (number_as_text, "returns int, and its type is string"),
        (text_as_number, "returns str, and its type is int"),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_the_types_of_python_functions_are_checked(
    checked: Callable[..., Verdict], monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], said: str
):
    app = declared()
    if function is misspelt_type:
        with monkeypatch.context() as before_spark, udf_types.read_later():
            before_spark.setattr(SparkContext, "_active_spark_context", None)
            function = F.udf(function, "intt")

    @app.stream
    def result(orders):
        return orders.select(function("amount").alias("x"))

    (error,) = checked(app).errors
    assert error.code == "HR-350"
    assert said in error.what
    written = "function(" if function is two_arguments else f"def {getattr(function, '__name__', '')}("
    assert written in place(error)
