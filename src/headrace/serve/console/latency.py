"""How long an event takes to its result: from its event time to the time at which the result was written to the log.

A few of the newest records of each result topic are read every second, and the event time in them is compared with the
record's own time. A result that no longer carries the event time of its input (a count per minute does not) tells no
latency, and none is shown. Only what was read in the last `WINDOW_S` seconds counts, so an idle query has none.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from confluent_kafka import Consumer, KafkaException, TopicPartition

from headrace.log.connection import Connection
from headrace.serve.console.levels import Levels

NEWEST = 20
POINTS = 600
WINDOW_S = 10.0
MOST = 2000
READ_S = 0.4
_OPTIONS = {
    "group.id": "headrace.console",
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "latest",
    "fetch.wait.max.ms": 20,
    "queued.max.messages.kbytes": 4096,
}


class Latency:
    """The latencies of result topics; `columns` names the event time of each. `look` from one thread at a time."""

    def __init__(self, connection: Connection, levels: Levels, columns: Mapping[str, str]) -> None:
        self._connection = connection
        self._levels = levels
        self._columns = columns
        self._read: dict[tuple[str, int], int] = {}
        self._seen: dict[str, deque[tuple[float, float]]] = {topic: deque(maxlen=MOST) for topic in columns}
        self._client: Consumer | None = None
        self.points: deque[float] = deque(maxlen=POINTS)

    def of(self, topic: str) -> tuple[float, float] | None:
        """The median and the 99th percentile, in milliseconds; None where nothing came lately."""
        least = time.time() - WINDOW_S
        found = sorted(ms for at, ms in tuple(self._seen.get(topic, ())) if at >= least)
        if not found:
            return None
        return found[len(found) // 2], found[min(len(found) - 1, len(found) * 99 // 100)]

    def look(self) -> None:
        """Read the newest results."""
        self._read_newest()
        self.points.append(max((found[0] for topic in self._columns if (found := self.of(topic))), default=0.0))

    def _read_newest(self) -> None:
        places = []
        for topic in self._columns:
            level = self._levels.topics.get(topic)
            for partition, end in (level.ends if level else {}).items():
                before = self._read.get((topic, partition), end)
                self._read[topic, partition] = end
                if end > before:
                    places.append(TopicPartition(topic, partition, max(before, end - NEWEST)))
        if not places:
            return
        if self._client is None:
            self._client = Consumer(self._connection.client(**_OPTIONS))
        # What cannot be read now is not part of the sample; the levels tell that Kafka is away.
        with suppress(KafkaException):
            self._client.assign(places)
            self._sample(self._client, time.monotonic() + READ_S)
            self._client.unassign()

    def _sample(self, client: Consumer, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            for message in client.consume(500, min(left, 0.05)):
                topic, at = message.topic() or "", message.timestamp()[1]
                if message.error() is None and (event := _time(message.value(), self._columns.get(topic))) is not None:
                    self._seen[topic].append((time.time(), max(0.0, at - event)))


def _time(value: object, column: str | None) -> float | None:
    """The event time in milliseconds since 1970."""
    try:
        at = datetime.fromisoformat(json.loads(value)[column])  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError, KeyError):
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000
