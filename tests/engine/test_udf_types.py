"""Python functions at the top of an app, with their types as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.app import load
from headrace.engine import udf_types
from headrace.errors import DeclarationErrors
from headrace.testing import Driver, oracle

APP = """
import headrace as hr
from pyspark.sql import functions as F

app = hr.App("typed")
app.stream("orders", schema="id string, amount int", id="id")

@F.udf("int")
def twice(x):
    return 2 * x

@F.udf("struct<half: double, odd: boolean>")
def told(x):
    return x / 2, x % 2 == 1

@app.stream
def doubled(orders):
    return orders.select("id", twice("amount").alias("amount"), told("amount").alias("told"))
"""


def test_a_type_that_is_told_as_text_is_read_when_spark_runs(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "app.py"
    file.write_text(APP)
    with monkeypatch.context() as before_spark:
        before_spark.setattr(SparkContext, "_active_spark_context", None)
        with pytest.raises(DeclarationErrors, match="HR-027"):
            load(file)
        with udf_types.read_later():
            app = load(file)
    events = [{"id": f"o{n}", "amount": n} for n in range(5)]
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("orders", events)
        driver.advance()
        found = sorted(driver.read("doubled"), key=lambda row: row["id"])
        assert found == sorted(oracle(app, "doubled", {"orders": events}, spark), key=lambda row: row["id"])
        assert found[3] == {"id": "o3", "amount": 6, "told": {"half": 1.5, "odd": True}}
