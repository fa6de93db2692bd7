"""Every line of the reference of SQL is true: what it says is kept up to date is what Spark answers in batch, whatever
comes, changes and goes, with a crash; what it says is refused is."""

from __future__ import annotations

import random
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.compiler import history
from tests.compiler.history import Change, kept_up_to_date

from headrace.errors import DeclarationError
from headrace.names import CHANGE
from headrace.testing import Delete, Simulation

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "sql.md"
LINE = re.compile(r"^\| (?P<name>.+?) \| `(?P<query>[^|]+)` \|(?: (?P<error>HR-\d+) \|)?$", re.MULTILINE)
TABLES = {
    "orders": ("id int, customer string, product string, amount double, day date", ("id",)),
    "customers": ("customer string, country string", ("customer",)),
    "products": ("product string, price double, tags array<string>", ("product",)),
}
PARTS, CHANGES, MOST_HISTORIES = 3, 50, 10
LINES = list(LINE.finditer(PAGE.read_text(encoding="utf-8")))
KEPT = {line["name"]: line["query"] for line in LINES if line["error"] is None}
REFUSED = {line["name"]: (line["query"], line["error"]) for line in LINES if line["error"] is not None}


def change(dice: random.Random) -> Change:
    """A row that comes, changes or goes; the keys are few, so that rows meet."""
    table = dice.choices(list(TABLES), [6, 2, 2])[0]
    row: dict[str, Any]
    if table == "orders":
        row = {
            "id": dice.randrange(12),
            "customer": dice.choice(["a", "b", "c", "d", None]),
            "product": dice.choice(["p1", "p2", "p4", None]),
            "amount": dice.choice([1.0, 2.5, 3.0, 4.0, 6.5, 7.0]),
            "day": str(date(2026, 1, 1) + timedelta(days=dice.randrange(60))),
        }
    elif table == "customers":
        row = {"customer": dice.choice("abcz"), "country": dice.choice(["de", "fr"])}
    else:
        tags = dice.choice([["x", "y"], ["y"], []])
        row = {"product": dice.choice(["p1", "p2", "p3"]), "price": dice.choice([1.0, 3.0, 6.5]), "tags": tags}
    if dice.random() < 0.2:
        return table, Delete({name: row[name] for name in TABLES[table][1]})
    return table, row


def test_the_page_has_enough_of_both():
    assert len(KEPT) >= 60
    assert len(REFUSED) >= 15


@pytest.mark.parametrize("name", KEPT)
def test_it_is_kept_up_to_date(spark: SparkSession, seed: int, name: str):
    """Over another history where Spark's own answer was empty throughout: nothing would have been compared."""
    dice = random.Random(seed)
    for _ in range(MOST_HISTORIES):
        changes = [[change(dice) for _ in range(CHANGES)] for _ in range(PARTS)]
        if kept_up_to_date(spark, TABLES, KEPT[name], changes):
            return
    pytest.fail(f"{MOST_HISTORIES} histories, and Spark's answer was empty in all of them")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT e.at FROM events e WHERE EXISTS (SELECT 1 FROM limits l WHERE l.most >= e.at)", 2),
        ("SELECT e.at, l.most FROM events e LEFT JOIN limits l ON l.most >= e.at", 3),
        ("SELECT e.at FROM events e LEFT JOIN limits l ON l.most >= e.at WHERE l.most IS NULL", 1),
        ("SELECT times FROM (SELECT count(DISTINCT n, at) AS times FROM events GROUP BY n) WHERE times = 3", 1),
        ("SELECT DISTINCT named_struct('at', at) AS at FROM events", 3),
    ],
)  # fmt: skip
def test_times_that_differ_in_a_microsecond_are_different(spark: SparkSession, query: str, rows: int):
    tables = {"events": ("id int, n int, at timestamp", ("id",)), "limits": ("id int, most timestamp", ("id",))}
    at = "2026-01-01T00:00:00.00000{}Z"
    with Simulation(history.declared(tables, query), spark=spark) as simulation:
        simulation.push("events", [{"id": i, "n": 1, "at": at.format(i)} for i in (1, 2, 3)])
        if "limits" in query:
            simulation.push("limits", [{"id": 1, "most": at.format(2)}])
        simulation.advance()
        found = simulation.read("answer")
    assert history.told(found, [name for name in found[0] if name != CHANGE]).total() == rows


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(spark: SparkSession, name: str):
    query, code = REFUSED[name]
    with pytest.raises(DeclarationError) as raised:
        Simulation(history.declared(TABLES, query), spark=spark)
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == history.__file__
    assert raised.value.fix
