"""Reading tables between the changes that the stream brings: which range is next, and when the stream has come to it.

The steps, and why a row that is written here is the row at this place of the stream, are told in `snapshot`. An outbox
is read in one piece before the stream is: until its rows and those of the stream meet, nothing may be committed
(`holding`), so that after a kill all of it happens again, or none.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import psycopg

from headrace import names
from headrace.capture import outbox, present, snapshot, value
from headrace.capture.changes import Changes, key_of_fields
from headrace.capture.database import translated
from headrace.capture.envelope import Envelope
from headrace.capture.kinds import Kinds
from headrace.capture.live import Live, Tables
from headrace.capture.pgoutput import Message
from headrace.capture.relation import Relation
from headrace.capture.snapshot import Moved, Reading
from headrace.capture.table import Found
from headrace.capture.writer import Writer
from headrace.errors import CaptureError
from headrace.log.connection import Connection

_NULL = value.NULL


class Ranges:
    """`window` is the table whose range is awaited; `hear` and `saw` are told what the stream brings."""

    def __init__(
        self,
        app: str,
        connection: Connection,
        *,
        database: psycopg.Connection[tuple[Any, ...]],
        reading: Reading,
        writer: Writer,
        tables: Tables,
        changes: Changes,
        alive: Callable[[], None],
        told: Callable[[str], None],
    ) -> None:
        self._app = app
        self._connection = connection
        self._database = database
        self._reading = reading
        self._writer = writer
        self._tables = tables
        self._changes = changes
        self._alive = alive
        self._told = told
        self._kinds = Kinds(database)
        self._prefix = names.capture(app)
        self._token = uuid.uuid4().hex
        self._count = 0
        self._xids: deque[int] = deque(maxlen=10_000)
        self._awaited = b""
        self.window: Live | None = None
        self.reached = False
        self.holding = False
        self.ended = time.monotonic()

    def begin(self) -> None:
        """Before the stream is read: note what it brings of the outboxes that are to be read, and read the first."""
        for live in self._tables.by_name.values():
            if live.captured.is_outbox and live.state.reading:
                live.touched = set()
        self._next_outbox()

    def next(self) -> None:
        """Begin a range of a table, if one is to be read."""
        live = self._tables.to_read(outboxes=False) if self.window is None else None
        if live is not None:
            live.touched = set()
            self._open(live)

    def saw(self, xid: int) -> None:
        """The stream has brought this transaction."""
        self._xids.append(xid)

    def hear(self, message: Message) -> None:
        """A message of the log: is it the one that is awaited?"""
        if self.window is not None and message.prefix == self._prefix and message.content == self._awaited:
            self.reached = True

    def read(self) -> None:
        """The stream has come to the message: read, write, and keep how far."""
        live, self.window, self.reached = self.window, None, False
        if live is None:
            return
        touched, live.touched = live.touched or set(), None
        try:
            # What a truncated table had is gone, a partition may have come: the range is begun once more.
            if not live.is_paused and not live.outdated:
                (self._outbox if live.captured.is_outbox else self._range)(live, touched)
        except CaptureError as error:  # the table was dropped, or may not be read any more: the others go on
            self._tables.pause(live, error)
        self._reading.close()
        self.ended = time.monotonic()
        if self.holding:
            self._next_outbox()
        if not live.state.reading and not live.is_paused:
            self._told(f"{live.captured.table}: all rows are read; changes follow")

    def _next_outbox(self) -> None:
        live = self._tables.to_read(outboxes=True)
        self.holding = live is not None
        if live is not None:
            self._open(live)

    def _open(self, live: Live) -> None:
        live.outdated = False
        while not self._sees_everything(*self._reading.open()):
            time.sleep(0.002)
        self._count += 1
        self.window, self.reached, self._awaited = live, False, f"{self._token} {self._count}".encode()
        with translated("putting a message into the log"):
            self._database.execute(
                "SELECT pg_logical_emit_message(true, %s, %s)", (self._prefix, self._awaited.decode())
            )

    def _sees_everything(self, first: int, running: frozenset[int]) -> bool:
        """Whether the reading transaction sees every transaction that the stream has brought."""
        hidden = {one & 0xFFFFFFFF for one in running}
        return not any(xid in hidden or (xid - first) & 0xFFFFFFFF < 0x80000000 for xid in self._xids)

    def _range(self, live: Live, touched: set[bytes]) -> None:
        """A range of the table, or of the first of the partitions that were attached to it."""
        found, state = self._reading.find(live.captured), live.state
        if state.sweep and state.after is None and not state.attached:
            # What the stream has brought up to here may be gone as well: it does not tell of rows that go with their
            # partition. What it brings from here on is not: so it is read from here on.
            self._writer.flush()
            ends = present.offsets(self._connection, live.topic)
            stale = {str(partition): end for partition, end in ends.items() if end}
            state = state.with_(sweep=False, stale=stale or None)
            if stale:
                self._tables.keep(live, state)
                return
        try:
            leaf = self._reading.partition(state.attached[0]) if state.attached else None
        except Moved:
            return  # the range is begun once more, by a transaction that sees what has become of it
        last, count = None, 0
        relation = self._relation(live, found)
        envelope = Envelope(self._app, self._database.info.dbname, live.captured.schema, live.captured.relation)
        common = envelope.reading(self._changes.at)
        rows = self._reading.rows(live.captured, found.names, live.key, state.after, snapshot.ROWS, only=leaf)
        with closing(rows):
            # A partition that is gone has no rows to be read: that it is gone is noticed elsewhere.
            for fields in rows if leaf is not None or not state.attached else ():
                values = relation.encode(fields)
                key = relation.key_of(values)
                last, count = fields, count + 1
                if key not in touched:
                    self._changes.send(live, key, envelope.read(common, b"r", _NULL, relation.row(values)))
                    if live.is_paused:
                        return
        if count >= snapshot.ROWS and last is not None:
            told = state.with_(after=tuple(relation.texts_of_key(last)))
        elif len(state.attached) > 1:
            told = state.with_(after=None, attached=state.attached[1:])
        else:
            self._sweep(live, state.stale, envelope, common)
            told = state.with_(reading=False, after=None, stale=None, attached=())
        self._tables.keep(live, told if told.columns else told.with_(columns=_columns(found)))

    def _outbox(self, live: Live, touched: set[bytes]) -> None:
        found = self._reading.find(live.captured)
        relation = self._relation(live, found)
        order = outbox.counting_column(found, live.key)
        for fields in self._reading.in_order_of_writing(live.captured, found.names, order):
            if key_of_fields(relation, fields) not in touched:
                self._changes.deliver(live, relation, fields, None)
        self._tables.keep(live, live.state.with_(reading=False, columns=_columns(found)))

    def _sweep(self, live: Live, stale: Mapping[str, int] | None, envelope: Envelope, common: bytes) -> None:
        """Delete the rows that were written before the table was read, and are gone."""
        if not stale:
            return
        self._writer.flush()
        below = {int(partition): end for partition, end in stale.items()}
        for key in present.keys(self._connection, live.topic, below=below, alive=self._alive):
            self._changes.send(live, key, envelope.read(common, b"d", key, _NULL))
            self._changes.send(live, key, None)

    def _relation(self, live: Live, found: Found) -> Relation:
        return Relation(found.names, [self._kinds.of(column.type) for column in found.columns], live.key)


def _columns(found: Found) -> tuple[tuple[str, int, int], ...]:
    return tuple((column.name, column.type, column.modifier) for column in found.columns)
