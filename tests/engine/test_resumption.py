"""Live queries behind one another: whatever ends a run, and in whichever mode it goes on, each result counts once."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import RunError
from headrace.graph.graph import Graph
from headrace.testing import Driver, oracle

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOBODY = "nobody"
CHANGES = "sums"


def chained() -> hr.App:
    """A stream with a topic of its own, and behind it each kind of result with another query behind it."""
    app = hr.App("chain")
    app.stream("events", schema="id string, who string, n int, at timestamp", event_time="at", id="id", partitions=2)

    @app.stream(topic="kept", partitions=2)
    def kept(events):
        return events.where("n >= 0")

    @app.stream(topic="once")
    def once(kept):
        return hr.dedupe(kept, by="id", within="1 hour")

    @app.stream(topic="seconds")
    def seconds(kept):
        return hr.window(kept, hr.tumbling("1 second"), by="who", n=hr.count(), total=hr.sum("n"))

    @app.stream(topic="sums")
    def sums(kept):
        return hr.aggregate(kept, by="who", n=hr.count(), total=hr.sum("n"))

    @app.view(key="who")
    def counts(once):
        return hr.aggregate(once, by="who", n=hr.count(), total=hr.sum("n"))

    @app.view(key="who")
    def windows(seconds):
        return hr.aggregate(seconds, by="who", n=hr.count(), total=hr.sum("total"))

    @app.view(key="n")
    def sizes(sums):
        return hr.aggregate(sums.where(f"who <> '{NOBODY}'"), by="n", people=hr.count())

    return app


def held_back() -> hr.App:
    """Results that are given when time has passed, and pairs, with a query behind each."""
    app = hr.App("held_back")
    app.stream("events", schema="id string, who string, n int, at timestamp", event_time="at", id="id", partitions=2)

    @app.stream(topic="sessions")
    def sessions(events):
        return hr.window(events, hr.session("300 milliseconds"), by="who", n=hr.count())

    @app.stream(topic="slid")
    def slid(events):
        return hr.sliding(events, by="who", within="2 seconds", emit="final", total=hr.sum("n"))

    @app.stream(topic="pairs")
    def pairs(events):
        odd = events.where("n % 2 = 1").selectExpr("id as odd", "who", "at as odd_at")
        return hr.join(events.where("n % 2 = 0"), odd, on="who", within=("0", "1 second"), how="left")

    @app.view(key="n")
    def lengths(sessions):
        return hr.aggregate(sessions.where(f"who <> '{NOBODY}'"), by="n", sessions=hr.count())

    @app.view(key="who")
    def totals(slid):
        return hr.aggregate(slid, by="who", n=hr.count(), total=hr.sum("total"))

    @app.view(key="who")
    def partners(pairs):
        return hr.aggregate(pairs, by="who", n=hr.count(), odd=hr.count("odd"))

    return app


def event(number: int, who: str, n: int) -> dict[str, Any]:
    return {"id": f"e{number}", "who": who, "n": n, "at": BEGIN + timedelta(milliseconds=100 * number)}


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """The rows without those that only move the clock, and how often each is there."""
    return Counter(json.dumps(row, sort_keys=True) for row in rows if row.get("who") != NOBODY)


def balance(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    """What changes add up to."""
    found: Counter[str] = Counter()
    for row in rows:
        (of,) = counted([{**row, "change": "+"}]) or [""]
        found[of] += 1 if row["change"] == "+" else -1
    return Counter({row: times for row, times in found.items() if row and times})


def ended(driver: Driver, number: int) -> list[dict[str, Any]]:
    """Move the clocks of both partitions past everything that was pushed."""
    last = [event(number + 100_000 + partition, NOBODY, 1) for partition in range(2)]
    for partition, one in enumerate(last):
        driver.push("events", [one], partition=partition)
    driver.advance()
    driver.push("events", more := [event(number + 200_000 + partition, NOBODY, 1) for partition in range(2)])
    driver.advance()
    return last + more


def compare(driver: Driver, app: hr.App, events: list[dict[str, Any]], spark: SparkSession, seed: int) -> None:
    """The rows of every stream, what changes add up to, and every view, with the batch answer."""
    given = {"events": events}
    nodes = app.graph().derived
    for name in [node.name for node in nodes if node.kind == "stream" and node.name != CHANGES]:
        wanted = counted(oracle(app, name, given, spark))
        assert wanted
        found = counted(driver.read(name))
        assert found == wanted, f"{name} (seed {seed}): too many {found - wanted}, missing {wanted - found}"
    if CHANGES in [node.name for node in nodes]:
        assert balance(driver.read(CHANGES)) == counted(oracle(app, CHANGES, given, spark)), f"{CHANGES} (seed {seed})"
    for name in [node.name for node in nodes if node.kind == "view"]:
        assert counted(driver.view(name)) == counted(oracle(app, name, given, spark)), f"{name} (seed {seed})"


def pushed(driver: Driver, dice: random.Random, first: int, number: int) -> list[dict[str, Any]]:
    """Events in order of time within a partition, some of them twice, in either."""
    made = [event(first + i, dice.choice("abc"), dice.randrange(-1, 5)) for i in range(number)]
    events = [one for one in made for _ in range(dice.choice((1, 1, 2)))]
    for one in events:
        driver.push("events", [one], partition=dice.randrange(2))
    return events


def test_a_stop_and_a_start_of_chained_live_queries_double_nothing(spark: SparkSession, bootstrap: str, seed: int):
    app, dice = chained(), random.Random(seed)
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        events = pushed(driver, dice, 0, 30)
        driver.advance()
        written = {name: len(driver.records(name)) for name in ("kept", "once", "seconds")}
        assert min(written.values()) > 0
        driver.stop()
        driver.advance()
        assert {name: len(driver.records(name)) for name in written} == written, f"seed {seed}"
        compare(driver, app, events + ended(driver, 30), spark, seed)


LIVE, EXACT = Mode.LIVE, Mode.EXACT


def test_an_exact_batch_that_was_left_in_the_middle_is_ended_before_the_query_goes_live(
    spark: SparkSession, bootstrap: str, seed: int
):
    """What an exact batch has written has no ids: run again live, it would be written twice."""
    app, dice = chained(), random.Random(seed)
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=EXACT) as driver:
        events = pushed(driver, dice, 0, 30)
        driver.advance()
        written = {name: len(driver.records(name)) for name in ("kept", "once", "seconds")}
        assert min(written.values()) > 0
        driver.crash()
        driver.mode = LIVE
        driver.advance()
        assert {name: len(driver.records(name)) for name in written} == written, f"seed {seed}"
        compare(driver, app, events + ended(driver, 30), spark, seed)


@pytest.mark.parametrize(
    ("declared", "modes"),
    [
        pytest.param(chained, (LIVE, EXACT, LIVE), id="results of every kind"),
        pytest.param(held_back, (EXACT, LIVE, LIVE), id="results that are held back"),
        pytest.param(chained, None, id="results of every kind, any order", marks=pytest.mark.deep),
        pytest.param(held_back, None, id="results that are held back, any order", marks=pytest.mark.deep),
    ],
)
def test_crashes_and_changes_of_mode_in_a_chain(
    declared: Callable[[], hr.App], modes: tuple[Mode, ...] | None, spark: SparkSession, bootstrap: str, seed: int
):
    app, dice = declared(), random.Random(seed)
    live_batch = dice.choice(("5 seconds", "2 minutes"))
    chosen = modes or [dice.choice((LIVE, LIVE, EXACT)) for _ in range(6)]
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=chosen[0], live_batch=live_batch) as driver:
        events: list[dict[str, Any]] = []
        for number, mode in enumerate(chosen):
            driver.mode = mode
            events += pushed(driver, dice, 30 * number, 30)
            driver.advance()
            if dice.random() < 0.5:
                driver.stop()
            else:
                driver.crash(seed=dice.randrange(2**32))
        events += ended(driver, 30 * len(chosen))
        compare(driver, app, events, spark, seed)


def test_rows_that_cannot_be_told_behind_a_python_function_are_refused(spark: SparkSession, bootstrap: str):
    """Such a function reads ahead, so the id of a row at hand is that of another."""

    def declared(*, python: bool) -> hr.App:
        app = hr.App("ahead")
        app.stream("numbers", schema="n int", partitions=1)
        same = F.udf(lambda n: n, "int")

        @app.stream
        def copied(numbers):
            return numbers.select(same("n").alias("n")) if python else numbers

        return app

    with Driver(declared(python=False), spark=spark, bootstrap=bootstrap, mode=LIVE) as driver:
        driver.push("numbers", [{"n": 1}])
        driver.advance()
        driver.stop()
        prefix = driver.graph.node("numbers").topic.removesuffix("numbers")
        (node,) = (one for one in declared(python=True).graph().derived if one.name == "copied")
        source = driver.graph.node("numbers")
        driver.graph = Graph(driver.graph.app, (source, dataclasses.replace(node, topic=f"{prefix}copied")))
        driver.mode = EXACT
        with pytest.raises(RunError, match="HR-346"):
            driver.advance()
