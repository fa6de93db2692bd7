"""Run a declared app in this process without Kafka and without a stream, in milliseconds a batch.

    with Simulation(app, spark=spark) as simulation:
        simulation.push("transactions", [{"id": "a", "amount": 950.0, "at": now}])
        simulation.advance()
        assert simulation.read("alerts") == [...]

It is used like a `Driver` and runs the same plans: decoders, functions, operators, encoders. Topics are lists, state is
in memory, and what the engine and the log do is done in the simplest way (the kernel's simulation). So it shows what
operators do in any history, and nothing about delivery: that takes a `Driver`. Python functions inside a plan need
Spark, and are refused.

In `exact` mode `crash` runs the last batch of each query again on the state of before, and from then on every batch is
run twice: what is written the second time must be what was written the first time, in any order. In `live` mode
each record goes through the plan by itself, and a batch ends after `live_batch` records.
"""

from __future__ import annotations

import struct
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from headrace import names
from headrace.app import App
from headrace.engine.check import NOWHERE
from headrace.engine.frames import Frames
from headrace.engine.mode import Mode
from headrace.graph.plan import Query, plan
from headrace.kernel import bridge
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.dead import DeadLetter
from headrace.testing import change
from headrace.testing.change import Event
from headrace.testing.driver import isolated
from headrace.testing.outcome import Outcome

LIVE_BATCH = 500


class Simulation(Outcome):
    """A context manager; `mode` is `exact` or `live`, and `live_batch` how many records a batch of the latter has."""

    def __init__(self, app: App, *, spark: SparkSession, mode: Mode = Mode.EXACT, live_batch: int = LIVE_BATCH) -> None:
        self.graph = isolated(app.graph(), f"s{uuid.uuid4().hex[:8]}")
        self.mode = mode
        self.spark = spark
        self._live_batch = live_batch
        self._run = uuid.uuid4().hex
        self._log = Log({node.topic: node.partitions for node in self.graph.nodes})
        frames = Frames(spark, self.graph, mode, Connection(NOWHERE), self._run)
        self._queries = [Simulated(query, frames, self._log) for query in plan(self.graph)]

    def push(self, source: str, events: Sequence[Event], *, partition: int | None = None) -> None:
        """Write events to a source's topic, as a `Driver` does."""
        node = self.graph.node(source)
        for event in events:
            key, value = change.record(node, event)
            self._log.write(node.topic, key, value, partition=partition)

    def advance(self) -> None:
        """Work off everything that was pushed."""
        for query in self._queries:
            if self.mode is Mode.LIVE:
                query.flow(self._live_batch)
            else:
                query.finish(lambda name=query.name: bridge.assume_idle(self.spark, name, self._run))

    def idle(self) -> None:
        """Take every partition for idle until it speaks again: time comes to the newest event of all."""
        for query in self._queries:
            bridge.assume_idle(self.spark, query.name, self._run)
        self.advance()

    def crash(self, *, seed: int | None = None) -> None:
        """Exact: run the last batch of each query again, and from now on every one."""
        for query in self._queries:
            query.crash()

    def dead(self, source: str) -> list[DeadLetter]:
        """The dead letters of a source."""
        found = self._log.read(names.dead_topic(self.graph.node(source).topic))
        return [letter for record in found if (letter := DeadLetter.of(record)) is not None]

    def close(self) -> None:
        """Let go of what the kernel keeps."""
        for query in self._queries:
            bridge.forget(self.spark, query.name, self._run)

    def _oldest_first(self, topic: str) -> list[Record]:
        return self._log.read(topic)


class Log:
    """Topics in memory: records in the order in which they were written."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.partitions = partitions
        self._topics: dict[str, list[Record]] = {}
        self._ends: dict[tuple[str, int], int] = {}

    def write(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        """Add a record; its partition is the one that is named, or goes by its key."""
        of = self.partitions.get(topic, 1)
        place = topic, partition if partition is not None else zlib.crc32(key or b"") % of
        offset = self._ends.get(place, 0)
        self._ends[place] = offset + 1
        record = Record(*place, offset, round(time.time() * 1000), key, value, headers)
        self._topics.setdefault(topic, []).append(record)

    def read(self, topic: str, start: int = 0) -> list[Record]:
        """The records of a topic, without so many at its beginning."""
        return self._topics.get(topic, [])[start:]


class Simulated:
    """A query and how far it has read."""

    def __init__(self, query: Query, frames: Frames, log: Log) -> None:
        self.name = query.name
        self._topic = query.node.topic
        self._log = log
        self._read = dict.fromkeys((frames.graph.node(name).topic for name in query.reads), 0)
        self._twice = False
        records, build = frames.records(query)
        topics = {topic: log.partitions[topic] for topic in self._read}
        self._query = bridge.Simulation(records, live=build.live, topics=topics)

    def finish(self, assume_idle: Callable[[], None]) -> None:
        """Exact: batches until the watermark stands still, with and without the partitions that are quiet."""
        self._query.push(b"".join(map(packed, self._unread())))
        self._batches()
        assume_idle()
        self._batches()

    def flow(self, most: int) -> None:
        """Live: record by record, in batches of so many at most."""
        unread = self._unread()
        moved = True
        while unread or moved:
            self._query.begin()
            self._query.push(b"".join(map(packed, unread[:most])))
            moved, unread = self._query.end(), unread[most:]
            self._write(self._query.written())

    def crash(self) -> None:
        """Exact: the last batch once more, and every one from now on."""
        self._twice = True
        self._query.again()
        self._query.written()

    def _batches(self) -> None:
        moved = True
        while moved:
            moved = self._query.batch()
            written = self._query.written()
            if self._twice:
                self._query.again()
                again = sorted(unpacked(self._query.written()), key=str)
                assert again == sorted(unpacked(written), key=str), f"a batch of {self.name} gives something else again"
            self._write(written)

    def _unread(self) -> list[Record]:
        found: list[Record] = []
        for topic, start in self._read.items():
            more = self._log.read(topic, start)
            self._read[topic] += len(more)
            found += more
        return found

    def _write(self, records: bytes) -> None:
        for topic, partition, key, value, headers in unpacked(records):
            to = topic or self._topic
            self._log.write(to, key, value, partition=partition if partition >= 0 else None, headers=headers)


def packed(record: Record) -> bytes:
    """A record as the kernel takes it."""
    place = struct.pack(">iqq", record.partition, record.offset, record.timestamp_ms)
    return _sized(record.topic.encode()) + place + _optional(record.key) + _optional(record.value)


Unpacked = tuple[str, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


def unpacked(records: bytes) -> Iterator[Unpacked]:
    """Records as the kernel gives them: topic, partition, key, value, headers."""
    at = 0

    def number() -> int:
        nonlocal at
        at += 4
        return struct.unpack_from(">i", records, at - 4)[0]

    def sized() -> bytes:
        nonlocal at
        size = number()
        at += size
        return records[at - size : at]

    def optional() -> bytes | None:
        nonlocal at
        at += 1
        return sized() if records[at - 1] else None

    while at < len(records):
        topic, partition, key, value = sized().decode(), number(), optional(), optional()
        yield topic, partition, key, value, tuple((sized().decode(), optional()) for _ in range(number()))


def _sized(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _optional(value: bytes | None) -> bytes:
    return b"\0" if value is None else b"\1" + _sized(value)
