"""The rows of a view as they are now, from its topic: read once and shared by all pages and charts that show them.

The topic is read from at most `BACK` records before its end; a compacted topic of a view seldom has more than its rows.
The last `MOST` rows that changed are held; a view that has more says so. Rows are decoded in the thread that reads, and
listeners are told what changed: the key, and the row or that there is none any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.serve.observation.tail import Reader

BACK = 200_000
MOST = 20_000
Row = Mapping[str, Any]
Changes = Mapping[str, Row | None]


class Rows:
    """The rows of one view by their keys; made and used on the event loop."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.rows: dict[str, Row] = {}
        self.forgotten = 0
        self.listeners: set[Callable[[Changes], None]] = set()
        self._reader = Reader(connection, topic, BACK, self)

    def digest(self, records: Sequence[Record]) -> object:
        return {(record.key or b"").decode("utf-8", "replace"): _row(record) for record in records}

    def arrived(self, digested: object) -> None:
        changes: Changes = digested  # pyright: ignore[reportAssignmentType]
        for key, row in changes.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = row
        while len(self.rows) > MOST:
            del self.rows[next(iter(self.rows))]
            self.forgotten += 1
        for listener in tuple(self.listeners):
            listener(changes)

    def stop(self) -> None:
        self._reader.stop()


class Views:
    """The rows of the views that somebody looks at."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[str, Rows] = {}

    @contextmanager
    def listening(self, topic: str, listener: Callable[[Changes], None]) -> Iterator[Rows]:
        """Call the listener with what changes; what is there already is in the rows."""
        rows = self._open.get(topic)
        if rows is None:
            rows = self._open[topic] = Rows(self._connection, topic)
        rows.listeners.add(listener)
        try:
            yield rows
        finally:
            rows.listeners.discard(listener)
            if not rows.listeners and self._open.get(topic) is rows:
                del self._open[topic]
                rows.stop()

    def stop(self) -> None:
        for rows in self._open.values():
            rows.stop()


def _row(record: Record) -> Row | None:
    """The row in a record; None for a deletion, and for a record that is no row."""
    try:
        found = json.loads(record.value or b"null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
