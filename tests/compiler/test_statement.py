"""Views that are declared by their SQL: they are kept up to date, also one behind the other, and are functions in
batch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.compiler.history import Tables
from tests.compiler.test_sql import TABLES, change

import headrace as hr
from headrace.app import load
from headrace.engine import check
from headrace.engine.mode import Mode
from headrace.errors import RunError
from headrace.settings import Settings
from headrace.testing import Simulation

SPENT = "SELECT customer, count(*) AS n, sum(amount) AS spent FROM orders WHERE customer IS NOT NULL GROUP BY customer"
COUNTRIES = """
    SELECT c.country, sum(s.n) AS n, max(s.spent) AS most
    FROM spent s JOIN customers c ON s.customer = c.customer
    WHERE c.country IS NOT NULL
    GROUP BY c.country
"""
ROUNDS, CHANGES = 4, 40


def shop() -> hr.App:
    app = hr.App("shop")
    for name, (ddl, key) in TABLES.items():
        app.table(name, schema=ddl, key=key, partitions=2)
    return app


def test_views_behind_one_another_are_what_spark_answers(spark: SparkSession, seed: int):
    app, dice, tables, compared = shop(), random.Random(seed), Tables(TABLES), 0
    app.view("spent", key="customer", sql=SPENT)
    app.view("countries", key="country", sql=COUNTRIES)
    with Simulation(app, spark=spark, mode=Mode.EXACT) as simulation:
        for number in range(ROUNDS):
            for _ in range(CHANGES):
                name, row = change(dice)
                tables.apply(name, row)
                simulation.push(name, [row])
            simulation.advance()
            if number == 1:
                simulation.crash()
            there = tables.frames(spark, ["orders", "customers"])
            for name, rows in there.items():
                rows.createOrReplaceTempView(name)
            spark.sql(SPENT).createOrReplaceTempView("spent")
            for view, sql in (("spent", SPENT), ("countries", COUNTRIES)):
                wanted = {tuple(row.asDict().values()) for row in spark.sql(sql).collect()}
                assert {tuple(row.values()) for row in simulation.view(view)} == wanted, f"{view}, seed {seed}"
                compared += len(wanted)
    assert compared


def test_it_is_a_function_of_static_frames(spark: SparkSession):
    app = shop()
    spent = app.view("spent", key="customer", sql="SELECT customer, sum(amount) AS spent FROM orders GROUP BY customer")
    orders = spark.createDataFrame([("a", 2.0), ("a", 3.0), ("b", 1.0)], "customer string, amount double")
    assert {(row.customer, row.spent) for row in spent(orders).collect()} == {("a", 5.0), ("b", 1.0)}


@pytest.mark.parametrize(
    ("sql", "said", "line"),
    [
        ("SELECT customer\nFORM orders\nFROM orders", "cannot be turned into a plan", 2),
        ("SELECT\n  custmer\nFROM orders", "names the column `custmer`", 2),
        ("SELECT customer\nFROM orders\nWHERE rand() < 2", "", 1),
    ],
)
def test_a_mistake_is_told_with_the_line_of_the_sql(
    spark: SparkSession, tmp_path: Path, sql: str, said: str, line: int
):
    (tmp_path / "spent.sql").write_text(f"-- key: customer\n{sql}\n")
    (tmp_path / "app.py").write_text(
        "import headrace as hr\napp = hr.App('shop')\n"
        "app.table('orders', schema='id int, customer string', key='id')\napp.view('spent', sql='spent.sql')\n"
    )
    found = check.check(load(tmp_path / "app.py").graph(), spark, Settings.load(tmp_path), [Mode.EXACT])
    (error,) = found.errors
    assert said in error.what
    assert error.where is not None
    assert (Path(error.where.file).name, error.where.line) == ("spent.sql", line + 1)
    assert isinstance(error, RunError) or error.code == "HR-060"
