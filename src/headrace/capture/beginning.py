"""How a session begins: where in the stream, and which tables go on, are read, or are paused.

The log says where the last session ended. What the database says may not fit it: a slot that is gone or was advanced, a
table that was made anew or was not published for a time. Then changes may be missing, and nothing goes on in silence:
the capture ends with an error, or the table is paused, until it is said that they are to be read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event
from typing import Any

from headrace import names
from headrace.capture import columns, outbox, prerequisites, publication, slot, state, table
from headrace.capture import lsn as places
from headrace.capture.database import Away, connect_for_replication
from headrace.capture.kinds import Kinds
from headrace.capture.live import Live, Tables
from headrace.capture.order import Order, Wanted
from headrace.capture.slot import Slot
from headrace.capture.state import Position, State, TableState
from headrace.capture.table import Captured, Found
from headrace.capture.writer import ROOM, Writer
from headrace.errors import CaptureError
from headrace.log import dead
from headrace.log.topic import HISTORY, Topic, ensure

TAKE_OVER_S = 15.0


@dataclass(frozen=True)
class Place:
    """A place in the log of a database, which `system` names."""

    system: str
    at: int


class Beginning:
    """Of one session: first the database is looked at, then it is decided, for which a writer is needed."""

    def __init__(
        self,
        order: Order,
        again: Wanted,
        *,
        database: slot.Connection,
        kinds: Kinds,
        tables: Tables,
        told: Callable[[str], None],
        stop: Event,
    ) -> None:
        self._order = order
        self._again = again
        self._database = database
        self._kinds = kinds
        self._tables = tables
        self._told = told
        self._stop = stop
        self._name = names.slot(order.app)

    def prepare(self) -> None:
        """Find the tables, make the topics, and wait until nobody reads the slot."""
        prerequisites.check(self._database, self._name, self._order.tables)
        self._found = {one.table: self._find(one) for one in self._order.tables}
        self._made = ensure(self._order.connection, topics(self._order.app, self._order.tables))
        self._await_slot()

    def decide(self, writer: Writer) -> Place:
        """Publish the tables and put them into `tables`; where the stream is to be read from."""
        order, found = self._order, self._found
        remembered = state.recall(order.connection, order.app)
        for name, (there, _, error) in found.items():
            if there is None and error is not None and name not in remembered.tables:
                raise error
        left = self._unpublished(remembered)
        published = [one for one in order.tables if found[one.table][0] is not None and one.table not in left]
        publication.ensure(self._database, self._name, published)
        place, fresh = self._place(remembered.position, writer)
        begun = [one.table for one in published if one.table not in remembered.tables or self._is_again(one)]
        if begun and not fresh:
            self._settle(begun)
        self._remember(remembered.tables, left, fresh=fresh)
        return place

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
            self._pause(0.1)

    def _place(self, position: Position | None, writer: Writer) -> tuple[Place, bool]:
        """Find the slot, or make it: where it is, and whether it is new."""
        memory = names.capture(self._order.app)
        there = slot.find(self._database, self._name)
        with closing(_Replication(self._order.url)) as replication:
            connection = replication.connection
            system, end = _identified(connection)
            if position is not None and position.lsn is not None:
                why = _why_lost(position, there, system, end)
                if why is None:
                    return Place(system, position.lsn), False
                if not self._again.slot:
                    raise slot.lost(self._name, why)
            elif position is None and there is not None and not self._again.slot:
                raise CaptureError(
                    "HR-609",
                    f"The database has a slot `{self._name}`, and this Kafka knows nothing of it.",
                    found=f"the slot is confirmed up to {places.show(there.confirmed or 0)}; the topic"
                    f" `{memory}` holds no position",
                    fix="if it belongs to another Kafka, give the app another name; if it was left over, drop it:"
                    f" `headrace slot drop {self._name}`",
                )
            # Written first: a slot that is found beside it is the one that was being made.
            writer.send(memory, state.POSITION, Position(system, self._name, None).encode())
            writer.commit()
            if there is not None:
                slot.drop(self._database, self._name)
            self._told(f"making the slot {self._name}; it waits for the transactions that run")
            at = slot.create(connection, self._name, self._pause)
            self._again.slot = False
        return Place(system, at), True

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
            self._pause(0.05)

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise Away("it is to stop")

    def _remember(self, remembered: Mapping[str, TableState], left: Collection[str], *, fresh: bool) -> None:
        """Decide for each table whether it goes on, is read, or is paused."""
        for captured in self._order.tables:
            there, key, error = self._found[captured.table]
            known = remembered.get(captured.table)
            if there is None:
                told = (known or TableState(0)).with_(paused=str(error))
            elif known is None or fresh or self._is_again(captured):
                told = TableState(there.number, sweep=not captured.is_outbox, partitions=there.partitions)
            elif known.paused is None and (known.number != there.number or captured.table in left):
                why = "was made anew" if known.number != there.number else "was not published for a time"
                told = known.with_(paused=str(table.missed(captured.table, why)))
            elif captured.topic in self._made:
                self._told(f"{captured.table}: the topic {captured.topic} was gone; the table is read again")
                told = TableState(there.number, known.columns, partitions=there.partitions, paused=known.paused)
            else:
                told = known
            live = Live(captured, key, told)
            self._tables.add(live)
            if told != known:
                self._tables.keep(live, told)
        for name in [name for name in remembered if name not in self._tables.by_name]:
            self._tables.forget(name)
            try:
                publication.remove(self._database, self._name, [name])
            except CaptureError:
                self._told(f"{name} is captured no more; it stays in the publication {self._name}")


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
            made.append(Topic(captured.topic, captured.partitions, compacted=True, config=HISTORY | ROOM))
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
