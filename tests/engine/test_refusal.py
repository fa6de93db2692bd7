"""What Spark does not take of a declared function is told in the words of the app, at its line, and nothing else is
printed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

import headrace as hr
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import DeclarationError, RunError
from headrace.settings import Settings


def counted(payments):
    print(payments.count())
    return payments


def collected(payments):
    return payments.where(F.col("amount") > len(payments.select("id").collect()))


def sorted_(payments):
    kept = payments.where("amount > 5")
    return kept.orderBy("id")


def ranked(payments):
    return payments.withColumn("n", F.row_number().over(Window.partitionBy("id").orderBy("amount")))


def misspelt(payments):
    return payments.where("amonut > 5")


def misspelt_later(payments):
    renamed = payments.withColumnRenamed("amount", "price")
    return renamed.select("id", F.col("prise") + 1)


def misspelt_attribute(payments):
    return payments.select(payments.amonut)


def unknown(payments):
    return payments.where("zzz = 1")


CASES: list[tuple[Callable[..., Any], str, str, str, str]] = [
    (counted, "HR-344", ".count()", "`count`", "hr.aggregate"),
    (collected, "HR-344", ".collect()", "`collect`", "hr.aggregate"),
    (sorted_, "HR-344", ".orderBy", "`orderBy`", "hr.top"),
    (misspelt, "HR-302", "amonut", "`amonut`", "did you mean `amount`?"),
    (misspelt_later, "HR-302", "prise", "`prise`", "did you mean `price`?"),
    (misspelt_attribute, "HR-302", "amonut", "`amonut`", "did you mean `amount`?"),
    (unknown, "HR-302", "zzz", "`zzz`", "name one of the columns"),
]


@pytest.mark.parametrize(("function", "code", "line", "what", "fix"), CASES, ids=[case[0].__name__ for case in CASES])
def test_a_mistake_is_told_at_its_line(
    spark: SparkSession,
    bootstrap: str,
    tmp_path,
    capfd: pytest.CaptureFixture[str],
    function: Callable[..., Any],
    code: str,
    line: str,
    what: str,
    fix: str,
):
    app = hr.App("refused")
    app.stream("payments", schema="id string, amount int", topic="refused_payments")
    app.stream(topic="refused_result")(function)
    settings = Settings.load(tmp_path)
    with pytest.raises(RunError) as raised:
        Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark)
    error = raised.value
    assert error.code == code
    assert what in error.what
    assert fix in error.fix
    assert error.where is not None
    assert error.where.file == __file__
    assert line in error.where.source
    first = inspect.getsourcelines(function)[1]
    assert first <= error.where.line < first + len(inspect.getsourcelines(function)[0])
    if code == "HR-302":
        assert error.found == "payments(id, amount)"
    assert "Logger" not in capfd.readouterr().err
    assert str(error).count("SQLSTATE") == 0


def test_what_cannot_be_kept_up_to_date_is_told_at_its_function(spark: SparkSession, bootstrap: str, tmp_path):
    app = hr.App("refused")
    app.stream("payments", schema="id string, amount int", topic="refused_payments")
    app.stream(topic="refused_result")(ranked)
    with pytest.raises(DeclarationError) as raised:
        Run.start(app, mode=Mode.EXACT, settings=Settings.load(tmp_path), bootstrap=bootstrap, spark=spark)
    error = raised.value
    assert error.code == "HR-061"
    assert error.where is not None
    assert (error.where.file, error.where.line) == (__file__, inspect.getsourcelines(ranked)[1])
    assert "hr.sliding" in error.fix
