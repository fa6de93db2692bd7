"""Rows that come later than anybody allowed: what is refused is kept aside whole, and the rest is the batch answer.

Disorder goes far beyond delay and lateness here, so which rows are refused depends on how the batches are cut. Whatever
was refused, it stands in `<name>.late`, and the answer is that of batch for the other rows. An example is a history.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.operators.cards import SCHEMA, SHAPES, Row, Shape, histories, number_of, shuffled
from tests.operators.history import drawn

import headrace as hr
from headrace.testing import Driver, oracle

RUNS = int(os.environ.get("HEADRACE_DEEP", "1"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
HISTORIES = 200
STEPS = 4
NODES = ("final", "corrected", "early")


def declare(kind: str, shape: Shape) -> hr.App:
    app = hr.App(f"refused_{kind}")
    app.stream("wild", schema=SCHEMA, event_time="at", delay=f"{shape.delay} ms", future="36500 days", id="id")
    lateness, size = f"{shape.lateness} ms", f"{shape.size} ms"

    def operator(rows: Any, **options: Any) -> Any:
        by = ["card", "shop"]
        values: dict[str, Any] = {"total": hr.sum("n"), "some": hr.collect("id", most=99)}
        if kind == "sliding":
            return hr.sliding(rows, by=by, within=size, **options, **values)
        if kind == "session":
            return hr.window(rows, hr.session(f"{shape.gap} ms"), by=by, **options, **values)
        return hr.window(rows, hr.tumbling(size), by=by, **options, **values)

    @app.stream(key="card")
    def final(wild):
        return operator(wild, emit="final")

    @app.stream(key="card")
    def corrected(wild):
        return operator(wild, emit="final", lateness=lateness)

    @app.stream(key="card")
    def early(wild):
        return operator(wild, emit="early", lateness=lateness)

    return app


def folded(rows: Sequence[Row]) -> dict[str, int]:
    held: Counter[str] = Counter()
    for row in rows:
        values = {name: value for name, value in row.items() if name != "change"}
        held[str(sorted(values.items()))] += 1 if row.get("change", "+") == "+" else -1
    return {text: count for text, count in held.items() if count}


def without(rows: Sequence[Row], refused: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows that were not refused; of copies as many as were not."""
    left = Counter(row["id"] for row in refused)
    kept: list[Row] = []
    for row in rows:
        left[row["id"]] -= 1
        if left[row["id"]] < 0:
            kept.append(row)
    return kept


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session"])
def test_what_is_refused_is_kept_aside_and_the_rest_is_the_batch_answer(
    spark: SparkSession, bootstrap: str, kind: str, seed: int
):
    of = f"{seed} {kind} refused"
    shape = drawn(SHAPES, 10, of=of)[-1]
    examples = drawn(histories(shape), HISTORIES, of=of)
    print(f"HEADRACE_SEED={seed}: {len(examples)} histories of {shape}")
    rows = shuffled(examples, shape, 4 * (shape.delay + shape.lateness)).rows
    app = declare(kind, shape)
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for step in range(STEPS):
            driver.push("wild", rows[len(rows) * step // STEPS : len(rows) * (step + 1) // STEPS])
            driver.advance()
        for partition in (0, 1):
            end = {"id": "end", "card": "end", "at": shape.start + timedelta(hours=1)}
            driver.push("wild", [end], partition=partition)
        driver.advance()
        for name in NODES:
            refused = driver.late(name)
            kept = without(rows, refused)
            expected = oracle(app, name, {"wild": kept}, spark)
            found = [row for row in driver.read(name) if row.get("card") != "end"]
            assert len(kept) + len(refused) == len(rows), f"{name}, HEADRACE_SEED={seed}"
            assert len(refused) > 10, "the example should be wild"
            for number in range(HISTORIES):
                mine, right = ([row for row in some if number_of(row) == number] for some in (found, expected))
                assert folded(mine) == folded(right), f"{name}, HEADRACE_SEED={seed}, {shape}, {examples[number]}"


# What is late for one window and in time for another

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
clicks_app = hr.App("clicks_refused")
clicks_app.stream("clicks", schema="id string, who string, at timestamp", event_time="at", id="id")


@clicks_app.stream
def visits(clicks):
    return hr.window(clicks, hr.session("10 minutes"), by="who", n=hr.count())


@clicks_app.stream
def hops(clicks):
    return hr.window(clicks, hr.hopping("10 minutes", "2 minutes"), by="who", n=hr.count())


def click(name: str, minutes: float, who: str = "ann") -> Row:
    return {"id": name, "who": who, "at": NOON + timedelta(minutes=minutes)}


# When `b` comes, the watermark is at 12:12.
CLICKS = [click("a", 0), click("clock", 12, "bob"), click("b", 5), click("end", 90, "bob")]


def play(driver: Driver) -> None:
    for row in CLICKS:
        driver.push("clicks", [row], partition=0)
        driver.advance()


def test_a_row_counts_in_those_of_its_windows_that_are_not_over(spark: SparkSession, bootstrap: str):
    with Driver(clicks_app, spark=spark, bootstrap=bootstrap) as driver:
        play(driver)
        found = [(row["window_start"][11:16], row["n"]) for row in driver.read("hops") if row["who"] == "ann"]
        assert driver.late("hops") == []
    of_a = [("11:52", 1), ("11:54", 1), ("11:56", 1), ("11:58", 1), ("12:00", 1)]
    assert sorted(found) == [*of_a, ("12:04", 1)]


def test_a_row_that_belongs_to_a_session_that_was_given_is_late(spark: SparkSession, bootstrap: str):
    """It may neither be lost in silence nor make a session that overlaps the one that was given."""
    with Driver(clicks_app, spark=spark, bootstrap=bootstrap) as driver:
        play(driver)
        found = [row for row in driver.read("visits") if row["who"] == "ann"]
        kept = without(CLICKS, driver.late("visits"))
        expected = [row for row in oracle(clicks_app, "visits", {"clicks": kept}, spark) if row["who"] == "ann"]
        assert folded(found) == folded(expected)
