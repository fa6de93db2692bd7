"""A queue on a topic: workers compete, and each message goes to one of them at a time (a Kafka share group).

A worker receives messages and settles each: `accept` when it is done, `release` to have it delivered again (to any
worker, at once), `reject` to put it among the dead letters. Messages keep no order. A message that is released, or
whose worker died, more than `max_deliveries` times becomes a dead letter too.

Delivery is at least once. A worker that dies, or holds a message for longer than the lock, has it delivered again to
another. Settling is sent to the broker when the last message in hand is settled, at the next `receive` and at `close`;
messages in hand that were not settled are then released. A dead letter is in the log before the broker hears of the
rejection, so a crash in between gives a repeat (which `dead_letters` shows once), never a loss.

The broker itself discards a message after its own delivery limit; that limit is set above `max_deliveries`, so that
the message has become a dead letter before. Only messages of committed transactions are delivered.

Limits: needs Kafka 4.2 or newer; the client library calls its share consumer a preview. `send` and `receive` may be
used by one thread.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from confluent_kafka import AcknowledgeType, IllegalStateException, KafkaError, KafkaException, ShareConsumer
from confluent_kafka import Message as Raw
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace.duration import parse
from headrace.errors import LogError
from headrace.log import away, dead
from headrace.log import topic as topics
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.log.consumer import BEGINNING, Edge, Record
from headrace.log.position import Position
from headrace.log.producer import Delivery, Headers, Producer, Value

MAX_DELIVERIES = 4
_BROKER_DELIVERIES = 10
_BROKER_DEFAULT = 5


@dataclass(frozen=True)
class Message:
    """A message in hand: settle it once."""

    record: Record
    deliveries: int
    _queue: Queue = field(repr=False, compare=False)

    @property
    def value(self) -> bytes | None:
        """The record's value."""
        return self.record.value

    @property
    def key(self) -> bytes | None:
        """The record's key."""
        return self.record.key

    def accept(self) -> None:
        """It is done."""
        self._queue._settle(self, AcknowledgeType.ACCEPT)

    def release(self, reason: str = "") -> None:
        """Deliver it again; after `max_deliveries` it becomes a dead letter, with this reason."""
        if self.deliveries < self._queue.max_deliveries:
            self._queue._settle(self, AcknowledgeType.RELEASE)
        else:
            text = f"released after {self.deliveries} deliveries"
            self.reject(f"{text}: {reason}" if reason else text)

    def reject(self, reason: str) -> None:
        """Put it among the dead letters."""
        self._queue._bury(self, reason)


class Queue:
    """Sends to a topic, and receives from it as a worker of `group`; joins the group at the first `receive`."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        group: str,
        *,
        start: Edge = BEGINNING,
        max_deliveries: int = MAX_DELIVERIES,
        lock: str | timedelta | None = None,
        batch: int = 100,
    ) -> None:
        """`start` is where a group begins that has never read; `lock` how long a message may be in hand (the
        broker's default is 30 seconds); `batch` how many messages to take from the broker at a time, about.
        `start` and `lock` are the group's: the last worker that joins sets them for all.
        """
        self.topic = topic
        self.group = group
        self.max_deliveries = max_deliveries
        self._connection = connection
        self._start = start
        self._lock_ms = None if lock is None else parse(lock)
        self._batch = batch
        self._consumer: ShareConsumer | None = None
        self._producer: Producer | None = None
        self._waiting: deque[Raw] = deque()
        self._held: dict[Position, Message] = {}

    def send(self, value: Value, *, key: bytes | str | None = None, headers: Headers = ()) -> Delivery:
        """Queue a message; it is in the log when the delivery has a position, or after `flush` or `close`."""
        return self._writer().send(self.topic, value, key=key, headers=headers)

    def flush(self) -> None:
        """Wait until every message sent is in the log; LogError when one is not."""
        if self._producer is not None:
            self._producer.flush()

    def receive(self, at_most: int = 100, timeout: float = 1.0) -> list[Message]:
        """Up to `at_most` messages; none when none comes within `timeout` seconds.

        Messages of the last call that were not settled are released. The first worker of a group waits about five
        seconds for its first message: that long the broker takes to set the group up.
        """
        consumer = self._joined()
        self._release_held()
        if not self._waiting:
            self._commit()
            with self._connection.translated(f"receiving from {self.topic}"):
                arrived = list(consumer.poll(timeout=timeout))
            for raw in arrived:
                error = raw.error()
                if error is not None and not away.passes(error):
                    raise self._connection.error(error, f"receiving from {self.topic}")
            self._waiting.extend(raw for raw in arrived if raw.error() is None)
        taken: list[Message] = []
        while self._waiting and len(taken) < at_most:
            raw = self._waiting.popleft()
            message = Message(Record.of(raw), raw.delivery_count() or 1, self)
            self._held[message.record.position] = message
            if message.deliveries > self.max_deliveries:
                self._bury(message, f"never settled in {message.deliveries - 1} deliveries: its workers died or hung")
            else:
                taken.append(message)
        return taken

    def close(self) -> None:
        """Release what is in hand, settle, leave the group, and wait for what was sent."""
        consumer, self._consumer = self._consumer, None
        try:
            if consumer is not None:
                unsettled = [*self._held, *(Record.of(raw).position for raw in self._waiting)]
                self._held.clear()
                self._waiting.clear()
                try:
                    for position in unsettled:
                        _acknowledge(consumer, position, AcknowledgeType.RELEASE)
                    self._commit(consumer)
                finally:
                    with self._connection.translated(f"leaving the share group {self.group}"):
                        consumer.close()
        finally:
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except LogError as second:
            if error is None:
                raise
            error.add_note(str(second))

    def _settle(self, message: Message, how: AcknowledgeType) -> None:
        position = message.record.position
        if self._consumer is None or self._held.get(position) is not message:
            raise LogError(
                "HR-230",
                f"The message {position} is not in hand: it was settled, or released by a later receive or close",
                found=position,
                fix="settle each message once, before the next receive",
            )
        del self._held[position]
        _acknowledge(self._consumer, position, how)
        if not self._held and not self._waiting:
            self._commit()

    def _bury(self, message: Message, reason: str) -> None:
        writer = self._writer()
        writer.send(**dead.to_record(message.record, reason=reason, query=self.group))
        writer.flush()
        self._settle(message, AcknowledgeType.REJECT)

    def _release_held(self) -> None:
        for message in list(self._held.values()):
            message.release("not settled by its worker")

    def _commit(self, consumer: ShareConsumer | None = None) -> None:
        consumer = consumer or self._consumer
        if consumer is None:
            return
        with self._connection.translated(f"settling messages of {self.topic}"):
            answers = consumer.commit_sync(TIMEOUT_S)
        failed = {place.partition: error for place, error in answers.items() if error is not None}
        if failed:
            raise LogError(
                "HR-230",
                f"Kafka did not take the settling of messages of `{self.topic}`; they are delivered again",
                found="; ".join(f"partition {i}: {error.args[0].str()}" for i, error in sorted(failed.items())),
                fix="messages were in hand for longer than the lock: receive fewer at a time, or give a longer `lock`",
            )

    def _writer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(self._connection)
        return self._producer

    def _joined(self) -> ShareConsumer:
        if self._consumer is None:
            topics.partitions(self._connection, self.topic)
            topics.ensure(self._connection, [dead.declaration(self.topic)])
            self._configure()
            options = {
                "group.id": self.group,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": self._batch,
            }
            with self._connection.translated(f"joining the share group {self.group}"):
                consumer = ShareConsumer(self._connection.client(**options))
                consumer.subscribe([self.topic])
            self._consumer = consumer
        return self._consumer

    def _configure(self) -> None:
        wanted = {
            "share.auto.offset.reset": "earliest" if self._start is BEGINNING else "latest",
            "share.isolation.level": "read_committed",
        }
        if self._lock_ms is not None:
            wanted["share.record.lock.duration.ms"] = str(self._lock_ms)
        self._alter(wanted)
        # What a broker may not know, or not allow: without the first a further worker waits for its share until its
        # second heartbeat (5 seconds); without the second the broker's own limit holds.
        for name, value in (("share.assignment.interval.ms", 0), ("share.delivery.count.limit", _BROKER_DELIVERIES)):
            with suppress(LogError):
                self._alter({name: str(value)})
        limit = self._delivery_limit()
        if self.max_deliveries >= limit:
            raise LogError(
                "HR-231",
                f"Kafka discards a message of the group `{self.group}` after {limit} deliveries, before it could "
                "become a dead letter",
                found=f"max_deliveries={self.max_deliveries}",
                fix=f"use max_deliveries={limit - 1} or less, or raise group.share.max.delivery.count.limit",
            )

    def _alter(self, wanted: Mapping[str, str]) -> None:
        entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in wanted.items()]
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=entries)
        admin = self._connection.admin()
        try:
            for change in admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values():
                change.result()
        except KafkaException as error:
            kafka: KafkaError = error.args[0]
            if kafka.code() not in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST):
                raise self._connection.error(kafka, f"setting up the share group {self.group}") from error
            raise LogError(
                "HR-231",
                f"Kafka does not take the settings of the share group `{self.group}`: {kafka.str()}",
                found=", ".join(f"{name}={value}" for name, value in wanted.items()),
                fix="keep `lock` within the broker's limits (15 to 60 seconds by default); queues need Kafka 4.2",
            ) from error

    def _delivery_limit(self) -> int:
        resource = ConfigResource(ResourceType.GROUP, self.group)
        with self._connection.translated(f"describing the share group {self.group}"):
            admin = self._connection.admin()
            answers = admin.describe_configs([resource], request_timeout=TIMEOUT_S)
            config: dict[str, Any] = next(iter(answers.values())).result()
        entry = config.get("share.delivery.count.limit")
        return _BROKER_DEFAULT if entry is None else int(entry.value)


def _acknowledge(consumer: ShareConsumer, position: Position, how: AcknowledgeType) -> None:
    try:
        consumer.acknowledge_offset(position.topic, position.partition, position.offset, how)
    except IllegalStateException as error:
        raise LogError(
            "HR-230",
            f"The message {position} can no longer be settled; it is delivered again",
            found=error,
            fix="messages were in hand for longer than the lock: receive fewer at a time, or give a longer `lock`",
        ) from error
