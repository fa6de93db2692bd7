"""The page views example: its charts are of its views, and its view counts what the generator makes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.app import load
from headrace.testing import oracle

EXAMPLE = Path(__file__).parents[2] / "examples" / "pageviews"


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("pageviews_generate", EXAMPLE / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_charts_are_of_the_views():
    graph = load(EXAMPLE / "app.py").graph()
    (board,) = graph.dashboards
    assert {chart.kind for chart in board.charts} == {"number", "line", "top", "points"}
    assert {chart.of for chart in board.charts} == {"views_per_minute", "visits"}


def test_the_view_counts_what_was_made(spark: SparkSession):
    generate = generator()
    made = [view for view, _ in islice(generate.views(3, "r"), 500)]
    assert made == [view for view, _ in islice(generate.views(3, "r"), 500)]
    start = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    rows = [{**view, "at": start + timedelta(seconds=number / 4)} for number, view in enumerate(made)]
    answer = oracle(load(EXAMPLE / "app.py"), "views_per_minute", {"pageviews": rows}, spark)
    counted = {(row["url"], datetime.fromisoformat(row["window_start"]).minute): row["views"] for row in answer}
    assert counted == dict(Counter((row["url"], row["at"].minute) for row in rows))
