"""`top`: of a stream and of a table of changes, shuffled, crashed and live; each game is an example of its own."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.testing import Driver, oracle, shuffled

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
GAMES = 100
START = datetime(2026, 3, 1, tzinfo=UTC)

app = hr.App("ranking")
app.stream(
    "plays", schema="id string, game string, player string, points bigint, at timestamp", event_time="at", id="id"
)


@app.stream(key="game")
def best(plays):
    return hr.top(plays.select("id", "game", "points"), 3, by="points", within="game")


@app.stream(key="game")
def leaders(plays):
    totals = hr.window(plays, hr.global_(), by=["game", "player"], points=hr.sum("points"))
    return hr.top(totals, 2, by="points", within="game")


@app.stream
def overall(plays):
    return hr.top(plays.select("id", "points"), 5, by="points")


def plays(seed: int) -> list[Mapping[str, Any]]:
    dice = random.Random(seed)
    return [
        {
            "id": f"{game}-{number}",
            "game": f"game{game}",
            "player": f"player{dice.randrange(4)}",
            "points": None if dice.random() < 0.1 else dice.randrange(-3, 9),
            "at": START + timedelta(seconds=number),
        }
        for game in range(GAMES)
        for number in range(dice.randrange(1, 10))
    ]


def standing(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Who stands at each place, when what is told again changes nothing."""
    held: dict[str, str] = {}
    for row in rows:
        place, text = f"{row.get('game')} {row['place']}", str(sorted((k, v) for k, v in row.items() if k != "change"))
        if row["change"] == "+":
            held[place] = text
        elif held.get(place) == text:
            del held[place]
    return held


def folded(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    held: Counter[str] = Counter()
    for row in rows:
        held[str(sorted((k, v) for k, v in row.items() if k != "change"))] += 1 if row["change"] == "+" else -1
    return +held


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_plays_in_any_order_give_the_batch_ranking_and_a_crash_changes_nothing(
    spark: SparkSession, bootstrap: str, seed: int
):
    rows = shuffled(plays(seed), seed=seed, at="at", by=timedelta(hours=1))
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for piece in (rows[::3], rows[1::3]):
            driver.push("plays", piece)
            driver.advance()
        expected = {name: oracle(app, name, {"plays": rows[::3] + rows[1::3]}, spark) for name in ("best", "leaders")}
        for name, answer in expected.items():
            assert folded(driver.read(name)) == folded(answer), f"{name}, seed {seed}"
        driver.crash()
        driver.push("plays", rows[2::3])
        driver.advance()
        for name in ("best", "leaders", "overall"):
            answer = oracle(app, name, {"plays": plays(seed)}, spark)
            assert standing(driver.read(name)) == standing(answer), f"{name}, seed {seed}"


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
def test_live_equals_the_batch_twin(spark: SparkSession, bootstrap: str, seed: int):
    rows = shuffled(plays(seed), seed=seed, at="at", by=timedelta(hours=1))
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("plays", rows)
        driver.advance()
        for name in ("best", "leaders", "overall"):
            answer = oracle(app, name, {"plays": rows}, spark)
            assert standing(driver.read(name)) == standing(answer), f"{name}, seed {seed}"


@pytest.mark.parametrize(
    ("change", "n", "options", "code"),
    [
        ("", 0, {"by": "points"}, "HR-042"),
        ("", 3, {"by": "nope"}, "HR-033"),
        ("", 3, {"by": "points", "within": "nope"}, "HR-030"),
        (", place bigint", 3, {"by": "points"}, "HR-036"),
        (", tags map<string,string>", 3, {"by": "points"}, "HR-042"),
    ],
)
def test_a_mistake_is_named_where_it_was_made(
    spark: SparkSession, change: str, n: int, options: dict[str, Any], code: str
):
    rows = spark.createDataFrame([], f"id string, points bigint{change}")
    with pytest.raises(DeclarationError) as raised:
        hr.top(rows, n, **options)
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
