"""`top`: of a stream and of a table of changes, shuffled, crashed and live.

An example is a game (history.py), drawn by hypothesis; a run ranks `EXAMPLES` of them side by side.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.operators.history import drawn, shrunk, weight

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.testing import Driver, oracle

RUNS = int(os.environ.get("HEADRACE_DEEP", "1"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
EXAMPLES = 200
START = datetime(2026, 3, 1, tzinfo=UTC)
Row = Mapping[str, Any]

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


@app.stream(partitions=1)
def overall(plays):
    return hr.top(plays.select("id", "points"), 5, by="points")


# What is drawn and sent


@dataclass(frozen=True)
class Play:
    """A play of a game: who, how many points, how often it is sent, and when, in thousandths of the run."""

    player: int = 0
    points: int | None = 0
    copies: int = 1
    when: int = 0


@dataclass(frozen=True)
class Game:
    events: tuple[Play, ...]
    named: bool = True


POINTS = st.one_of(st.integers(-3, 8), st.sampled_from([None, 2**57, -(2**57)]))
PLAYS = st.builds(Play, st.integers(0, 3), POINTS, st.sampled_from([1, 1, 1, 2, 3]), st.integers(0, 999))
GAMES = st.builds(Game, st.lists(PLAYS, min_size=1, max_size=9).map(tuple), st.sampled_from([True, True, True, False]))


def sent(games: Sequence[Game]) -> list[Row]:
    """The plays of all games in the order in which they come; of the games without a name only the first counts."""
    rows: list[tuple[int, Row]] = []
    unnamed = [number for number, game in enumerate(games) if not game.named]
    for number, game in enumerate(games):
        for place, play in enumerate(game.events):
            row = {
                "id": f"{number}-{place}",
                "game": None if number in unnamed[:1] else f"game{number}",
                "player": f"player{play.player}",
                "points": play.points,
                "at": START + timedelta(seconds=place),
            }
            rows.extend([(play.when, row)] * play.copies)
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


# What is compared


def by_game(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[str(row.get("game"))].append(row)
    return dict(found)


def standing(rows: Iterable[Row]) -> dict[int, str]:
    """Who stands at each place, when what is told again changes nothing."""
    held: dict[int, str] = {}
    for row in rows:
        text = str(sorted((k, v) for k, v in row.items() if k != "change"))
        if row["change"] == "+":
            held[row["place"]] = text
        elif held.get(row["place"]) == text:
            del held[row["place"]]
    return held


def folded(rows: Iterable[Row]) -> dict[str, int]:
    held: Counter[str] = Counter()
    for row in rows:
        held[str(sorted((k, v) for k, v in row.items() if k != "change"))] += 1 if row["change"] == "+" else -1
    return {text: count for text, count in held.items() if count}


def wrong(
    found: Iterable[Row], expected: Iterable[Row], table: Callable[[Iterable[Row]], Mapping[Any, Any]]
) -> list[str]:
    """The games that stand otherwise than they should."""
    left, right = by_game(found), by_game(expected)
    return [game for game in {**left, **right} if table(left.get(game, ())) != table(right.get(game, ()))]


# The runs

NODES = ("best", "leaders", "overall")


def failing(
    spark: SparkSession, bootstrap: str, mode: Mode, seed: int, games: Sequence[Game], told: dict[str, str]
) -> list[int]:
    """The numbers of the games that end otherwise than in batch; what is wrong with the first of a node is `told`."""
    rows = sent(games)
    failed: set[int] = set()

    def compare(driver: Driver, rows: list[Row], table: Callable[[Iterable[Row]], Mapping[Any, Any]]) -> None:
        for name in NODES:
            found, expected = driver.read(name), oracle(app, name, {"plays": rows}, spark)
            for game in wrong(found, expected, table):
                named = next((n for n, one in enumerate(games) if f"game{n}" == game), None)
                unnamed = next((n for n, one in enumerate(games) if not one.named), 0)
                failed.add(unnamed if named is None else named)
                left, right = by_game(found).get(game, ()), by_game(expected).get(game, ())
                told.setdefault(name, f"{game} of {name}\n  found    {table(left)}\n  expected {table(right)}")

    with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        if mode is Mode.LIVE:
            driver.push("plays", rows)
            driver.advance()
            compare(driver, rows, standing)
        else:
            cuts = [len(rows) // 3, 2 * len(rows) // 3]
            for piece in (rows[: cuts[0]], rows[cuts[0] : cuts[1]]):
                driver.push("plays", piece)
                driver.advance()
            compare(driver, rows[: cuts[1]], folded)
            driver.crash()
            driver.push("plays", rows[cuts[1] :])
            driver.advance()
            driver.crash(seed=seed)
            driver.advance()
            compare(driver, rows, folded)
    return sorted(failed)


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_plays_in_any_order_give_the_batch_ranking(spark: SparkSession, bootstrap: str, mode: Mode, seed: int):
    """In exact mode half way without a crash, and at the end after two; in live mode at the end."""
    games = drawn(GAMES, EXAMPLES, of=f"{seed} top {mode}")
    print(f"HEADRACE_SEED={seed}: {len(games)} games")
    told: dict[str, str] = {}
    failed = failing(spark, bootstrap, mode, seed, games, told)
    if failed:
        number = min(failed, key=lambda one: weight(games[one]))
        smallest = shrunk(games[number], lambda some: failing(spark, bootstrap, mode, seed, some, {}))
        alone = "it fails only beside the others" if smallest is None else "it fails by itself"
        pytest.fail(
            f"{len(failed)} of {len(games)} games fail with HEADRACE_SEED={seed}; the simplest, {alone}:\n"
            f"{smallest or games[number]}\n" + "\n".join(told.values())
        )


@pytest.mark.parametrize(
    ("change", "n", "options", "code"),
    [
        ("", 0, {"by": "points"}, "HR-042"),
        ("", 3, {"by": "nope"}, "HR-033"),
        ("", 3, {"by": "points", "within": "nope"}, "HR-030"),
        (", place bigint", 3, {"by": "points"}, "HR-036"),
        (", tags map<string,string>", 3, {"by": "points"}, "HR-042"),
        (", nick string collate UTF8_LCASE", 3, {"by": "points"}, "HR-042"),
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
