"""Kafka transactions: records, and the place in the write-ahead log that they lead to, become visible together or not
at all.

There is one writer for an app: opening one ends the transactions of every earlier one, and an earlier one that still
lives is refused from then on (HR-610). A transaction that could not be committed is given up, and the writer with it:
whoever captures begins again at the last place that was committed.

The queue takes the largest record there is, so a full one becomes empty as fast as the broker takes records, and those
that it does not take within a minute fail. Whatever waits for the broker says so (`waits`) and ends when it is to stop.
A record that the topic does not take is `TooLarge`: who captures goes on without its table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import Producer as Client

from headrace import names
from headrace.capture.database import Away
from headrace.capture.table import Captured
from headrace.errors import CaptureError
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.log.producer import FULL_S, LARGEST_RECORD, OPTIONS
from headrace.log.topic import limit

COMMIT_S = 30.0
STEP_S = 0.5
SLOW_S = 5.0
GRACE_S = 3.0
"""How long a capture that is to stop waits for the broker."""
OPEN_MS = 840_000
"""How long a transaction may stay open; the broker's default allows a little more."""

_TAKEN_OVER = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_NOT_YET = KafkaException(KafkaError(KafkaError._TIMED_OUT, "records wait for the broker", retriable=True))
_OPTIONS: dict[str, Any] = {
    **OPTIONS,
    "linger.ms": 5,
    "transaction.timeout.ms": OPEN_MS,
    # A record that does not fit an empty queue would wait for ever.
    "queue.buffering.max.kbytes": LARGEST_RECORD // 1024 + 1024,
    "queue.buffering.max.messages": 200_000,
    # A record that failed makes the commit fail; of those that did not nobody needs to hear.
    "delivery.report.only.error": True,
}


class TooLarge(Exception):  # noqa: N818 - it is the record that is too large
    """A record that its topic does not take; `size` is of its key and value."""

    def __init__(self, topic: str, key: bytes | None, size: int) -> None:
        super().__init__(f"a record of {size} bytes is too large for the topic {topic}")
        self.topic, self.key, self.size = topic, key, size


class Writer:
    """Writes in transactions, one after the other. `waits` is told for what it waits, and None when it goes on."""

    def __init__(
        self,
        connection: Connection,
        app: str,
        *,
        stop: Event,
        waits: Callable[[str | None], None] = lambda reason: None,
    ) -> None:
        self._connection = connection
        self._name = names.capture(app)
        self._app = app
        self._stop = stop
        self._waits = waits
        self._refused: TooLarge | None = None
        connection.metadata()
        options = {**_OPTIONS, "transactional.id": self._name, "on_delivery": self._failed}
        with connection.translated("opening a producer"):
            self._client = Client(connection.client(**options))
        self._patiently(self._client.init_transactions, TIMEOUT_S * 3)
        self._produce = self._client.produce
        self.records = 0
        self.is_open = False

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
        """Add a record to the transaction, and begin one if none is open."""
        if not self.is_open:
            self.begin()
        self.records += 1
        try:
            if headers is None:
                self._produce(topic, value, key)
            else:
                self._produce(topic, value, key, headers=headers)
        except BufferError:
            self._patiently(lambda seconds: self._sent(seconds, topic, key, value, headers), FULL_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                self._refused = TooLarge(topic, key, len(key or b"") + len(value or b""))
            raise self._meaning(error) from None

    def begin(self) -> None:
        """Open a transaction."""
        self._do(self._client.begin_transaction)
        self.is_open, self.records = True, 0

    def flush(self) -> None:
        """Have the broker take what was sent, without committing it."""
        self._patiently(self._flushed, COMMIT_S)

    def commit(self) -> None:
        """Make everything that was sent visible."""
        self._patiently(self._client.commit_transaction, COMMIT_S)
        self.is_open = False

    def close(self) -> None:
        """Give up what is not committed; a broker that does not answer does it when the next writer comes."""
        if self.is_open:
            try:
                self._client.purge()
                self._client.abort_transaction(2)
            except KafkaException:
                pass
            self.is_open = False

    def _patiently(self, call: Callable[[float], object], most: float) -> None:
        """Call until it is done, for at most so many seconds; Away when it is to stop meanwhile."""
        began, told, stopping = time.monotonic(), False, None
        try:
            while True:
                try:
                    call(STEP_S)
                except KafkaException as error:
                    now = time.monotonic()
                    if not error.args[0].retriable() or now - began >= most:
                        raise self._meaning(error) from None
                else:
                    return
                if self._stop.is_set():
                    stopping = stopping or now
                    if now - stopping >= GRACE_S:
                        raise Away("Kafka does not take the records, and the capture is to stop")
                if now - began >= SLOW_S and not told:
                    told = True
                    self._waits("Kafka does not take the records")
        finally:
            if told:
                self._waits(None)

    def _sent(self, seconds: float, topic: str, key: bytes | None, value: bytes | None, headers: Any) -> None:
        """Queue a record as soon as there is room for it."""
        until = time.monotonic() + seconds
        while True:
            self._client.poll(0.02)
            try:
                self._produce(topic, value, key, headers=headers or [])
            except BufferError:
                if time.monotonic() > until:
                    raise _NOT_YET from None
            else:
                return

    def _flushed(self, seconds: float) -> None:
        if self._client.flush(seconds):
            raise _NOT_YET
        if self._refused is not None:
            raise self._refused

    def _do(self, call: Any) -> None:
        try:
            call()
        except KafkaException as error:
            raise self._meaning(error) from None

    def _failed(self, error: KafkaError | None, message: Message) -> None:
        """Called for each record that was not written; with one that is too large, others may go down."""
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            size = len(message.key() or b"") + len(message.value() or b"")
            if self._refused is None or size > self._refused.size:
                self._refused = TooLarge(message.topic() or "", message.key(), size)

    def _meaning(self, error: KafkaException) -> Exception:
        kafka: KafkaError = error.args[0]
        self._client.poll(0)
        if self._refused is not None:
            return self._refused
        if kafka.code() in _TAKEN_OVER:
            return CaptureError(
                "HR-610",
                f"Another capture of `{self._app}` has taken over.",
                found=kafka.str(),
                fix="let one run: the other goes on where this one was, and nothing is lost",
            )
        told = self._connection.error(kafka, "writing changes")
        return told if told.code in ("HR-202", "HR-203", "HR-207") else Away(told.what)


LARGEST = LARGEST_RECORD - 64 * 1024
"""What the key and the value of a record may have at most: the record around them is a little larger."""
ROOM = {"max.message.bytes": str(LARGEST_RECORD)}
"""How the topic of a table is configured, so that it takes such records."""


def too_large(connection: Connection, captured: Captured, record: TooLarge) -> CaptureError:
    """What is to be said of a table with a row that is too large for a record."""
    most = min(LARGEST, limit(connection, record.topic))
    more = f"; or raise the limit of the topic `{record.topic}` (max.message.bytes)" if most < LARGEST else ""
    return CaptureError(
        "HR-613",
        f"A row of `{captured.table}` is too large for a record.",
        where=captured.where,
        found=f"{record.size:,} bytes, where {record.topic} takes {most:,}; the key is "
        f"{(record.key or b'none')[:200].decode('utf-8', 'replace')}",
        fix=f"keep large values elsewhere and a reference in the row{more}; then read the table again: `headrace"
        f" capture app.py --snapshot-again {captured.table}`",
    )
