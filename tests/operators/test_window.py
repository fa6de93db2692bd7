"""Windows in a stream: the three properties of every stateful operator, for each kind, emission and lateness.

One run holds many examples: each card is one, with a sequence of events of its own, so that a run of 200 cards is 200
examples of every combination.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.testing import Driver, oracle, shuffled

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
CARDS = 200
START = datetime(2026, 3, 1, tzinfo=UTC)
DELAY = timedelta(seconds=20)
LATENESS = timedelta(seconds=40)
SCHEMA = "id string, card string, amount double, n bigint, at timestamp"

Row = Mapping[str, Any]
Operator = Callable[..., DataFrame]


def _window(windows: Any) -> Operator:
    def operator(rows: DataFrame, **options: Any) -> DataFrame:
        return hr.window(
            rows,
            windows,
            by="card",
            rows=hr.count(),
            total=hr.sum("n"),
            spent=hr.sum("amount"),
            top=hr.max("amount"),
            first=hr.first("id"),
            best=hr.max_by("id", "amount"),
            kinds=hr.count_distinct("n"),
            some=hr.collect("id", most=3),
            **options,
        )

    return operator


def _sliding(rows: DataFrame, **options: Any) -> DataFrame:
    return hr.sliding(
        rows, by="card", within="30 seconds", rows=hr.count(), total=hr.sum("n"), last=hr.last("id"), **options
    )


KINDS: dict[str, Operator] = {
    "tumbling": _window(hr.tumbling("30 seconds", offset="7 seconds")),
    "hopping": _window(hr.hopping("30 seconds", "12 seconds")),
    "session": _window(hr.session("10 seconds")),
    "sliding": _sliding,
}


def declare(kind: str) -> hr.App:
    """An app with the kind in every emission: `steady` holds rows within the delay, `tardy` within the lateness too."""
    app = hr.App(f"windows_{kind}")
    for source in ("steady", "tardy"):
        app.stream(source, schema=SCHEMA, event_time="at", delay=DELAY, id="id")
    operator = KINDS[kind]

    @app.stream(key="card")
    def final(steady):
        return operator(steady)

    @app.stream(key="card")
    def early(steady):
        return operator(steady, emit="early")

    @app.stream(key="card")
    def corrected(tardy):
        return operator(tardy, emit="final", lateness=LATENESS)

    @app.stream(key="card")
    def early_corrected(tardy):
        return operator(tardy, emit="early", lateness=LATENESS)

    return app


NODES = {"final": "steady", "early": "steady", "corrected": "tardy", "early_corrected": "tardy"}


def example(seed: int, card: str) -> Iterable[Row]:
    """Events of one card over two minutes: bursts, ties, gaps, and times on the edges of windows and gaps."""
    dice = random.Random(f"{seed} {card}")
    at = dice.randrange(20_000_000)
    for number in range(dice.randrange(1, 14)):
        step = dice.choice(
            (
                0,
                1,
                dice.randrange(3_000_000),
                dice.randrange(30_000_000),
                10_000_000,
                10_000_001,
                12_000_000,
                30_000_000,
            )
        )
        at = at + step
        if dice.random() < 0.2:
            at = at // 1_000_000 * 1_000_000
        yield {
            "id": f"{card}-{number}",
            "card": None if card == "card0" else card,
            "amount": None if dice.random() < 0.1 else dice.randrange(40) / 4,
            "n": dice.randrange(5),
            "at": START + timedelta(microseconds=at),
        }


def events(seed: int) -> list[Row]:
    rows = [event for number in range(CARDS) for event in example(seed, f"card{number}")]
    return sorted(rows, key=lambda event: (event["at"], event["id"]))


def ends() -> list[Row]:
    """Events long after all others, so that every window is over."""
    return [
        {"id": f"end-{n}", "card": "end", "amount": 0.0, "n": 0, "at": START + timedelta(hours=1)} for n in range(4)
    ]


def results(rows: Iterable[Row]) -> Iterable[dict[str, Any]]:
    return ({**row} for row in rows if row.get("card") != "end")


def folded(rows: Iterable[Row]) -> Counter[str]:
    """What is put there and not taken back."""
    held: Counter[str] = Counter()
    for row in results(rows):
        sign = row.pop("change", "+")
        held[str(sorted(row.items()))] += 1 if sign == "+" else -1
    return Counter({row: count for row, count in held.items() if count})


def viewed(rows: Iterable[Row]) -> dict[str, str]:
    """The rows as a table by what makes them unique, in which what is told again changes nothing."""
    held: dict[str, str] = {}
    for row in results(rows):
        sign = row.pop("change", "+")
        name = str([row.get(column) for column in ("card", "window_start", "window_end", "id")])
        text = str(sorted(row.items()))
        if sign == "+":
            held[name] = text
        elif held.get(name) == text:
            del held[name]
    return held


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """The first few rows that are not the same on both sides."""
    names = sorted(name for name in {**found, **expected} if found.get(name) != expected.get(name))
    return [f"{name}: found {found.get(name)}, expected {expected.get(name)}" for name in names[:4]]


def sent(seed: int) -> dict[str, list[Row]]:
    return {
        "steady": shuffled(events(seed), seed=seed, at="at", by=DELAY),
        "tardy": shuffled(events(seed), seed=seed, at="at", by=DELAY + LATENESS),
    }


def pieces(rows: list[Row], count: int) -> list[list[Row]]:
    return [rows[len(rows) * n // count : len(rows) * (n + 1) // count] for n in range(count)]


def push_end(driver: Driver) -> None:
    for source in ("steady", "tardy"):
        for partition in (0, 1):
            driver.push(source, ends(), partition=partition)


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_any_order_converge_to_the_batch_answer(spark: SparkSession, bootstrap: str, kind: str, seed: int):
    app = declare(kind)
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        cut = {source: pieces(rows, 4) for source, rows in sent(seed).items()}
        for number in range(4):
            for source in cut:
                driver.push(source, cut[source][number])
            driver.advance()
        push_end(driver)
        driver.advance()
        for name, source in NODES.items():
            expected = folded(oracle(app, name, {source: events(seed)}, spark))
            assert differences(folded(driver.read(name)), expected) == [], f"{name}, seed {seed}"
            assert driver.late(name) == [], f"{name}, seed {seed}"


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_changes_no_value(spark: SparkSession, bootstrap: str, kind: str, seed: int):
    app = declare(kind)
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        cut = {source: pieces(rows, 3) for source, rows in sent(seed).items()}
        for number in range(3):
            for source in cut:
                driver.push(source, cut[source][number])
            driver.advance()
            driver.crash(seed=seed + number)
        push_end(driver)
        driver.advance()
        for name, source in NODES.items():
            expected = viewed(oracle(app, name, {source: events(seed)}, spark))
            assert differences(viewed(driver.read(name)), expected) == [], f"{name}, seed {seed}"


@pytest.mark.parametrize("seed", range(SEED, SEED + CASES))
@pytest.mark.parametrize("kind", KINDS)
def test_live_equals_the_batch_twin(spark: SparkSession, bootstrap: str, kind: str, seed: int):
    """With batches so short that the state goes through the store several times."""
    app = declare(kind)
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE, live_batch="5 seconds") as driver:
        cut = {source: pieces(rows, 3) for source, rows in sent(seed).items()}
        for number in range(3):
            for source in cut:
                driver.push(source, cut[source][number])
            driver.advance()
        push_end(driver)
        driver.advance()
        for name, source in NODES.items():
            expected = viewed(oracle(app, name, {source: events(seed)}, spark))
            assert differences(viewed(driver.read(name)), expected) == [], f"{name}, seed {seed}"
