"""A view followed into its table, in the version that is current.

When the table holds another version than the current one, the table of the current version is filled beside it, to the
end of its topic, and then takes its name in one transaction (postgres.py). Readers see the rows of the one until they
see those of the other. A crash on the way leaves the old table in its place, and the next follower goes on.
"""

from __future__ import annotations

import threading

from headrace.errors import FollowError
from headrace.followers.follower import Follower
from headrace.followers.postgres import PostgresTable
from headrace.followers.pulse import Pulse
from headrace.log.catalogue import View
from headrace.log.connection import Connection

# A table beside that cannot go on is nobody's yet, so it is filled anew.
_ANEW = {"HR-402", "HR-404", "HR-405"}


class ViewFollower(Follower):
    """Follows a view of the catalogue."""

    def __init__(self, url: str, view: View, connection: Connection, *, rebuild: bool = False) -> None:
        self._url = url
        self._view = view
        self._table = PostgresTable(url, view)
        super().__init__(self._table.follower, view.topic, self._table, connection, rebuild=rebuild)

    def _follow(self, stop: threading.Event, to_the_end: bool) -> None:
        other = None if self._rebuild else self._table.other_version()
        if other is not None:
            fill_beside(self._url, self._view, self._connection, stop, self._table.pulse)
            if stop.is_set():
                return
            self._table.exchange(other)
        super()._follow(stop, to_the_end)


def fill_beside(
    url: str, view: View, connection: Connection, stop: threading.Event | None = None, pulse: Pulse | None = None
) -> int:
    """Bring the table that stands beside the view's to the end of the topic of its version; how many records that
    were. `pulse` is of the loop that waits for it."""
    table = PostgresTable(url, view, beside=True)
    table.pulse = pulse or table.pulse
    try:
        return Follower(table.follower, view.topic, table, connection).catch_up(stop)
    except FollowError as error:
        if error.code not in _ANEW:
            raise
        return Follower(table.follower, view.topic, table, connection, rebuild=True).catch_up(stop)
