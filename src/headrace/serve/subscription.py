"""One client of a view's changes: the snapshot, then the changes behind it; or what it missed since it was here last.

    reset     what the client has is to be thrown away, with the reason; a snapshot follows
    snapshot  a row: its key and the row
    ready     the snapshot is complete
    change    a row was put (upsert) or taken away (delete), with its position
    log       the log is away, and since when; without a time, that it is back: nothing was missed
    closed    nothing more comes, with the reason; an event's id is where to go on

The id of an event says how far the client is after it. Changes of one key come in their order, each once. With a
filter, a row that no longer meets it is told as deleted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, suppress

from headrace.errors import ServeError
from headrace.serve.change import Change
from headrace.serve.event import Event
from headrace.serve.feed import Feed, Gone, Shared
from headrace.serve.filter import Filter
from headrace.serve.positions import Positions, token
from headrace.serve.view_table import OtherVersion, ViewTable

HEARTBEAT_S = 15.0
MOST_REMEMBERED = 100_000
SNAPSHOT_BYTES = 1024 * 1024


class Subscription:
    """The events of one client; `events` is read once."""

    def __init__(self, feed: Feed, table: ViewTable, chosen: Filter, given: Positions | None) -> None:
        self._feed = feed
        self._table = table
        self._chosen = chosen
        self._by_key = chosen.of_columns(column.name for column in feed.view.key)
        self._given = given
        self._has: set[str] | None = None

    async def events(self) -> AsyncGenerator[Sequence[Event], None]:
        """Events as they come; the first ones come at once, and may be none."""
        given, fresh = self._given, False
        if given is not None and (reason := await self._feed.lost(given)) is not None:
            yield [Event("reset", json.dumps({"reason": reason}))]
            given = None
        while True:
            if given is None:
                try:
                    async with aclosing(self._snapshot()) as snapshot:
                        async for events, positions in snapshot:
                            given = positions
                            yield events
                except OtherVersion as other:
                    raise self._switched(other) from None
                fresh = True
            else:
                yield []
            if given is None:
                raise RuntimeError("a snapshot ends with its positions")
            try:
                async with aclosing(self._changes(given)) as changes:
                    async for events in changes:
                        yield events
            except Gone as gone:
                if fresh:
                    raise self._behind(str(gone)) from None
                yield [Event("reset", json.dumps({"reason": f"the topic no longer holds it: {gone}"}))]
                given = None

    async def _snapshot(self) -> AsyncGenerator[tuple[list[Event], Positions | None], None]:
        view = self._feed.view
        partial = len(self._by_key.conditions) < len(self._chosen.conditions)
        has: set[str] | None = set() if partial and all(column.exact for column in view.key) else None
        async with self._table.snapshot(view, self._chosen) as (held, chunks):
            positions = await self._feed.positions(held.offsets, held.at)
            if (reason := await self._feed.lost(positions)) is not None:
                raise self._behind(reason)
            waiting: list[Event] = []
            size = 0
            async for chunk in chunks:
                if has is not None:
                    has.update(key for _, key in chunk)
                    has = has if len(has) <= MOST_REMEMBERED else None
                waiting += [Event("snapshot", f'{{"key":{key},"row":{row}}}') for row, key in chunk]
                size += sum(len(row) for row, _ in chunk)
                if size > SNAPSHOT_BYTES:
                    yield waiting, None
                    waiting, size = [], 0
        # The end of it, which most often is all of it, waits for the client without holding up the database.
        yield waiting, None
        self._has = has
        yield [Event("ready", json.dumps({"position": str(positions)}), str(positions))], positions

    async def _changes(self, given: Positions) -> AsyncGenerator[list[Event], None]:
        feed = self._feed
        mine = [*given.offsets, *[0] * (feed.partitions - len(given.offsets))]
        while not feed.covers(mine):
            async with aclosing(feed.missed(mine)) as missed:
                async for changes, reached in missed:
                    events = list(self._told(changes, mine, given))
                    for partition, offset in reached.items():
                        mine[partition] = max(mine[partition], offset)
                    yield events
        place, along, away = feed.first, False, None
        with feed.listening() as news:
            while True:
                news.clear()
                shared, place = feed.since(place)
                if along:
                    events = list(self._passed_on(shared))
                else:
                    events = list(self._told((one.change for one in shared), mine, given))
                    along = feed.reached(mine)
                if feed.away != away:
                    away = feed.away
                    events.append(Event("log", json.dumps({"away": away})))
                if events:
                    yield events
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(HEARTBEAT_S):
                        await news.wait()
                # Both can happen at the same moment, and then the feed is further than the client.
                if not news.is_set():
                    yield [Event("heartbeat", id=feed.id if along else token(given.topic, given.at, mine))]

    def _told(self, changes: Iterable[Change], mine: list[int], given: Positions) -> Iterable[Event]:
        """Changes for one whose place is its own."""
        for change in changes:
            if change.offset >= mine[change.partition]:
                mine[change.partition] = change.offset + 1
                if (data := self._shaped(change)) is not None:
                    yield Event("change", data, token(given.topic, given.at, mine))

    def _passed_on(self, shared: Iterable[Shared]) -> Iterable[Event]:
        """Changes for one who has read everything before them."""
        for one in shared:
            if not self._chosen:
                yield one.event
            elif (data := self._shaped(one.change)) is not None:
                yield one.event if data is one.change.data else Event("change", data, one.event.id)

    def _shaped(self, change: Change) -> str | None:
        """What the client is told of a change; None when it is nothing to it."""
        if not self._chosen:
            return change.data
        if not self._by_key.holds(change.values):
            return None
        if change.row is not None and self._chosen.holds(change.values):
            if self._has is not None:
                self._has.add(change.key)
                if len(self._has) > MOST_REMEMBERED:
                    self._has = None
            return change.data
        if self._has is not None:
            if change.key not in self._has:
                return None
            self._has.discard(change.key)
        return change.deletion

    def _switched(self, other: OtherVersion) -> ServeError:
        return ServeError(
            "HR-518",
            f"The view `{self._feed.view.name}` was switched to another version.",
            found=f"its table holds the rows of the topic {other.topic}",
            fix="connect again",
        )

    def _behind(self, reason: str) -> ServeError:
        return ServeError(
            "HR-518",
            f"The table of the view `{self._feed.view.name}` and its topic do not fit each other.",
            found=reason,
            fix=f"build the table again from the topic: headrace follow app.py --rebuild {self._feed.view.name}",
        )
