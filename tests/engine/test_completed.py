"""What a live query commits is completed: its results are in the log before its offsets are."""

from __future__ import annotations

import random
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace import names
from headrace.engine import offsets
from headrace.engine.completed import CompletedOffsets
from headrace.engine.mode import Mode
from headrace.kernel.bridge import Gauge
from headrace.log import topic
from headrace.log.consumer import committed
from headrace.testing import Driver

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Line:
    """A model of a query: rows are read, wait before each operator in several lanes, and are written at the end."""

    dice: random.Random
    operators: tuple[str, ...]
    lanes: int = 3
    now: float = 0.0
    read: int = 0
    written: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.number = dict.fromkeys(self.operators, 0)
        self.sent = {name: [0, 0] for name in self.operators}
        self.taken = {name: [0, 0] for name in self.operators}
        self.queues = {name: [deque[tuple[int, int]]() for _ in range(self.lanes)] for name in self.operators}
        self.flying: list[tuple[int, int]] = []

    def mark(self, name: str) -> int:
        self.number[name] ^= 1
        return self.number[name]

    def advance(self, busy: bool) -> None:
        """Some rows go one place further, in any order between lanes."""
        self.now += 0.03
        for _ in range(self.dice.randrange(6) if busy else 0):
            self._send(self.read, 0)
            self.read += 1
        for place, name in enumerate(self.operators):
            for lane in self.queues[name]:
                for _ in range(min(len(lane), self.dice.choice((0, 0, 1, 5)))):
                    row, number = lane.popleft()
                    self._send(row, place + 1)
                    self.taken[name][number] += 1
        for record in self.dice.sample(self.flying, len(self.flying) // 2 if busy else len(self.flying)):
            self.flying.remove(record)
            self.written.add(record[1])

    def _send(self, row: int, place: int) -> None:
        if place == len(self.operators):
            self.flying.append((int(self.now * 1000), row))
            return
        name = self.operators[place]
        self.sent[name][self.number[name]] += 1
        self.queues[name][self.dice.randrange(self.lanes)].append((row, self.number[name]))

    def gauges(self) -> list[Gauge]:
        def gauge(of: str, next_offset: int = -1, **more: object) -> Gauge:
            return Gauge("q", of, 0, max(0, next_offset), 0, 0, 0, next_offset, None, **more)  # pyright: ignore[reportArgumentType]

        unwritten = min((at for at, _ in self.flying), default=None)
        return [
            gauge("source", self.read),
            *(gauge(name, sent=tuple(self.sent[name]), taken=tuple(self.taken[name])) for name in self.operators),
            gauge("sink", unwritten_ms=unwritten),
            Gauge("other", "sink", 0, 0, 0, 0, 0, -1, None, unwritten_ms=0),
        ]


@pytest.mark.parametrize("operators", [(), ("dedupe",), ("window", "top")])
def test_completed_offsets_have_all_results_in_the_log(operators: tuple[str, ...], seed: int):
    line = Line(random.Random(seed), operators)
    for name in operators:
        line.sent[name] = [7, 3]  # lost with tasks of an earlier start
    completed = CompletedOffsets("q", operators, line.gauges(), line.mark, clock=lambda: line.now)
    told = 0
    for step in range(3000):
        line.advance(busy=step < 2900)
        if (done := completed.step(line.gauges())) is not None:
            told = done.get(("source", 0), 0)
            assert line.written.issuperset(range(told)), f"seed {seed}, step {step}"
    assert told == line.read > 1000, f"seed {seed}"


def test_where_an_earlier_start_has_been_does_not_count():
    """A query that was started again reads the unfinished batch again, and its gauges go on."""
    now, reached = 0.0, 50
    before = Gauge("q", "source", 0, reached, 0, 0, 0, reached, None)
    completed = CompletedOffsets("q", (), [before], lambda _: 0, clock=lambda: now)

    def offsets(gauge: Gauge) -> list[dict[tuple[str, int], int]]:
        nonlocal now
        told = []
        for _ in range(50):
            now += 0.03
            if (done := completed.step([gauge])) is not None:
                told.append(done)
        return told

    assert all(done == {} for done in offsets(before))
    assert offsets(Gauge("q", "source", 0, reached + 3, 0, 0, 0, 3, None))[-1] == {("source", 0): 3}


def test_a_live_query_commits_what_is_in_the_log(spark: SparkSession, bootstrap: str):
    """The results take seconds to be computed, long after everything was read."""
    declared = hr.App("slow")
    declared.stream("clicks", schema="id string, at timestamp", event_time="at", partitions=1)

    @declared.stream(partitions=1)
    def counted(clicks):
        counts = hr.window(clicks, hr.global_(every=1), by="id", emit="early", n=hr.count())
        return counts.withColumn("slow", F.expr("aggregate(sequence(1, 10000000), 0L, (sum, x) -> sum + x % n)"))

    with Driver(declared, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.resume()
        source, output = (driver.graph.node(name).topic for name in ("clicks", "counted"))
        group = names.group(driver.graph.app, "counted")
        for n in range(1, 4):
            driver.push("clicks", [{"id": f"c{n}", "at": START}])
            until = time.monotonic() + 120
            while committed(driver.connection, group, [source]).get((source, 0), 0) < n:
                assert time.monotonic() < until, "nothing is committed"
                time.sleep(0.02)
            assert topic.ends(driver.connection, output)[0] == n


def test_a_topic_that_is_read_twice_is_as_far_as_its_slowest_reader():
    read = {("payments", 0): 7, ("payments~1", 0): 4, ("payments", 1): 3, ("cards", 0): 9}
    gauges = [Gauge("both", of, partition, 1, 0, 0, 0, offset, None) for (of, partition), offset in read.items()]
    others = [Gauge("both", "dedupe", 0, 1, 0, 0, 0, -1, None), Gauge("other", "payments", 1, 1, 0, 0, 0, 1, None)]
    found = offsets.read_so_far([*gauges, *others], "both")
    assert found == {("payments", 0): 4, ("payments", 1): 3, ("cards", 0): 9}
