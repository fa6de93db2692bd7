"""The slot's messages, and the confirmations that let the server forget.

The server sends whole committed transactions in the order of their commits. `confirm` says how far everything is kept
in the log: the server may then delete the write-ahead log below, and begins there when it is asked again. Between
transactions it tells how far it has read (`seen`), which moves even when no captured table changes.
"""

from __future__ import annotations

import select
import struct
import time
from typing import Self

from psycopg import pq
from psycopg.pq.abc import PGconn

from headrace.capture import lsn
from headrace.capture.database import Away, connect_for_replication
from headrace.capture.pgoutput import EPOCH_US
from headrace.errors import CaptureError

STATUS_S = 5.0
DATA, KEEPALIVE = b"wk"

_KEEPALIVE = struct.Struct(">QQB").unpack_from
_STATUS = struct.Struct(">cQQQqB").pack


class Stream:
    """A slot that is being read; `get` is libpq's own call, for the loop that must be fast."""

    def __init__(self, connection: PGconn, start: int) -> None:
        self._connection = connection
        self.get = connection.get_copy_data
        self.seen = start
        self.confirmed = start
        self._said = 0.0

    @classmethod
    def open(cls, url: str, slot: str, publication: str, start: int) -> Self:
        """Begin to read after a place; CaptureError HR-608 when somebody else reads the slot."""
        connection = connect_for_replication(url)
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn.show(start)} '
            f"(proto_version '1', publication_names '\"{publication}\"', messages 'true')"
        )
        result = connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            text = result.get_error_message().strip().splitlines()[0]
            connection.finish()
            if state == "55006":
                raise CaptureError(
                    "HR-608",
                    f"The slot `{slot}` is being read already.",
                    found=text,
                    fix="stop the other capture of this app first; `headrace slot ls` shows who reads it",
                )
            if state in ("55000", "42704"):
                raise SlotLost(text)
            raise Away(f"PostgreSQL does not stream: {text}")
        return cls(connection, start)

    def wait(self, seconds: float) -> None:
        """Wait until the server has sent something, and take it in."""
        self._connection.flush()
        ready, _, _ = select.select([self._connection.socket], [], [], seconds)
        if ready:
            try:
                self._connection.consume_input()
            except Exception as error:
                raise Away(f"PostgreSQL has ended the connection: {error}") from None

    def ended(self) -> Away:
        """Why there is nothing more to read."""
        result = self._connection.get_result()
        said = result.get_error_message().strip() if result is not None else ""
        said = said or self._connection.get_error_message().strip() or "the server has ended the stream"
        return Away(f"PostgreSQL has ended the stream: {said.splitlines()[0]}")

    def keepalive(self, data: bytes) -> None:
        """Take note of how far the server is, and answer if it asks."""
        end, _, asked = _KEEPALIVE(data, 1)
        self.seen = max(self.seen, end)
        if asked:
            self.say()

    def confirm(self, place: int) -> None:
        """Everything below is kept; the server may forget it."""
        self.confirmed = max(self.confirmed, place)
        self.say()

    def say_sometimes(self) -> None:
        """Tell the server that we live, as often as it wants to hear it."""
        if time.monotonic() - self._said >= STATUS_S:
            self.say()

    def say(self) -> None:
        """Tell the server what has come and what is kept."""
        clock = time.time_ns() // 1000 - EPOCH_US
        message = _STATUS(b"r", max(self.seen, self.confirmed), self.confirmed, self.confirmed, clock, 0)
        try:
            self._connection.put_copy_data(message)
            self._connection.flush()
        except Exception as error:
            raise Away(f"PostgreSQL has ended the connection: {error}") from None
        self._said = time.monotonic()

    def close(self) -> None:
        """End the connection; the slot is free for others at once."""
        self._connection.finish()


class SlotLost(Exception):  # noqa: N818 - it is the slot that is lost
    """The slot is not there any more, or what it kept is gone."""
