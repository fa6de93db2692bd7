"""Windows in a stream: the three properties of every stateful operator, for each kind, emission and lateness.

**An example is a history** (history.py, cards.py): the events of one card, drawn by hypothesis. `HISTORIES` of them are
the cards of one run, and each of them goes through every emission and lateness that its kind has, which are the nodes
of the app (`NODES`). So a run checks `HISTORIES` examples of every combination of its kind. What all histories of a run
have in common, its `Shape` (sizes, gaps, delay, lateness, when it begins), is drawn by hypothesis too, for every run.

Every kind, emission and lateness goes through a simulation, in which a batch takes milliseconds; one run of each mode
goes through Spark and Kafka, and all of them with `make test-deep`.

`HEADRACE_DEEP` is the number of runs, `HEADRACE_SEED` the first seed. A failure prints the seed, and the history that
failed, made as small as it still fails.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.operators.cards import FEEDS, SCHEMA, SHAPES, Feed, History, Row, Shape, histories, in_order, number_of
from tests.operators.history import drawn, shrunk, weight

import headrace as hr
from headrace.engine.mode import Mode
from headrace.kernel import bridge
from headrace.testing import Driver, Simulation, oracle

RUNS = int(os.environ.get("HEADRACE_DEEP", "1"))
SEED = int(os.environ.get("HEADRACE_SEED", "1"))
HISTORIES = 200
END = "end"

# What is declared

Operator = Callable[..., DataFrame]


def windows(windows: Any) -> Operator:
    def operator(rows: DataFrame, **options: Any) -> DataFrame:
        return hr.window(
            rows,
            windows,
            by=["card", "shop"],
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


def sliding(within: str) -> Operator:
    def operator(rows: DataFrame, **options: Any) -> DataFrame:
        return hr.sliding(
            rows,
            by=["card", "shop"],
            within=within,
            n_rows=hr.count(),
            total=hr.sum("n"),
            last=hr.last("id"),
            **options,
        )

    return operator


def operator_of(kind: str, shape: Shape) -> Operator:
    size, every, offset = f"{shape.size} ms", f"{shape.every} ms", f"{shape.offset} ms"
    match kind:
        case "tumbling":
            return windows(hr.tumbling(size, offset=offset))
        case "hopping":
            return windows(hr.hopping(size, every, offset=offset))
        case "session":
            return windows(hr.session(f"{shape.gap} ms"))
        case _:
            return sliding(size)


KINDS = ("tumbling", "hopping", "session", "sliding", "global")
WINDOWED = {"final": "steady", "early": "steady", "corrected": "tardy", "early_corrected": "tardy"}
NODES: dict[str, dict[str, str]] = {
    "tumbling": WINDOWED,
    "hopping": WINDOWED,
    "session": WINDOWED,
    "sliding": {**WINDOWED, "arrival": "ordered", "arrival_lenient": "ordered"},
    "global": {"each": "steady", "each_early": "steady", "timed": "steady", "several": "padded"},
}
DROPPED = {"early", "early_corrected", "arrival_lenient"}  # what is late for these is counted, not kept


def declare(kind: str, shape: Shape) -> hr.App:
    """An app with a node for each emission and lateness of the kind."""
    app = hr.App(f"windows_{kind}")
    for source in dict.fromkeys(NODES[kind].values()):
        app.stream(source, schema=SCHEMA, event_time="at", delay=f"{shape.delay} ms", future="36500 days", id="id")
    if kind == "global":
        declare_global(app, shape)
        return app
    operator, lateness = operator_of(kind, shape), f"{shape.lateness} ms"

    @app.stream(key="card")
    def final(steady):
        return operator(steady, emit="final")

    @app.stream(key="card")
    def early(steady):
        return operator(steady, emit="early", late="drop")

    @app.stream(key="card")
    def corrected(tardy):
        return operator(tardy, emit="final", lateness=lateness)

    @app.stream(key="card")
    def early_corrected(tardy):
        return operator(tardy, emit="early", lateness=lateness, late="drop")

    if kind == "sliding":

        @app.stream(key="card")
        def arrival(ordered):
            return operator(ordered, emit="arrival")

        @app.stream(key="card")
        def arrival_lenient(ordered):
            return operator(ordered, emit="arrival", lateness=lateness, late="drop")

    return app


def declare_global(app: hr.App, shape: Shape) -> None:
    """A global window has no lateness; when it tells is its emission."""

    @app.stream(key="card")
    def each(steady):
        return windows(hr.global_())(steady)

    @app.stream(key="card")
    def each_early(steady):
        return windows(hr.global_())(steady, emit="early")

    @app.stream(key="card")
    def timed(steady):
        return windows(hr.global_(every=f"{shape.size} ms"))(steady)

    @app.stream(key="card")
    def several(padded):
        return windows(hr.global_(every=shape.rows))(padded)


# What is compared, history by history

Table = dict[int, Any]


def folded(rows: Iterable[Row]) -> Table:
    """What is put there and not taken back."""
    held: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for one in rows:
        values = {name: value for name, value in one.items() if name != "change"}
        held[number_of(one)][str(sorted(values.items()))] += 1 if one.get("change", "+") == "+" else -1
    tables = {number: {text: n for text, n in counts.items() if n} for number, counts in held.items()}
    return {number: table for number, table in tables.items() if table}


def viewed(rows: Iterable[Row]) -> Table:
    """The rows as a table by what makes them unique, in which what is told again changes nothing."""
    held: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for one in rows:
        name = str([one.get(column) for column in ("shop", "window_start", "window_end", "id")])
        text = str(sorted((column, value) for column, value in one.items() if column != "change"))
        table = held[number_of(one)]
        if one.get("change", "+") == "+":
            table[name] = text
        elif table.get(name) == text:
            del table[name]
    return {number: table for number, table in held.items() if table}


def by_id(rows: Iterable[Row]) -> Table:
    """How often each row is there."""
    held: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for one in rows:
        held[int(one["id"].split("-")[0])][one["id"]] += 1
    return {number: dict(counts) for number, counts in held.items()}


def once(table: Table) -> Table:
    return {number: sorted(counts) for number, counts in table.items()}


def differences(what: str, found: Table, expected: Table) -> dict[int, str]:
    wrong = (number for number in {**found, **expected} if found.get(number) != expected.get(number))
    return {n: f"{what}\n  found    {found.get(n)}\n  expected {expected.get(n)}" for n in wrong}


# The run


@dataclass(frozen=True)
class Property:
    """How a run goes: its mode, whether it crashes after every step, how many steps there are, and whether it is a
    simulation."""

    name: str
    mode: Mode = Mode.EXACT
    crashes: bool = False
    steps: int = 2
    simulated: bool = True

    def driver(self, app: hr.App, spark: SparkSession, bootstrap: str) -> Simulation | Driver:
        if self.simulated:
            return Simulation(app, spark=spark, mode=self.mode, live_batch=300)
        return Driver(app, spark=spark, bootstrap=bootstrap, mode=self.mode, live_batch="5 seconds")


SIMULATED = [
    Property("shuffled", steps=5),
    # What a run without a crash must give, one with crashes must give too, in exact mode to the last record.
    Property("crashed", crashes=True, steps=3),
    Property("live", mode=Mode.LIVE, steps=3),
]
STREAMED = [
    Property("crashed on Spark", crashes=True, simulated=False),
    # With batches so short that the state goes through the store several times.
    Property("live on Spark", mode=Mode.LIVE, simulated=False),
]
ALWAYS = {("tumbling", "crashed on Spark"), ("session", "live on Spark")}


def cases() -> Iterator[Any]:
    for kind in KINDS:
        for one in (*SIMULATED, *STREAMED):
            marks = () if one.simulated or (kind, one.name) in ALWAYS else (pytest.mark.deep,)
            yield pytest.param(kind, one, id=f"{kind}-{one.name}", marks=marks)


@dataclass(frozen=True)
class Trial:
    """A property of a kind, which histories pass or fail."""

    spark: SparkSession
    bootstrap: str
    kind: str
    property: Property
    shape: Shape
    seed: int

    def failing(self, histories: Sequence[History]) -> dict[int, str]:
        """The numbers of the histories that fail, each with what is wrong."""
        app, nodes = declare(self.kind, self.shape), NODES[self.kind]
        feeds = {source: FEEDS[source](histories, self.shape) for source in dict.fromkeys(nodes.values())}
        mode = self.property.mode
        with self.property.driver(app, self.spark, self.bootstrap) as driver:
            for step in range(self.property.steps):
                for source, feed in feeds.items():
                    self.push(driver, source, piece(feed.dead, step, self.property.steps))
                    self.push(driver, source, piece(feed.rows, step, self.property.steps))
                self.advance(driver, step)
            # In live mode twice, so that both partitions have spoken in one batch.
            for again in range(2 if mode is Mode.LIVE else 1):
                self.push_end(driver, feeds, timedelta(hours=1, seconds=again))
                self.advance(driver, self.property.steps)
            for source, feed in feeds.items():
                self.push(driver, source, feed.late)
            self.push_end(driver, feeds, timedelta(hours=2))
            driver.advance()
            return self.wrong(driver, app, feeds)

    def push(self, driver: Simulation | Driver, source: str, rows: Sequence[Row]) -> None:
        if FEEDS[source] is not in_order:
            driver.push(source, rows)
            return
        for partition in (0, 1):
            driver.push(source, [one for one in rows if number_of(one) % 2 == partition], partition=partition)

    def push_end(self, driver: Simulation | Driver, sources: Iterable[str], after: timedelta) -> None:
        """Events long after all others, so that every window is over."""
        for source in sources:
            for partition in (0, 1):
                rows = [{"id": f"{END}-{n}", "card": END, "at": self.shape.start + after} for n in range(2)]
                driver.push(source, rows, partition=partition)

    def advance(self, driver: Simulation | Driver, step: int) -> None:
        driver.advance()
        if self.property.crashes:
            driver.crash(seed=self.seed + step)

    def wrong(self, driver: Simulation | Driver, app: hr.App, feeds: Mapping[str, Feed]) -> dict[int, str]:
        found: dict[int, str] = {}
        answers: dict[str, Table] = {}
        exactly = self.property.mode is Mode.EXACT
        table, lates = (folded, lambda one: one) if exactly else (viewed, once)
        for name, source in NODES[self.kind].items():
            feed = feeds[source]
            counted, late = (feed.rows, feed.late) if self.kind != "global" else ([*feed.rows, *feed.late], [])
            # The nodes differ in what they tell when, so the answer for the same rows is the same, but for `change`.
            same = str(sorted(one["id"] for one in counted))
            if same not in answers:
                answers[same] = table(oracle(app, name, {source: [*counted, *feed.dead]}, self.spark))
            expected = answers[same]
            got = table(one for one in driver.read(name) if one.get("card") != END)
            found |= differences(name, got, expected)
            kept = [] if name in DROPPED else late
            found |= differences(f"{name}.late", lates(by_id(driver.late(name))), lates(by_id(kept)))
            # A batch that is run again in a simulation is counted again.
            if exactly and self.kind != "global" and not (self.property.crashes and self.property.simulated):
                assert counted_late(self.spark, name, len(late)) == len(late), f"{name}: what is late is counted"
        for source, feed in feeds.items():
            letters = {(letter.source.partition, letter.source.offset): letter for letter in driver.dead(source)}
            dead = by_id(json.loads(letter.raw or b"{}") for letter in letters.values())
            found |= differences(f"{source}.dead", dead, by_id(feed.dead))
        return found


def piece(rows: Sequence[Row], number: int, count: int) -> Sequence[Row]:
    return rows[len(rows) * number // count : len(rows) * (number + 1) // count]


def counted_late(spark: SparkSession, query: str, expected: int) -> int:
    """What the query has counted as late; the count comes from the executors a moment after the rows."""
    until = time.monotonic() + 60
    while True:
        count = sum(gauge.late for gauge in bridge.gauges(spark) if gauge.query == query)
        if count == expected or time.monotonic() > until:
            return count
        time.sleep(0.1)


@pytest.mark.parametrize("seed", range(SEED, SEED + RUNS))
@pytest.mark.parametrize(("kind", "property_"), list(cases()))
def test_every_history_gives_the_batch_answer(
    spark: SparkSession, bootstrap: str, kind: str, property_: Property, seed: int
):
    of = f"{seed} {kind} {property_.name}"
    shape = drawn(SHAPES, 10, of=of)[-1]
    examples = drawn(histories(shape), HISTORIES, of=of)
    print(f"HEADRACE_SEED={seed}: {len(examples)} histories of {shape}")
    trial = Trial(spark, bootstrap, kind, property_, shape, seed)
    wrong = trial.failing(examples)
    if wrong:
        number = min(wrong, key=lambda one: weight(examples[one]))
        smallest = shrunk(examples[number], lambda some: trial.failing(some))
        told = wrong[number] if smallest is None else trial.failing([smallest]).get(0, wrong[number])
        alone = "it fails only beside the others" if smallest is None else "it fails by itself"
        pytest.fail(
            f"{len(wrong)} of {len(examples)} histories fail with HEADRACE_SEED={seed}; the simplest, {alone}:\n"
            f"{smallest or examples[number]}\n{shape}\n{told}"
        )
