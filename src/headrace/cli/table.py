"""The tables of versions, where there is a PostgreSQL that has a table of the view.

PostgreSQL is the one of the settings, or the embedded one of the app's directory, found or started. Where neither is
there, or nobody has followed the view into it, nothing is done: a follower that begins later makes the table of what is
current.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from headrace.cli import terminal
from headrace.errors import FollowError, PartError
from headrace.followers.postgres import PostgresTable, check_dependents
from headrace.followers.store import StoreAway
from headrace.followers.view_follower import ViewFollower, fill_beside
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.parts import address, postgres
from headrace.parts.embedded import Parts
from headrace.settings import Settings

SWITCH_S = 60.0
LOOK_S = 0.1
_TOPIC = "SELECT topic FROM headrace.followers WHERE follower = %s"


@contextmanager
def of_view(settings: Settings, view: View) -> Iterator[str | None]:
    """The address of a PostgreSQL in which the view has a table; None where there is none.

    PartError when the one of the settings is away.
    """
    if settings.postgres:
        address.require_postgres(settings.postgres, seconds=3)
        yield settings.postgres if holds(settings.postgres, view) else None
    elif (settings.state / postgres.NAME).is_dir():
        with Parts.start(settings, kafka=False, postgres=True, report=terminal.note) as parts:
            yield parts.postgres_url if holds(parts.postgres_url, view) else None
    else:
        yield None


def holds(url: str, view: View) -> str | None:
    """The topic from which the view's table was filled; None when it has none."""
    with psycopg.connect(url, connect_timeout=5) as connection, suppress(psycopg.errors.UndefinedTable):
        found = connection.execute(_TOPIC, (f"{view.app}.{view.view}",)).fetchone()
        return None if found is None else found[0]
    return None


def fill(settings: Settings, view: View, connection: Connection) -> None:
    """Fill the table of a version beside that of the view, as far as its topic goes."""
    try:
        with of_view(settings, view) as url:
            if url is None or holds(url, view) == view.topic:
                return
            if count := fill_beside(url, view, connection):
                terminal.note(f'the table "{view.app}"."{view.view}.{view.version}" has {count:,} changes more')
    except PartError as error:
        terminal.note(f"{error.what} The table is filled when the version becomes current.")


def check(settings: Settings, view: View) -> None:
    """An error when the view's table could not pass its name on to this version."""
    with of_view(settings, view) as url:
        if url is not None and holds(url, view) != view.topic:
            with psycopg.connect(url, connect_timeout=5) as connection:
                check_dependents(connection, view)


def switch(settings: Settings, view: View, connection: Connection) -> bool | None:
    """Wait until the view's table is that of the version, and see to it when nobody else does; None when there is no
    table, and False when it was not so in time."""
    with of_view(settings, view) as url:
        if url is None:
            return None
        follower, stop = ViewFollower(url, view, connection), threading.Event()
        thread = threading.Thread(target=_run, args=(follower, stop), name="headrace-switch", daemon=True)
        thread.start()
        until = time.monotonic() + SWITCH_S
        while not (done := holds(url, view) == view.topic) and thread.is_alive() and time.monotonic() < until:
            time.sleep(LOOK_S)
        stop.set()
        thread.join()
        if follower.status.error is not None:
            raise follower.status.error
        return done


def _run(follower: ViewFollower, stop: threading.Event) -> None:
    with suppress(FollowError):  # its status tells
        follower.run(stop)


def drop(settings: Settings, view: View) -> None:
    """Take away the table of a version that has not the name of the view."""
    if view.kind != "view" or not view.schema:
        return
    with of_view(settings, view) as url:
        if url is None:
            return
        table = PostgresTable(url, view, beside=True)
        try:
            table.drop()
        except StoreAway as away:
            terminal.note(f'the table "{view.app}"."{view.view}.{view.version}" stays: {away.reason}')
        finally:
            table.close()
