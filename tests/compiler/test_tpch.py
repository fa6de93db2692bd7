"""All 22 queries of TPC-H, kept up to date while rows come, change and go, with a crash, are what Spark answers."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from tests.compiler.history import kept_up_to_date
from tests.compiler.tpch import QUERIES, TABLES
from tests.compiler.tpch_rows import beginning, change

PARTS, CHANGES, HISTORIES = 2, 500, 8


@pytest.mark.parametrize("number", QUERIES)
def test_a_query_is_kept_up_to_date(spark: SparkSession, seed: int, number: int):
    """Some queries ask for something rare: there are more histories until one has an answer."""
    dice, compared = random.Random(seed), 0
    for _ in range(HISTORIES):
        changes = [[change(dice) for _ in range(CHANGES)] for _ in range(PARTS)]
        changes[0] = [*beginning(), *changes[0]]
        compared += kept_up_to_date(spark, TABLES, QUERIES[number], changes)
        if compared:
            return
    raise AssertionError(f"nothing was compared with nothing in {HISTORIES} histories")
