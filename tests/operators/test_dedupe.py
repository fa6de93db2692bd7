"""`dedupe`: the three properties of every stateful operator, and what it says it does at its edges."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.testing import Driver, duplicated, oracle, shuffled

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
START = datetime(2026, 1, 1, tzinfo=UTC)
WITHIN = timedelta(minutes=10)
DELAY = timedelta(seconds=30)

app = hr.App("dedupe_tests")
app.stream(
    "payments", schema="id string, card string, amount double, at timestamp", event_time="at", delay=DELAY, id="id"
)


@app.stream
def unique(payments):
    return hr.dedupe(payments, by=["id", "card"], within=WITHIN)


def events(seed: int, count: int = 300) -> list[dict[str, Any]]:
    """Payments over 40 minutes, some of whose keys come back after `within` as new events."""
    dice = random.Random(seed)
    made: list[dict[str, Any]] = []
    for number in range(count):
        at = START + timedelta(seconds=number * 8, microseconds=dice.randrange(1_000_000))
        made.append({"id": f"p{number}", "card": f"c{dice.randrange(5)}", "amount": number / 4, "at": at})
    for old in dice.sample(made, count // 10):
        made.append(
            {**old, "amount": old["amount"] + 1, "at": old["at"] + WITHIN + timedelta(seconds=dice.randrange(900))}
        )
    return sorted(made, key=lambda event: event["at"])


def cut(rows: list[Any], seed: int, pieces: int) -> list[list[Any]]:
    """The rows in a few runs of uneven length."""
    edges = sorted(random.Random(seed).sample(range(1, len(rows)), pieces - 1))
    return [rows[a:b] for a, b in zip([0, *edges], [*edges, len(rows)], strict=True)]


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(str(sorted(row.items())) for row in rows)


@pytest.mark.parametrize("seed", range(CASES))
def test_shuffled_and_repeated_events_converge_to_the_batch_answer(spark: SparkSession, bootstrap: str, seed: int):
    sent = shuffled(duplicated(events(seed), seed=seed), seed=seed, at="at", by=DELAY)
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for piece in cut(sent, seed, 4):
            driver.push("payments", piece)
            driver.advance()
        assert bag(driver.read("unique")) == bag(oracle(app, "unique", {"payments": events(seed)}, spark)), (
            f"seed {seed}"
        )
        assert driver.late("unique") == []


@pytest.mark.parametrize("seed", range(CASES))
def test_a_crash_changes_no_value(spark: SparkSession, bootstrap: str, seed: int):
    sent = shuffled(duplicated(events(seed), seed=seed), seed=seed, at="at", by=DELAY)
    expected = bag(oracle(app, "unique", {"payments": sent}, spark))
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for number, piece in enumerate(cut(sent, seed, 4)):
            driver.push("payments", piece)
            driver.advance()
            driver.crash(seed=seed + number)
        driver.advance()
        found = bag(driver.read("unique"))
    assert found == expected, f"seed {seed}"


@pytest.mark.parametrize("seed", range(CASES))
def test_live_equals_the_batch_twin(spark: SparkSession, bootstrap: str, seed: int):
    sent = shuffled(duplicated(events(seed), seed=seed), seed=seed, at="at", by=DELAY)
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("payments", sent)
        driver.advance()
        assert bag(driver.read("unique")) == bag(oracle(app, "unique", {"payments": sent}, spark)), f"seed {seed}"


def test_the_batch_twin_equals_a_plain_scan(spark: SparkSession):
    seed = 11
    dice = random.Random(seed)
    rows = [
        {
            "id": f"p{dice.randrange(20)}",
            "card": "c",
            "amount": float(n),
            "at": START + timedelta(seconds=dice.randrange(7200)),
        }
        for n in range(400)
    ]
    kept: list[dict[str, Any]] = []
    last: dict[str, datetime] = {}
    for row in sorted(rows, key=lambda r: (r["at"], str(r["amount"]))):
        if row["id"] not in last or row["at"] - last[row["id"]] >= WITHIN:
            last[row["id"]] = row["at"]
            kept.append(row)
    found = oracle(app, "unique", {"payments": rows}, spark)
    assert Counter((r["id"], r["at"]) for r in found) == Counter(
        (r["id"], r["at"].isoformat(timespec="microseconds").replace("+00:00", "Z")) for r in kept
    ), f"seed {seed}"


def test_state_expires_and_what_is_too_late_is_kept_aside(spark: SparkSession, bootstrap: str):
    def event(name: str, minutes: float) -> dict[str, Any]:
        return {"id": name, "card": "c", "amount": 1.0, "at": START + timedelta(minutes=minutes)}

    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("payments", [event("a", 0), event("a", 0)])
        driver.advance()
        driver.push("payments", [event("b", 9)])
        driver.advance()
        driver.push("payments", [event("a", 0)])
        driver.advance()
        assert [row["id"] for row in driver.read("unique")] == ["a", "b"]
        driver.push("payments", [event(f"x{n}", 40) for n in range(3)])
        driver.advance()
        driver.push("payments", [event("a", 0), event("x0", 40)])
        driver.advance()
        assert sorted(row["id"] for row in driver.read("unique")) == ["a", "b", "x0", "x1", "x2"]
        assert [row["id"] for row in driver.late("unique")] == ["a"]
        stored = driver._run._running[0].spark.lastProgress.stateOperators[0].numRowsTotal  # type: ignore[union-attr]
        driver.push("payments", [event("end", 500)])
        driver.advance()
        driver.push("payments", [event("end", 500)])
        driver.advance()
        left = driver._run._running[0].spark.lastProgress.stateOperators[0].numRowsTotal  # type: ignore[union-attr]
        assert left < stored


def test_a_row_without_identity_is_kept(spark: SparkSession, bootstrap: str):
    rows = [{"id": "a", "card": None, "amount": 1.0, "at": START}] * 2 + [
        {"id": "a", "card": "c", "amount": 1.0, "at": START}
    ] * 2
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("payments", rows)
        driver.advance()
        assert bag(driver.read("unique")) == bag(oracle(app, "unique", {"payments": rows}, spark))
        assert len(driver.read("unique")) == 3


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"by": "nope", "within": "1 minute"}, "HR-030"),
        ({"by": [], "within": "1 minute"}, "HR-032"),
        ({"by": "amount", "within": "1 minute"}, "HR-032"),
        ({"by": "id", "within": "soon"}, "HR-005"),
        ({"by": "id", "within": "0 seconds"}, "HR-005"),
        ({"by": "id", "within": "1 minute", "at": "card"}, "HR-007"),
        ({"by": "id", "within": "1 minute"}, "HR-031"),
    ],
)
def test_a_mistake_is_named_where_it_was_made(spark: SparkSession, options: dict[str, Any], code: str):
    rows = spark.createDataFrame([], "id string, card string, amount double, at timestamp")
    with pytest.raises(DeclarationError) as raised:
        hr.dedupe(rows, **options)
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
