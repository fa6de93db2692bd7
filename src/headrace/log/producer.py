"""Writing to the log, so that a lost record is never silent.

The producer is idempotent and waits for all replicas: a retry neither doubles nor reorders records. `send` only
queues; a record is in the log when its `Delivery` has a position or `flush` has returned. A record that cannot be
written makes the next `send` or `flush` raise (that `send` has then queued nothing); leaving the `with` block flushes.
When the queue is full, `send` waits until the broker has taken some, and raises when it takes none.

A crash loses what was queued and not flushed; what was flushed is in the log. Order holds per partition. Keys choose
partitions as Java's producers do (murmur2), so that records of one key meet in one partition whoever wrote them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from headrace.errors import LogError
from headrace.log import codec
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.log.position import Position
from headrace.log.topic import limit

Value: TypeAlias = bytes | str | Mapping[str, Any] | None
Headers: TypeAlias = Mapping[str, str | bytes | None] | Iterable[tuple[str, str | bytes | None]]

DELIVERY_TIMEOUT_MS = 60_000
FULL_S = DELIVERY_TIMEOUT_MS / 1000 + 30
"""How long a full queue is waited for."""
LARGEST_RECORD = 64 * 1024 * 1024
OPTIONS: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    # The topic's own limit decides what is too large; the client's must not come first.
    "message.max.bytes": LARGEST_RECORD,
    "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    # How long a topic may be unknown before its records fail: `ensure` has waited for it already.
    "topic.metadata.propagation.max.ms": 5_000,
}


class Delivery:
    """One record on its way; `position` is None until the broker has it."""

    __slots__ = ("_producer", "failure", "position", "size", "topic")

    def __init__(self, producer: Producer, topic: str, size: int) -> None:
        self._producer = producer
        self.topic = topic
        self.size = size
        self.position: Position | None = None
        self.failure: KafkaError | None = None

    def wait(self, timeout: float = DELIVERY_TIMEOUT_MS / 1000 + 5) -> Position:
        """The record's position; LogError when it could not be written."""
        deadline = time.monotonic() + timeout
        while self.position is None:
            if self.failure is not None:
                raise self._producer._lost(self)
            if time.monotonic() > deadline:
                raise _unacknowledged(1, timeout)
            self._producer._client.poll(0.05)
        return self.position

    def _done(self, error: KafkaError | None, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error is not None or topic is None or partition is None or offset is None:
            self.failure = error
            self._producer._failed.append(self)
        else:
            self.position = Position(topic, partition, offset)
            self._producer._written[topic, partition] = offset


class Producer:
    """Writes records of any topic; may be shared between threads."""

    def __init__(self, connection: Connection, *, linger_ms: int = 5, options: Mapping[str, Any] | None = None) -> None:
        """`linger_ms` is how long a record may wait for company; `options` are further librdkafka options."""
        self._connection = connection
        self._failed: list[Delivery] = []
        self._written: dict[tuple[str, int], int] = {}
        connection.metadata()
        with connection.translated("opening a producer"):
            self._client = Client(connection.client(**{**OPTIONS, "linger.ms": linger_ms, **(options or {})}))
            # Without a question first, an idempotent client sends its first record half a second late.
            self._client.list_topics(timeout=TIMEOUT_S)

    def send(
        self,
        topic: str,
        value: Value,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | datetime | None = None,
    ) -> Delivery:
        """Queue a record; a mapping is written as JSON (see codec), None is a tombstone.

        `timestamp` (in ms, when a number) is what retention goes by: a record that is older than the topic keeps
        records may be deleted as soon as it is written.
        """
        self._raise_lost()
        raw = codec.encode(value) if isinstance(value, Mapping) else value
        raw = raw.encode() if isinstance(raw, str) else raw
        key = key.encode() if isinstance(key, str) else key
        delivery = Delivery(self, topic, len(raw or b"") + len(key or b""))
        given: dict[str, Any] = {"headers": list(headers.items() if isinstance(headers, Mapping) else headers)}
        if partition is not None:
            given["partition"] = partition
        if timestamp is not None:
            given["timestamp"] = round(timestamp.timestamp() * 1000) if isinstance(timestamp, datetime) else timestamp
        full = None
        while True:
            try:
                self._client.produce(topic, raw, key, on_delivery=delivery._done, **given)
                break
            except BufferError:
                # Records leave the queue when they are delivered or have failed, so there is room within their
                # time-out, unless the queue was made smaller than this record.
                full = full or time.monotonic()
                if time.monotonic() - full > FULL_S:
                    raise _unacknowledged(len(self._client), FULL_S) from None
                self._client.poll(0.05)
            except KafkaException as error:
                delivery.failure = error.args[0]
                raise self._lost(delivery) from error
        self._client.poll(0)
        return delivery

    def flush(self, timeout: float = DELIVERY_TIMEOUT_MS / 1000 + 5) -> None:
        """Wait until every record is in the log; LogError names the first that is not, and says why."""
        left = self._client.flush(timeout)
        self._raise_lost()
        if left:
            raise _unacknowledged(left, timeout)

    @property
    def positions(self) -> tuple[Position, ...]:
        """The last record that the broker has, of each partition written."""
        return tuple(sorted(Position(topic, partition, at) for (topic, partition), at in self._written.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.flush()
        except LogError as lost:
            if error is None:
                raise
            error.add_note(str(lost))

    def _raise_lost(self) -> None:
        if self._failed:
            failed, self._failed = self._failed, []
            raise self._lost(failed[0], others=len(failed) - 1)

    def _lost(self, delivery: Delivery, others: int = 0) -> LogError:
        failure = delivery.failure
        if failure is not None and failure.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return _too_large(self._connection, delivery)
        reason = failure.str() if failure is not None else "no reason given"
        more = f", and {others} more after it" if others else ""
        return LogError(
            "HR-220",
            f"A record for the topic `{delivery.topic}` was not written{more}: {reason}",
            found=failure.name() if failure is not None else None,
            fix="correct the reason above and write the record again; nothing is retried after this",
        )


def _too_large(connection: Connection, delivery: Delivery) -> LogError:
    most = min(LARGEST_RECORD, limit(connection, delivery.topic))
    return LogError(
        "HR-221",
        f"A record is too large for the topic `{delivery.topic}`",
        found=f"{delivery.size} bytes of key and value, the limit is {most}",
        fix="write less (a reference instead of the document), or raise the limit: kafka-configs --alter "
        f"--entity-type topics --entity-name {delivery.topic} --add-config max.message.bytes={2 * delivery.size}",
    )


def _unacknowledged(count: int, timeout: float) -> LogError:
    return LogError(
        "HR-220",
        f"Kafka did not acknowledge {count} records within {timeout:g} seconds; they may or may not be in the log",
        found=f"{count} records still queued",
        fix="look at the broker; writing them again is safe where readers recognise repeats",
    )
