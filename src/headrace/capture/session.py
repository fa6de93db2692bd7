"""Capture from the moment that database and log answer to the moment that one of them does not.

It begins where the log says that the last session ended. The stream brings whole transactions in the order of their
commits; they are written to Kafka in that order, one or many in a Kafka transaction and never a part of one, with the
place after the last of them. After the commit, and not before, the slot is told that it may forget.

A Kafka transaction is committed as soon as the stream has nothing more at hand, or when it has become large or old.
While nothing happens, the place moves with the server's own (a heartbeat), so that a quiet table holds nothing back.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Event

import psycopg

from headrace import names
from headrace.capture import pgoutput, publication, slot, state, table
from headrace.capture.beginning import TAKE_OVER_S, Beginning
from headrace.capture.changes import Changes
from headrace.capture.database import Away, connect
from headrace.capture.difference import difference
from headrace.capture.envelope import Envelope, Transaction, replicated
from headrace.capture.kinds import Kinds
from headrace.capture.live import Live, Tables
from headrace.capture.order import Order, Wanted
from headrace.capture.ranges import Ranges
from headrace.capture.relation import Relation
from headrace.capture.slot import Slot
from headrace.capture.snapshot import Reading
from headrace.capture.state import Position
from headrace.capture.stream import DATA, SlotLost, Stream
from headrace.capture.table import Captured, Found
from headrace.capture.writer import GRACE_S, TooLarge, Writer, too_large
from headrace.errors import CaptureError

MOST_RECORDS = 20_000
MOST_S = 0.2
WAIT_S = 0.1
HEARTBEAT_S = 10.0
HEALTH_S = 5.0
READ_EVERY_S = 1.0

_INSERT, _UPDATE, _DELETE = pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE
_BEGIN, _COMMIT = pgoutput.BEGIN, pgoutput.COMMIT
_CHANGES = frozenset((_INSERT, _UPDATE, _DELETE))
_HEAD = struct.Struct(">xQ16xxI").unpack_from
"""The place of a change, and the number of its table."""


@dataclass
class Health:
    """How the slot is: bytes that the server keeps for it, bytes and seconds that it is behind."""

    held: int = 0
    behind: int = 0
    seconds: float = 0.0
    left: int | None = None
    at: int = 0


class Session:
    """One session; `lives` and `health` tell how it is."""

    def __init__(
        self,
        order: Order,
        again: Wanted,
        told: Callable[[str], None],
        *,
        stop: Event,
        unfit: Mapping[str, TooLarge] | None = None,
    ) -> None:
        """`unfit` are records, by their topics, that the log has not taken: their tables are to be paused."""
        self._order = order
        self._again = again
        self._told = told
        self._stop = stop
        self._unfit = unfit or {}
        self._name = names.slot(order.app)
        self._memory = names.capture(order.app)
        self._stack = ExitStack()
        self._tables = Tables()
        self._previous: int | None = None
        self._opened = self._looked = self._beaten = self._stopping = 0.0
        self._confirm: Callable[[int], None] | None = None
        self.health = Health()
        self.waiting: str | None = None

    # The beginning

    def begin(self) -> None:
        """Everything before the first message; CaptureError when it cannot begin, Away when it cannot yet."""
        order = self._order
        self._database = connect(order.url, "capture")
        self._stack.callback(self._database.close)
        self._kinds = Kinds(self._database)
        beginning = Beginning(
            order,
            self._again,
            database=self._database,
            kinds=self._kinds,
            tables=self._tables,
            told=self._told,
            stop=self._stop,
        )
        beginning.prepare()
        self._writer = Writer(order.connection, order.app, stop=self._stop, waits=self._waits)
        self._stack.callback(self._writer.close)
        self._changes = Changes(order.connection, self._writer, self._tables, self._database, self._live)
        place = beginning.decide(self._writer)
        self._system, self._changes.at = place.system, place.at
        for live in self._tables.by_name.values():
            for topic in live.captured.topics & set(self._unfit):
                self._tables.pause(live, too_large(order.connection, live.captured, self._unfit[topic]))
        self._cut()
        self._again.tables.clear()
        reading = Reading(order.url)
        self._stack.callback(reading.end)
        self._ranges = Ranges(
            order.app,
            order.connection,
            database=self._database,
            reading=reading,
            writer=self._writer,
            tables=self._tables,
            changes=self._changes,
            alive=self._live,
            told=self._told,
        )
        try:
            self._stream = Stream.open(order.url, self._name, self._name, self._changes.at)
        except SlotLost as lost:
            raise slot.lost(self._name, str(lost)) from None
        self._stack.callback(self._stream.close)
        self._confirm = self._stream.confirm
        self._beaten = time.monotonic()
        self._ranges.begin()

    @property
    def lives(self) -> dict[str, Live]:
        """The tables, by their names."""
        return self._tables.by_name

    def close(self) -> None:
        """Give up what is not committed, and all connections."""
        self._stack.close()

    # The loop

    def run(self) -> None:
        """Write what the stream brings until it is to stop; then the stream is confirmed up to what is written.

        A transaction that is not whole by then is waited for a moment, and given up: it comes again.
        """
        stream, get, stop = self._stream, self._stream.get, self._stop
        message = self._message
        while True:
            try:
                size, view = get(1)
            except psycopg.Error as error:
                raise Away(f"PostgreSQL has ended the stream: {error}") from None
            if size > 0:
                data = bytes(view)
                if data[0] == DATA:
                    message(data)
                else:
                    stream.keepalive(data)
                if stop.is_set() and self._is_over(self._changes.transaction is None and self._ranges.window is None):
                    break
            elif size == 0:
                if stop.is_set() and self._is_over(self._changes.transaction is None):
                    break
                self._idle()
            else:
                raise stream.ended()
        if self._writer.is_open and not self._ranges.holding and self._changes.transaction is None:
            self._cut()

    def _is_over(self, is_whole: bool) -> bool:
        """Whether the loop ends, when it is to stop: at a place where all is whole, or after a while."""
        self._stopping = self._stopping or time.monotonic()
        return is_whole or time.monotonic() - self._stopping >= GRACE_S

    def _waits(self, reason: str | None) -> None:
        self.waiting = reason

    def _idle(self) -> None:
        """The stream has nothing at hand."""
        if self._changes.transaction is None:
            if self._writer.is_open and not self._ranges.holding:
                self._cut()
            self._ranges.next()
            self._look_after()
        self._stream.say_sometimes()
        self._stream.wait(WAIT_S)

    def _look_after(self) -> None:
        now = time.monotonic()
        if now - self._looked >= HEALTH_S:
            self._looked = now
            self._examine()
        place = max(self._stream.seen, self._changes.at)
        if now - self._beaten >= HEARTBEAT_S and self._ranges.window is None and place > self._stream.confirmed:
            self._changes.at = place
            self._cut()

    def _cut(self) -> None:
        """Commit the Kafka transaction with the place that it leads to, and let the slot forget what is below."""
        writer, at = self._writer, self._changes.at
        for name, told in self._tables.changed.items():
            writer.send(self._memory, state.key_of(name), None if told is None else told.encode())
        writer.send(self._memory, state.POSITION, Position(self._system, self._name, at).encode())
        writer.commit()
        self._tables.changed.clear()
        self._beaten = time.monotonic()
        if self._confirm is not None:
            self._confirm(at)

    def _live(self) -> None:
        """Called from what takes long: the server must hear of us, and it may be to stop."""
        self._stream.say_sometimes()
        if self._stop.is_set():
            raise Away("it is to stop")

    # Messages

    def _message(self, data: bytes) -> None:
        kind = data[pgoutput.HEADER]
        if kind in _CHANGES:
            lsn, number = _HEAD(data)
            live = self._tables.by_number.get(number)
            if live is None:
                return
            if live.state.paused is not None:
                live.skipped += 1
            elif live.captured.streams:
                self._changes.event(live, kind, data)
            elif kind == _INSERT:
                self._changes.insert(live, data, lsn)
            elif kind == _UPDATE:
                self._changes.update(live, data, lsn)
            else:
                self._changes.delete(live, data, lsn)
        elif kind == _BEGIN:
            begun = pgoutput.begin(data)
            self._changes.transaction = Transaction(begun.xid, begun.commit, begun.at_us, self._previous)
            if not self._writer.is_open:
                self._opened = time.monotonic()
        elif kind == _COMMIT:
            self._commit(pgoutput.commit(data))
        else:
            self._rare(kind, data)

    def _rare(self, kind: int, data: bytes) -> None:
        if kind == pgoutput.RELATION:
            self._announce(data)
        elif kind == pgoutput.TRUNCATE:
            for number in pgoutput.truncated(data):
                self._changes.truncate(self._tables.by_number.get(number), int.from_bytes(data[1:9], "big"))
        elif kind == pgoutput.ORIGIN and self._changes.transaction is not None:
            self._changes.transaction.origin = replicated(*pgoutput.origin(data))
        elif kind == pgoutput.MESSAGE:
            self._ranges.hear(pgoutput.message(data))

    def _commit(self, commit: pgoutput.Commit) -> None:
        transaction, self._changes.transaction = self._changes.transaction, None
        self._previous = commit.commit
        self._changes.at = commit.end
        self._stream.seen = max(self._stream.seen, commit.end)
        if transaction is not None:
            self._ranges.saw(transaction.xid)
            self.health.at = transaction.at_us
        if self._ranges.reached:
            self._ranges.read()
            if not self._ranges.holding:
                self._cut()
            return
        writer = self._writer
        if writer.is_open and not self._ranges.holding:
            now = time.monotonic()
            if writer.records >= MOST_RECORDS or now - self._opened >= MOST_S:
                self._cut()
                self._stream.say_sometimes()
                if now - self._ranges.ended >= READ_EVERY_S:
                    self._ranges.next()
                self._look_after()

    # Columns

    def _announce(self, data: bytes) -> None:
        told = pgoutput.announced(data)
        live = self.lives.get(f"{told.schema}.{told.table}")
        self._tables.by_number[told.number] = live
        if live is None or live.is_paused:
            return
        columns = tuple((column.name, column.type, column.modifier) for column in told.columns)
        kinds = [self._kinds.of(column.type) for column in told.columns]
        identity = {column.name for column in told.columns if column.in_identity}
        if not live.captured.is_outbox and not set(live.key) <= identity:
            self._tables.pause(
                live, _unfollowed(live.captured, "its key, or what identifies a changed row, is another one")
            )
            return
        if columns != live.state.columns:
            self._changed(live, columns)
        if live.is_paused:
            return
        live.relation = Relation([column.name for column in told.columns], kinds, live.key)
        live.envelope = Envelope(self._order.app, self._database.info.dbname, told.schema, told.table)

    def _changed(self, live: Live, columns: tuple[tuple[str, int, int], ...]) -> None:
        found = self._found(live)
        result = difference(live.captured, live.state.columns, columns, self._kinds.of, found)
        if result.verdict == "pause":
            self._tables.pause(live, _unfollowed(live.captured, result.what))
            return
        if result.verdict == "read" and not live.captured.is_outbox:
            self._told(f"{live.captured.table}: {result.what}; it is read again")
            self._tables.keep(live, live.state.with_(columns=columns, reading=True, after=None, attached=()))
            live.outdated = True
            return
        if result.verdict == "follow":
            self._told(f"{live.captured.table}: {result.what}")
        self._tables.keep(live, live.state.with_(columns=columns))

    def _found(self, live: Live) -> Found | None:
        try:
            return table.find(self._database, live.captured)
        except CaptureError:
            return None

    # Health

    def _examine(self) -> None:
        there = slot.find(self._database, self._name)
        if there is None:
            raise slot.lost(self._name, "it was dropped")
        if there.is_lost:
            raise slot.lost(self._name, "the server has deleted what it had kept for it")
        health = self.health
        health.held, health.behind, health.left = there.held, there.behind, there.left
        health.seconds = max(0.0, time.time() - health.at / 1e6) if there.behind and health.at else 0.0
        self._limit(there)
        published = publication.published(self._database, self._name)
        for live in self.lives.values():
            if live.is_paused:
                continue
            found = self._found(live)
            if found is None or live.captured.table not in published:
                why = "was dropped" if found is None else "is not published any more"
                self._tables.pause(live, table.missed(live.captured.table, why))
            elif found.number != live.state.number:
                self._tables.pause(live, table.missed(live.captured.table, "was made anew"))
            elif found.partitions != live.state.partitions:
                self._repartitioned(live, found)
        if self._tables.changed and not self._ranges.holding:
            self._cut()

    def _repartitioned(self, live: Live, found: Found) -> None:
        """The stream does not tell of rows that come and go with a partition: they are read, or the whole table is."""
        state = live.state.with_(partitions=found.partitions)
        if live.state.partitions is None or live.captured.is_outbox:
            self._tables.keep(live, state)
            return
        known, name = set(live.state.partitions), live.captured.table
        attached = table.filled(self._database, [one[0] for one in found.partitions if one not in known])
        if known - set(found.partitions):
            self._told(f"{name}: a partition was detached or dropped; the table is read again")
            state = state.with_(reading=True, after=None, stale=None, sweep=True, attached=())
        elif attached and all(attached.values()) and (state.attached or not state.reading):
            self._told(f"{name}: a partition was attached; its rows are read")
            state = state.with_(reading=True, attached=(*state.attached, *attached))
        elif attached:  # rows of it may come before those that were read already, or it cannot be read by itself
            self._told(f"{name}: a partition was attached; the table is read again")
            state = state.with_(reading=True, after=None, attached=())
        # A range that was begun before has not seen it.
        live.outdated = True
        self._tables.keep(live, state)

    def _limit(self, there: Slot) -> None:
        limit = self._order.limit
        if limit is None or there.held <= limit:
            return
        self._stream.close()
        slot.drop(self._database, self._name, patience_s=TAKE_OVER_S)
        raise CaptureError(
            "HR-614",
            f"The slot `{self._name}` made the server keep more of its log than is allowed, and was dropped.",
            found=f"{there.held:,} bytes, the limit is {limit:,}",
            fix="see why the capture was slow or the log away; then read every table again: `headrace capture app.py"
            " --snapshot-again all`",
        )


def _unfollowed(captured: Captured, what: str) -> CaptureError:
    return CaptureError(
        "HR-611",
        f"The table `{captured.table}` was changed in a way that its readers would misunderstand: {what}.",
        where=captured.where,
        found=what,
        fix="undo the change, or make the readers ready for it; then read the table again: `headrace capture app.py"
        f" --snapshot-again {captured.table}`",
    )
