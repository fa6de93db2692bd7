"""The replication slot: its making, its end, and how much of the write-ahead log it holds back.

A slot keeps every byte of the write-ahead log that its reader has not confirmed. So one that nobody reads fills the
server's disk: `Slot.held` is how much that is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn

from headrace.capture import lsn
from headrace.capture.database import Away, text_of, translated
from headrace.errors import CaptureError

Connection = psycopg.Connection[tuple[Any, ...]]
PLUGIN = "pgoutput"

_SLOTS = """
SELECT slot_name::text, database::text, plugin::text, active_pid, coalesce(wal_status, ''),
    restart_lsn::text, confirmed_flush_lsn::text,
    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
    coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint,
    safe_wal_size
FROM pg_replication_slots WHERE slot_type = 'logical' ORDER BY slot_name
"""


@dataclass(frozen=True)
class Slot:
    """`held` is what it keeps from being deleted, `behind` what was not confirmed, `left` what may still be written
    before the server gives the slot up; all in bytes."""

    name: str
    database: str
    plugin: str
    reader: int | None
    status: str
    restart: int | None
    confirmed: int | None
    held: int
    behind: int
    left: int | None

    @property
    def is_lost(self) -> bool:
        """Whether the server has deleted what it should have kept."""
        return self.status == "lost" or self.restart is None


def every(connection: Connection) -> list[Slot]:
    """The logical slots of the server."""
    with translated("looking at the slots"):
        rows = connection.execute(_SLOTS).fetchall()
    return [
        Slot(row[0], row[1], row[2], row[3], row[4], _place(row[5]), _place(row[6]), row[7], row[8], row[9])
        for row in rows
    ]


def find(connection: Connection, name: str) -> Slot | None:
    """The slot of this name."""
    return next((slot for slot in every(connection) if slot.name == name), None)


def create(connection: PGconn, name: str, pause: Callable[[float], None] = time.sleep) -> int:
    """Make the slot; the place from which it keeps everything.

    It waits until every transaction that runs has ended, so that it holds whole transactions from there on. `pause` is
    called meanwhile; when it raises, the slot is not made.
    """
    connection.send_query(f'CREATE_REPLICATION_SLOT "{name}" LOGICAL {PLUGIN} NOEXPORT_SNAPSHOT'.encode())
    try:
        while connection.is_busy():
            pause(0.02)
            connection.consume_input()
    except psycopg.OperationalError as error:
        raise Away(f"the slot cannot be made: {text_of(error)}") from None
    except Away:
        connection.get_cancel().cancel()
        raise
    result = connection.get_result()
    if result is None:
        raise Away("the slot cannot be made: the server says nothing")
    if result.status != pq.ExecStatus.TUPLES_OK:
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        text = result.get_error_message().strip().splitlines()[0]
        if state in ("53400", "55000"):
            raise CaptureError(
                "HR-602",
                "The server has no room for a replication slot.",
                found=text,
                fix="drop a slot that nobody needs (`headrace slot ls`), or raise the limit: `ALTER SYSTEM SET"
                " max_replication_slots = 20;` and restart the server",
            )
        if state == "42501":
            raise CaptureError(
                "HR-603",
                "The role may not make a replication slot.",
                found=text,
                fix="let an administrator run: `ALTER ROLE … REPLICATION;`",
            )
        raise Away(f"the slot cannot be made: {text}")
    return lsn.parse((result.get_value(0, 1) or b"0/0").decode())


def drop(connection: Connection, name: str, *, patience_s: float = 0) -> None:
    """Give the slot up; CaptureError HR-608 when it is being read, for longer than somebody takes to go away."""
    until = time.monotonic() + patience_s
    while (there := find(connection, name)) is not None and there.reader and time.monotonic() < until:
        time.sleep(0.05)
    with translated(f"dropping the slot {name}"):
        try:
            connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
        except psycopg.errors.UndefinedObject:
            return
        except psycopg.errors.ObjectInUse as error:
            raise CaptureError(
                "HR-608",
                f"The slot `{name}` is being read.",
                found=text_of(error),
                fix="stop the capture that reads it first",
            ) from None


def _place(text: str | None) -> int | None:
    return None if text is None else lsn.parse(text)


def lost(name: str, why: str) -> CaptureError:
    """What is to be said of a slot that does not hold all that was to be read."""
    return CaptureError(
        "HR-607",
        f"The slot `{name}` cannot go on where it was: {why}. Changes may be missing between.",
        found=why,
        fix="read every table again: `headrace capture app.py --snapshot-again all`; rows that are gone are"
        " deleted from the topics too",
    )
