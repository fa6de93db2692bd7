"""Sends made-up records to the topics of an app's sources, and remembers them.

Streams get events, tables that are no part of a database get changes; what is captured is written by database.py. When
the log is away, the records wait in the producer.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

from headrace.graph.node import Source
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.testing.change import Event, row
from headrace.testing.sample import Events, Rows, Sample, hash_of, text_column

CLOSING = timedelta(days=30)


class Feeder(threading.Thread):
    """It runs from `start` until `close`; `keys` are columns that are keys somewhere."""

    def __init__(
        self, connection: Connection, sources: Sequence[Source], *, seed: int, rate: float, keys: Collection[str]
    ) -> None:
        super().__init__(daemon=True, name="headrace-certify-feeder")
        start = datetime.now(UTC) - CLOSING
        self._streams = {one.name: one for one in sources if one.kind == "stream"}
        self._tables = {one.name: one for one in sources if one.kind == "table"}
        self._events = {name: Events(one, seed=seed, start=start) for name, one in self._streams.items()}
        self._rows = {name: Rows(one, seed=seed) for name, one in self._tables.items()}
        self._texts = {one.name: text_column(one, keys) for one in sources}
        self._sent: dict[str, list[Sample]] = {name: [] for name in self._streams}
        self._closing: dict[str, list[Sample]] = {name: [] for name in self._streams}
        self._large: dict[str, set[bytes]] = {name: set() for name in self._streams}
        self._changes: dict[str, list[Event]] = {name: [] for name in self._tables}
        self._pause = 1 / rate
        self._done = threading.Event()
        self._asked: list[str] = []
        self._producer = Producer(connection)
        self._error: BaseException | None = None

    @property
    def total(self) -> int:
        """How many records were sent, without the last ones."""
        return sum(map(len, self._sent.values())) + sum(map(len, self._changes.values()))

    @property
    def takes_large(self) -> tuple[str, ...]:
        """The sources that a large record can be made for."""
        return tuple(name for name, column in self._texts.items() if column is not None)

    def large(self, source: str) -> None:
        """Let the next record of a source be a large one."""
        self._asked.append(source)

    def run(self) -> None:
        turns: list[Callable[[], None]] = [
            *(self._turn_of_stream(name) for name in self._streams),
            *(self._turn_of_table(name) for name in self._tables),
        ]
        try:
            while not self._done.wait(self._pause):
                for turn in turns:
                    turn()
        except BaseException as error:
            self._error = error

    def stop(self) -> None:
        """Send no more."""
        self._done.set()
        if self.is_alive():
            self.join()

    def close(self) -> None:
        """Send the last events; returns when all are in the log."""
        self.stop()
        if self._error is not None:
            raise self._error
        at = datetime.now(UTC)
        for name, events in self._events.items():
            for sample in events.closing(at):
                self._send(name, sample)
                self._closing[name].append(sample)
        self._producer.flush()

    def sent(self, *, closing: bool, without: Collection[bytes] = ()) -> dict[str, list[Event]]:
        """What was sent to each source, with or without the last events; broken ones are left out, and those given."""
        events: dict[str, list[Event]] = {
            name: [
                one.value
                for one in [*samples, *(self._closing[name] if closing else [])]
                if one.fits and one.value not in without
            ]
            for name, samples in self._sent.items()
        }
        return events | self._changes

    def large_of(self, stream: str) -> set[bytes]:
        """The large records of a stream."""
        return self._large[stream]

    def broken(self, stream: str) -> Counter[bytes]:
        """How often each record was sent that does not fit."""
        return Counter(sample.value for sample in self._sent[stream] if not sample.fits)

    def _turn_of_stream(self, name: str) -> Callable[[], None]:
        samples = iter(self._events[name])

        def turn() -> None:
            column = self._wanted(name)
            sample = self._events[name].large(column) if column else next(samples)
            if column:
                self._large[name].add(sample.value)
            self._send(name, sample)
            self._sent[name].append(sample)

        return turn

    def _turn_of_table(self, name: str) -> Callable[[], None]:
        changes, table = iter(self._rows[name]), self._tables[name]

        def turn() -> None:
            column = self._wanted(name)
            event = self._rows[name].large(column) if column else next(changes)
            key, value = row(table, event)
            partition = hash_of(key.decode("utf-8", "replace")) % table.partitions
            self._producer.send(table.topic, value, key=key, partition=partition)
            self._changes[name].append(event)

        return turn

    def _wanted(self, name: str) -> str | None:
        if name not in self._asked:
            return None
        self._asked.remove(name)
        return self._texts[name]

    def _send(self, name: str, sample: Sample) -> None:
        self._producer.send(self._streams[name].topic, sample.value, key=sample.key, partition=sample.partition)
