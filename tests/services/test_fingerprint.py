"""What counts as a change of an app that was saved, and what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.services.fingerprint import fingerprint
from headrace.services.loading import load_app
from headrace.services.saved import forget, loaded

APP = """
import headrace as hr
from pyspark.sql import functions as F
import shared
from shared import LIMIT

FACTORS = {"EUR": 1.0}
app = hr.App("shop")
orders = app.stream("orders", schema="id string, card string, amount double")

def above(rows, limit):
    return rows.where(F.col("amount") > limit)

@app.stream
def large(orders):
    return above(orders, LIMIT).withColumn("factor", F.lit(FACTORS["EUR"]))

@app.view(key="card")
def totals(orders):
    return hr.aggregate(orders, by="card", spent=hr.sum("amount"))

board = app.dashboard("sales")
board.number(totals, value="spent", title="Sales")
"""
Print = Callable[[], object]


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[Print]:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "shared.py").write_text("LIMIT = 100\n")

    def of() -> object:
        forget(tmp_path / "app.py")
        return fingerprint(load_app(tmp_path / "app.py").graph().nodes, tmp_path)

    yield of
    forget(tmp_path / "app.py")


def test_a_file_that_is_loaded_again_is_the_same(printed: Print, tmp_path: Path):
    assert printed() == printed()
    assert loaded(tmp_path / "app.py") == [tmp_path.resolve() / "shared.py"]


@pytest.mark.parametrize(
    ("before", "after"),
    [("@app.stream\n", "# large orders\n\n@app.stream\n"), ('title="Sales"', 'title="All sales"')],
    ids=["lines", "dashboard"],
)
def test_what_no_query_means_is_no_change(printed: Print, tmp_path: Path, before: str, after: str):
    first = printed()
    (tmp_path / "app.py").write_text(APP.replace(before, after))
    assert printed() == first


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("> limit", ">= limit"),
        ('by="card"', 'by="id"'),
        ('{"EUR": 1.0}', '{"EUR": 1.1}'),
        ("amount double", "amount int"),
        ('@app.view(key="card")', '@app.view(key="card", partitions=3)'),
        ("def large(", "def huge("),
    ],
    ids=["helper", "argument", "constant", "schema", "option", "name"],
)
def test_what_a_query_means_is_a_change(printed: Print, tmp_path: Path, before: str, after: str):
    first = printed()
    (tmp_path / "app.py").write_text(APP.replace(before, after))
    assert printed() != first


def test_a_module_beside_the_app_is_part_of_it(printed: Print, tmp_path: Path):
    first = printed()
    (tmp_path / "shared.py").write_text("LIMIT = 200\n")
    assert printed() != first
    (tmp_path / "shared.py").write_text("LIMIT = 100\n")
    assert printed() == first


def test_what_cannot_be_compared_is_never_the_same(tmp_path: Path):
    class Unknown:
        pass

    thing = Unknown()
    assert fingerprint(thing, Path(__file__).parent) != fingerprint(thing, Path(__file__).parent)
