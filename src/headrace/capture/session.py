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
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import psycopg

from headrace import names
from headrace.capture import columns, outbox, pgoutput, prerequisites, present, publication, slot, state, table
from headrace.capture import lsn as places
from headrace.capture.changes import Changes
from headrace.capture.database import Away, connect, connect_for_replication
from headrace.capture.difference import difference
from headrace.capture.envelope import Envelope, Transaction, replicated
from headrace.capture.kinds import Kinds
from headrace.capture.live import Live, Tables
from headrace.capture.ranges import Ranges
from headrace.capture.relation import Relation
from headrace.capture.slot import Slot
from headrace.capture.snapshot import Reading
from headrace.capture.state import Position, State, TableState
from headrace.capture.stream import DATA, SlotLost, Stream
from headrace.capture.table import Captured, Found
from headrace.capture.writer import ROOM, Writer
from headrace.errors import CaptureError
from headrace.log import dead
from headrace.log.connection import Connection
from headrace.log.topic import Topic, ensure

MOST_RECORDS = 20_000
MOST_S = 0.2
WAIT_S = 0.1
HEARTBEAT_S = 10.0
HEALTH_S = 5.0
READ_EVERY_S = 1.0
TAKE_OVER_S = 15.0

_INSERT, _UPDATE, _DELETE = pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE
_BEGIN, _COMMIT = pgoutput.BEGIN, pgoutput.COMMIT
_CHANGES = frozenset((_INSERT, _UPDATE, _DELETE))
_HEAD = struct.Struct(">xQ16xxI").unpack_from
"""The place of a change, and the number of its table."""


@dataclass(frozen=True)
class Order:
    """What is to be captured, and where from and to. `limit` is how many bytes of its log the server may hold back."""

    app: str
    url: str = field(repr=False)
    connection: Connection
    tables: tuple[Captured, ...]
    limit: int | None = None


@dataclass
class Health:
    """How the slot is: bytes that the server keeps for it, bytes and seconds that it is behind."""

    held: int = 0
    behind: int = 0
    seconds: float = 0.0
    left: int | None = None
    at: int = 0


@dataclass
class Wanted:
    """Tables that are to be read again, and whether a lost slot may be made anew; each is granted once."""

    tables: set[str] = field(default_factory=set)
    slot: bool = False


class Session:
    """One session; `lives` and `health` tell how it is."""

    def __init__(self, order: Order, again: Wanted, told: Callable[[str], None]) -> None:
        self._order = order
        self._again = again
        self._told = told
        self._name = names.slot(order.app)
        self._memory = names.capture(order.app)
        self._stack = ExitStack()
        self._tables = Tables()
        self._previous: int | None = None
        self._opened = self._looked = self._beaten = 0.0
        self._confirm: Callable[[int], None] | None = None
        self.health = Health()

    # The beginning

    def begin(self) -> None:
        """Everything before the first message; CaptureError when it cannot begin, Away when it cannot yet."""
        order = self._order
        self._database = connect(order.url, "capture")
        self._stack.callback(self._database.close)
        prerequisites.check(self._database, self._name, order.tables)
        self._kinds = Kinds(self._database)
        found = {one.table: self._find(one) for one in order.tables}
        made = ensure(order.connection, topics(order.app, order.tables))
        self._await_slot()
        self._writer = Writer(order.connection, order.app)
        self._stack.callback(self._writer.close)
        remembered = state.recall(order.connection, order.app)
        for name, (there, _, error) in found.items():
            if there is None and error is not None and name not in remembered.tables:
                raise error
        left = self._unpublished(remembered)
        published = [one for one in order.tables if found[one.table][0] is not None and one.table not in left]
        publication.ensure(self._database, self._name, published)
        self._changes = Changes(order.connection, self._writer, self._tables, self._database, self._live)
        fresh = self._place(remembered.position)
        begun = [one.table for one in published if one.table not in remembered.tables or self._is_again(one)]
        if begun and not fresh:
            self._settle(begun)
        self._remember(remembered.tables, found, left, {*made}, fresh)
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
            raise self._lost(str(lost)) from None
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

    def _find(self, captured: Captured) -> tuple[Found | None, tuple[str, ...], CaptureError | None]:
        try:
            found = table.find(self._database, captured)
            key = table.key(captured, found)
            if captured.is_outbox:
                outbox.check(captured, found)
            columns.check(captured, found, self._kinds)
        except CaptureError as error:
            if error.code in ("HR-603", "HR-620"):
                raise
            return None, captured.key, error
        return found, key, None

    def _await_slot(self) -> None:
        """A reader that was killed may be there for a moment."""
        until = time.monotonic() + TAKE_OVER_S
        while (there := slot.find(self._database, self._name)) is not None and there.reader is not None:
            if time.monotonic() > until:
                raise CaptureError(
                    "HR-608",
                    f"The slot `{self._name}` is being read already.",
                    found=f"server process {there.reader}",
                    fix=f"stop the other capture of `{self._order.app}` first; if there is none, another app of the"
                    " same name captures from this database",
                )
            time.sleep(0.1)

    def _place(self, position: Position | None) -> bool:
        """Find the slot, or make it; whether it is new."""
        there = slot.find(self._database, self._name)
        with closing(_Replication(self._order.url)) as replication:
            connection = replication.connection
            system, end = _identified(connection)
            if position is not None and position.lsn is not None:
                why = _why_lost(position, there, system, end)
                if why is None:
                    self._system, self._changes.at = system, position.lsn
                    return False
                if not self._again.slot:
                    raise self._lost(why)
            elif position is None and there is not None and not self._again.slot:
                raise CaptureError(
                    "HR-609",
                    f"The database has a slot `{self._name}`, and this Kafka knows nothing of it.",
                    found=f"the slot is confirmed up to {places.show(there.confirmed or 0)}; the topic"
                    f" `{self._memory}` holds no position",
                    fix="if it belongs to another Kafka, give the app another name; if it was left over, drop it:"
                    f" `headrace slot drop {self._name}`",
                )
            # Written first: a slot that is found beside it is the one that was being made.
            self._system = system
            self._writer.send(self._memory, state.POSITION, Position(system, self._name, None).encode())
            self._writer.commit()
            if there is not None:
                slot.drop(self._database, self._name)
            self._told(f"making the slot {self._name}; it waits for the transactions that run")
            self._changes.at = slot.create(connection, self._name)
            self._again.slot = False
        return True

    def _lost(self, why: str) -> CaptureError:
        return CaptureError(
            "HR-607",
            f"The slot `{self._name}` cannot go on where it was: {why}. Changes may be missing between.",
            found=why,
            fix="read every table again: `headrace capture app.py --snapshot-again all`; rows that are gone are"
            " deleted from the topics too",
        )

    def _is_again(self, captured: Captured) -> bool:
        return captured.table in self._again.tables

    def _unpublished(self, remembered: State) -> set[str]:
        """Tables that were captured and are published no more: changes of them are missing, so they must be paused
        before they are published again."""
        position = remembered.position
        if position is None or position.lsn is None or self._again.slot:
            return set()
        published = publication.published(self._database, self._name)
        return {
            one.table
            for one in self._order.tables
            if one.table in remembered.tables and one.table not in published and not self._is_again(one)
        }

    def _settle(self, begun: Sequence[str]) -> None:
        """Changes that were made before a table was published are not in the stream, whenever they are committed."""
        horizon = publication.horizon(self._database)
        noted = False
        while not publication.settled(self._database, horizon):
            if not noted:
                self._told(f"{', '.join(begun)}: waiting for the transactions that began before it was published")
                noted = True
            time.sleep(0.05)

    def _remember(
        self,
        remembered: Mapping[str, TableState],
        found: Mapping[str, tuple[Found | None, tuple[str, ...], CaptureError | None]],
        left: Collection[str],
        made: Collection[str],
        fresh: bool,
    ) -> None:
        """Decide for each table whether it goes on, is read, or is paused."""
        for captured in self._order.tables:
            there, key, error = found[captured.table]
            known = remembered.get(captured.table)
            if there is None:
                told = (known or TableState(0)).with_(paused=str(error))
            elif known is None or fresh or self._is_again(captured):
                told = TableState(there.number, stale=self._stale(captured))
            elif known.paused is None and (known.number != there.number or captured.table in left):
                why = "was made anew" if known.number != there.number else "was not published for a time"
                told = known.with_(paused=str(self._left(captured.table, why)))
            elif captured.topic in made:
                self._told(f"{captured.table}: the topic {captured.topic} was gone; the table is read again")
                told = TableState(there.number, known.columns, paused=known.paused)
            else:
                told = known
            live = Live(captured, key, told)
            self._tables.add(live)
            if told != known:
                self._tables.keep(live, told)
        for name in [name for name in remembered if name not in self.lives]:
            self._tables.forget(name)
            try:
                publication.remove(self._database, self._name, [name])
            except CaptureError:
                self._told(f"{name} is captured no more; it stays in the publication {self._name}")
        self._cut()
        self._again.tables.clear()

    def _stale(self, captured: Captured) -> dict[str, int] | None:
        """Where the topic holds rows already: those that are gone must be found in the end."""
        if captured.is_outbox:
            return None
        offsets = present.offsets(self._order.connection, captured.topic)
        return {str(partition): end for partition, end in offsets.items()} if any(offsets.values()) else None

    # The loop

    def run(self, stop: Event) -> None:
        """Write what the stream brings until it is to stop; then the stream is confirmed up to what is written."""
        stream, get = self._stream, self._stream.get
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
                if stop.is_set() and self._changes.transaction is None and self._ranges.window is None:
                    break
            elif size == 0:
                if stop.is_set() and self._changes.transaction is None:
                    break
                self._idle()
            else:
                raise stream.ended()
        if self._writer.is_open and not self._ranges.holding:
            self._cut()

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
        """Called from what takes long: the server must hear of us."""
        self._stream.say_sometimes()

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
            self._tables.keep(live, live.state.with_(columns=columns, reading=True, after=None))
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
            raise self._lost("it was dropped")
        if there.is_lost:
            raise self._lost("the server has deleted what it had kept for it")
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
                self._tables.pause(live, self._left(live.captured.table, why))
            elif found.number != live.state.number:
                self._tables.pause(live, self._left(live.captured.table, "was made anew"))
        if self._tables.changed and not self._ranges.holding:
            self._cut()

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

    def _left(self, name: str, why: str) -> CaptureError:
        return CaptureError(
            "HR-612",
            f"The table `{name}` {why}, so changes of it may be missing.",
            found=why,
            fix=f"read it again: `headrace capture app.py --snapshot-again {name}`",
        )


class _Replication:
    """A connection for commands about slots."""

    def __init__(self, url: str) -> None:
        self.connection = connect_for_replication(url)

    def close(self) -> None:
        self.connection.finish()


def topics(app: str, tables: Sequence[Captured]) -> list[Topic]:
    """Every topic that the capture of an app writes."""
    made = [state.topic(app)]
    for captured in tables:
        if captured.is_outbox:
            made.append(dead.declaration(captured.topic))
            made += [Topic(topic, captured.partitions) for topic in captured.streams.values()]
        else:
            made.append(Topic(captured.topic, captured.partitions, compacted=True, config=ROOM))
    return made


def _identified(connection: Any) -> tuple[str, int]:
    result = connection.exec_(b"IDENTIFY_SYSTEM")
    if result.ntuples != 1:
        raise Away(f"PostgreSQL does not say who it is: {result.get_error_message().strip()}")
    return result.get_value(0, 0).decode(), places.parse(result.get_value(0, 2).decode())


def _why_lost(position: Position, there: Slot | None, system: str, end: int) -> str | None:
    """Why nothing can be read from a position on; None when it can."""
    at = position.lsn or 0
    if position.system != system:
        return f"the database is another one (system {system}, not {position.system})"
    if there is None:
        return "it was dropped"
    if there.is_lost:
        return "the server has deleted what it had kept for it"
    if (there.confirmed or 0) > at:
        return f"it begins at {places.show(there.confirmed or 0)}, and {places.show(at)} was the last place written"
    if end < at:
        return f"the database was set back: its log ends at {places.show(end)}, and {places.show(at)} was written"
    return None


def _unfollowed(captured: Captured, what: str) -> CaptureError:
    return CaptureError(
        "HR-611",
        f"The table `{captured.table}` was changed in a way that its readers would misunderstand: {what}.",
        where=captured.where,
        found=what,
        fix="undo the change, or make the readers ready for it; then read the table again: `headrace capture app.py"
        f" --snapshot-again {captured.table}`",
    )
