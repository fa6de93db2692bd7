"""Kafka transactions: records, and the place in the write-ahead log that they lead to, become visible together or not
at all.

There is one writer for an app: opening one ends the transactions of every earlier one, and an earlier one that still
lives is refused from then on (HR-610). A transaction that could not be committed is given up, and the writer with it:
whoever captures begins again at the last place that was committed.
"""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client

from headrace import names
from headrace.capture.database import Away
from headrace.errors import CaptureError
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.log.producer import LARGEST_RECORD, OPTIONS

COMMIT_S = 30.0
OPEN_MS = 840_000
"""How long a transaction may stay open; the broker's default allows a little more."""

_TAKEN_OVER = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
_OPTIONS: dict[str, Any] = {
    **OPTIONS,
    "linger.ms": 5,
    "transaction.timeout.ms": OPEN_MS,
    "queue.buffering.max.kbytes": 32 * 1024,
    "queue.buffering.max.messages": 200_000,
    # A record that failed makes the commit fail; of those that did not nobody needs to hear.
    "delivery.report.only.error": True,
}


class Writer:
    """Writes in transactions, one after the other."""

    def __init__(self, connection: Connection, app: str) -> None:
        self._connection = connection
        self._name = names.capture(app)
        self._app = app
        connection.metadata()
        with connection.translated("opening a producer"):
            self._client = Client(connection.client(**{**_OPTIONS, "transactional.id": self._name}))
        self._do(self._client.init_transactions, TIMEOUT_S * 3)
        self._produce = self._client.produce
        self.records = 0
        self.is_open = False

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Any = None) -> None:
        """Add a record to the transaction, and begin one if none is open."""
        if not self.is_open:
            self.begin()
        self.records += 1
        while True:
            try:
                if headers is None:
                    self._produce(topic, value, key)
                else:
                    self._produce(topic, value, key, headers=headers)
            except BufferError:
                self._client.poll(0.02)
            except KafkaException as error:
                raise self._meaning(error) from None
            else:
                return

    def begin(self) -> None:
        """Open a transaction."""
        self._do(self._client.begin_transaction)
        self.is_open, self.records = True, 0

    def flush(self) -> None:
        """Have the broker take what was sent, without committing it."""
        if self._client.flush(COMMIT_S):
            raise Away("Kafka does not take the records")

    def commit(self) -> None:
        """Make everything that was sent visible."""
        self._do(self._client.commit_transaction, COMMIT_S)
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

    def _do(self, call: Any, *arguments: Any) -> None:
        try:
            call(*arguments)
        except KafkaException as error:
            raise self._meaning(error) from None

    def _meaning(self, error: KafkaException) -> Exception:
        kafka: KafkaError = error.args[0]
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
"""What a record's value may have at most."""
ROOM = {"max.message.bytes": str(LARGEST + 64 * 1024)}
"""How the topic of a table is configured, so that it takes such records."""
