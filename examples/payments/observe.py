"""What comes out of the app, as its reader sees it: alerts and dead letters of one run of the demo.

Latency is the time from handing a transaction to the producer to holding its alert, on one clock. Transactions that
were sent before the first alert waited for the app to start and have no latency; `settled` are those that were sent
after the warm-up too.

Topics keep what earlier runs wrote, and a live app that was stopped reads its last batch again, up to two minutes. So
alerts are told by their ids, which begin with the name of the run, and dead letters by the time of the record in them.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from generate import COPY_HEADER, TOPIC, Tally

from headrace import names
from headrace.engine.progress import Progress
from headrace.kernel.bridge import Gauge
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.consumer import BEGINNING, Consumer, Record, read
from headrace.log.dead import DeadLetter
from headrace.log.position import Position

ALERTS = "alerts"
WARM_UP_S = 10.0
SHOWN = 10
RECENT_S = 10.0


@dataclass(frozen=True)
class Alert:
    """One alert in hand; `milliseconds` is None when its transaction was sent before the first alert."""

    moment: float
    id: str
    card: str
    amount: float
    rule: str
    milliseconds: float | None


@dataclass(frozen=True)
class Latency:
    """Of `alerts` alerts, in milliseconds."""

    alerts: int
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Latency | None:
        """None when there are none."""
        ordered = sorted(milliseconds)
        if not ordered:
            return None
        p50, p95, p99 = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.50, 0.95, 0.99))
        return cls(len(ordered), p50, p95, p99)

    def __str__(self) -> str:
        return f"p50 {self.p50:.1f} ms, p95 {self.p95:.1f} ms, p99 {self.p99:.1f} ms"


@dataclass
class Seen:
    """What has come so far; one thread writes it."""

    run: str
    tally: Tally
    since_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    rules: dict[str, str] = field(default_factory=dict)
    repeated: int = 0
    dead: set[Position] = field(default_factory=set)
    first: float | None = None
    settled: list[float] = field(default_factory=list)
    recent: deque[Alert] = field(default_factory=deque)

    def take(self, record: Record, moment: float) -> None:
        """Note a record that is in hand at this moment."""
        if record.timestamp_ms < self.since_ms or record.value is None:
            return
        if record.topic != ALERTS:
            letter = DeadLetter.of(record)
            if letter is not None and (letter.timestamp_ms or 0) >= self.since_ms:
                self.dead.add(letter.source)
            return
        row = json.loads(record.value)
        if not row["id"].startswith(f"{self.run}-"):
            return
        if row["id"] in self.rules:
            self.repeated += 1
            return
        self.rules[row["id"]] = row["rule"]
        self.first = self.first or moment
        sent = self.tally.sent_at.get(row["id"])
        milliseconds = None if sent is None or sent < self.first else (moment - sent) * 1000
        if sent is not None and milliseconds is not None and sent >= self.first + WARM_UP_S:
            self.settled.append(milliseconds)
        self.recent.append(Alert(moment, row["id"], row["card"], row["amount"], row["rule"], milliseconds))
        while len(self.recent) > SHOWN and self.recent[0].moment < moment - RECENT_S:
            self.recent.popleft()

    @property
    def missing(self) -> set[str]:
        """The ids that have no alert and must have one. Only when nothing is sent any more."""
        return set(self.tally.alerts) - set(self.rules)

    @property
    def wrong(self) -> set[str]:
        """The ids that have an alert and must have none, or one of another rule. Only when nothing is sent any more."""
        return {one for one, rule in self.rules.items() if self.tally.alerts.get(one) != rule}

    @property
    def complete(self) -> bool:
        """Whether all that must come has come. Only when nothing is sent any more."""
        return not self.missing and len(self.dead) >= self.tally.malformed


@dataclass(frozen=True)
class Before:
    """What the app read again of earlier runs, and so counts: how many records, and how many of them are copies."""

    records: int = 0
    copies: int = 0


class Observer:
    """Follows what the app writes for one run of the demo."""

    def __init__(self, connection: Connection, run: str, tally: Tally) -> None:
        self._connection = connection
        self._partitions = topic.partitions(connection, TOPIC)
        self.seen = Seen(run, tally)
        self.before: Before | None = None

    def follow(self, stop: threading.Event) -> None:
        """Until `stop`."""
        topics = (ALERTS, names.dead_topic(TOPIC))
        with Consumer(self._connection, f"headrace.demo.{self.seen.run}", topics, start=BEGINNING) as consumer:
            while not stop.is_set():
                record = consumer.poll(0.2)
                if record is not None:
                    self.seen.take(record, time.monotonic())

    def look_back(self, gauges: Sequence[Gauge]) -> None:
        """Find out what lies between the first record that the app read and the first one of this run.

        Nothing happens while there is a partition from which the app has not read.
        """
        began = {one.partition: max(0, one.next_offset - one.rows) for one in gauges if one.of == TOPIC}
        if len(began) < len(self._partitions):
            return
        older = (one for one in read(self._connection, TOPIC, start=began) if one.timestamp_ms < self.seen.since_ms)
        copies = [one.header(COPY_HEADER) is not None for one in older]
        self.before = Before(len(copies), sum(copies))

    def removed(self, queries: Sequence[Progress]) -> int | None:
        """The copies of this run that the app has removed; None while it is not known what it read again."""
        return None if self.before is None else sum(one.repeats for one in queries) - self.before.copies
