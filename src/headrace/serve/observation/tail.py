"""The records of a topic as they come, read once and shared by all pages that show them.

A tail is open while somebody looks at it. A thread reads the topic from a little before its end and hands what it has
read to the event loop, which tells the listeners. A tail keeps its last `KEPT` records for the next one who looks; of
a faster topic than a page can show only the newest records of each poll are kept, and the others are counted. When the
topic is not there yet, it waits; when Kafka is away, its client goes on where it was as soon as it is back.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from headrace.log.connection import Connection
from headrace.log.consumer import Record

KEPT = 200
POLL = 2000
SHOWN = 200
AGAIN_S = 1.0
ANSWER_S = 3.0
_OPTIONS = {
    "group.id": "headrace.console",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",
    "queued.max.messages.kbytes": 16384,
}


class Taker(Protocol):
    """What is done with records: `digest` in the thread that reads, `arrived` with its result on the event loop."""

    def digest(self, records: Sequence[Record]) -> object: ...
    def arrived(self, digested: object) -> None: ...


class Reader:
    """A thread that reads a topic, from `back` records before its end, into a taker."""

    def __init__(self, connection: Connection, topic: str, back: int, taker: Taker) -> None:
        self._connection = connection
        self._topic = topic
        self._back = back
        self._taker = taker
        self._ending = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"console reads {topic}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Read no more; the thread ends by itself."""
        self._ending.set()

    def _run(self) -> None:
        client = Consumer(self._connection.client(**_OPTIONS))
        try:
            while not self._ending.is_set() and not self._assigned(client):
                self._ending.wait(AGAIN_S)
            room = threading.Semaphore(2)
            while not self._ending.is_set():
                records = [Record.of(one) for one in _poll(client) if one.error() is None]
                if records:
                    self._hand(self._taker.digest(records), room)
        finally:
            client.close()

    def _assigned(self, client: Consumer) -> bool:
        try:
            found = client.list_topics(self._topic, timeout=ANSWER_S).topics[self._topic]
            if found.error is not None or not found.partitions:
                return False
            back = self._back // len(found.partitions)
            places = []
            for partition in sorted(found.partitions):
                first, end = client.get_watermark_offsets(
                    TopicPartition(self._topic, partition), timeout=ANSWER_S, cached=False
                ) or (OFFSET_BEGINNING, 0)
                places.append(TopicPartition(self._topic, partition, max(first, end - back)))
            client.assign(places)
        except KafkaException:
            return False
        return True

    def _hand(self, digested: object, room: threading.Semaphore) -> None:
        """Give it to the event loop, which is let to catch up first."""
        while not room.acquire(timeout=0.5):
            if self._ending.is_set():
                return

        def arrive() -> None:
            room.release()
            if not self._ending.is_set():
                self._taker.arrived(digested)

        with suppress(RuntimeError):  # the loop is closed: nobody looks any more
            self._loop.call_soon_threadsafe(arrive)


class Tail:
    """The newest records of a topic; made and used on the event loop."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.kept: deque[Record] = deque(maxlen=KEPT)
        self.skipped = 0
        self.listeners: set[Callable[[Sequence[Record]], None]] = set()
        self._reader = Reader(connection, topic, KEPT, self)

    def digest(self, records: Sequence[Record]) -> object:
        shown = sorted(records[-SHOWN:], key=lambda record: (record.timestamp_ms, record.partition, record.offset))
        time.sleep(0.02)  # a page has no use for more than fifty changes a second
        return shown, len(records) - len(shown)

    def arrived(self, digested: object) -> None:
        records, skipped = digested  # pyright: ignore[reportGeneralTypeIssues]
        self.skipped += skipped
        self.kept.extend(records)
        for listener in tuple(self.listeners):
            listener(records)

    def stop(self) -> None:
        self._reader.stop()


class Tails:
    """The tails that are open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[str, Tail] = {}

    @contextmanager
    def listening(self, topic: str, listener: Callable[[Sequence[Record]], None]) -> Iterator[Tail]:
        """Call the listener with what comes; what is there already is in the tail."""
        tail = self._open.get(topic)
        if tail is None:
            tail = self._open[topic] = Tail(self._connection, topic)
        tail.listeners.add(listener)
        try:
            yield tail
        finally:
            tail.listeners.discard(listener)
            if not tail.listeners and self._open.get(topic) is tail:
                del self._open[topic]
                tail.stop()

    def stop(self) -> None:
        for tail in self._open.values():
            tail.stop()


def _poll(client: Consumer) -> list:
    """What is there, at once if there is something."""
    first = client.poll(0.3)
    return [] if first is None else [first, *client.consume(POLL - 1, 0)]
