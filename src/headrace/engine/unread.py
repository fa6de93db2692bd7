"""What a reader has yet to read: records, and not offsets.

Transaction markers, aborted records and records that compaction has removed have offsets and are never delivered. So an
offset below the end does not mean that something is left. Who begins to read there gets a record, or learns that the
partition ends: the log is asked that way for a reader that stands still below the end, once for each place. The answer
stays true, because later records are written behind the end that was given.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.log.connection import TIMEOUT_S, Connection

Place = tuple[str, int]
Offsets = Mapping[Place, int]

_OPTIONS = {
    "group.id": "headrace.read",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 20,
    # The first record is enough.
    "fetch.message.max.bytes": 1_000,
    "queued.min.messages": 1,
}


@dataclass(frozen=True)
class Next:
    """Between the offsets there is no record; `to` is one, or the end."""

    since: int
    to: int
    is_record: bool


class Unread:
    """What the queries of a run have yet to read."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._before: dict[str, Offsets] = {}
        self._known: dict[tuple[str, Place], Next] = {}

    def behind(self, query: str, consumed: Offsets, ends: Offsets) -> dict[Place, int]:
        """How far a query is from the ends, 0 where no record is left. KafkaException when the log does not answer."""
        before, self._before[query] = self._before.get(query, {}), dict(consumed)
        at = self.over(query, consumed)
        asked = {
            place: offset
            for place, offset in at.items()
            if offset < ends[place]
            and before.get(place) == consumed[place]
            and not self._is_record(query, place, offset)
        }
        for place, found in following(self._connection, asked).items():
            self._known[query, place] = Next(consumed[place], found.to, found.is_record)
        return {place: max(0, ends[place] - offset) for place, offset in self.over(query, consumed).items()}

    def over(self, query: str, positions: Offsets) -> dict[Place, int]:
        """The positions, taken over what is known to hold no record."""
        found: dict[Place, int] = {}
        for place, offset in positions.items():
            known = self._known.get((query, place))
            found[place] = known.to if known is not None and known.since <= offset <= known.to else offset
        return found

    def _is_record(self, query: str, place: Place, offset: int) -> bool:
        known = self._known.get((query, place))
        return known is not None and known.is_record and known.to == offset


def following(connection: Connection, positions: Offsets, *, seconds: float = TIMEOUT_S) -> dict[Place, Next]:
    """What follows the positions: of each, the first record at or behind it, or the end. KafkaException when the log
    does not answer in time."""
    found: dict[Place, Next] = {}
    if not positions:
        return found
    client = Consumer(connection.client(**_OPTIONS))
    try:
        # Without a question first, the client finds the leaders half a second late.
        client.list_topics(timeout=seconds)
        client.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()])
        until = time.monotonic() + seconds
        while len(found) < len(positions):
            message = client.poll(0.1)
            if message is None:
                if time.monotonic() > until:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                continue
            error, topic, partition, offset = message.error(), message.topic(), message.partition(), message.offset()
            ended = error is not None and error.code() == KafkaError._PARTITION_EOF
            if error is not None and not ended:
                raise KafkaException(error)
            if topic is None or partition is None or offset is None or (topic, partition) in found:
                continue
            found[topic, partition] = Next(positions[topic, partition], offset, not ended)
        return found
    finally:
        client.close()
