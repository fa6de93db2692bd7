"""Why PostgreSQL does not let us in: it is away, which passes, or it refuses us, which a person must mend.

For a connection that was not made the client knows no SQLSTATE, and the server's words are in its own language. But a
server can be asked whether it takes connections (PQping), for which no password is needed: one that does, and does not
take ours, refuses it. One that has no connection left will have one again, and is as good as away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

Connection = TypeVar("Connection")

_FULL = ("too many", "connection slots")
_SAID = "FATAL:"
_SHOWN = ("user", "host", "hostaddr", "port", "dbname")


class Refused(Exception):  # noqa: N818 - it is us whom the server refuses
    """The server takes connections and not this one; the text is what it says of that."""


def admitted(conninfo: str, connect: Callable[[], Connection]) -> Connection:
    """What `connect` gives. Refused, or the psycopg.OperationalError of a server that is away."""
    for again in (True, False):
        try:
            return connect()
        except psycopg.OperationalError as error:
            if not refuses(conninfo, error):
                raise
            if not again:  # a server that came back after the first time is not asked in between
                raise Refused(said(error)) from None
    raise AssertionError("a second refusal is raised")


def refuses(conninfo: str, error: psycopg.OperationalError) -> bool:
    """Whether a connection that was not made was refused by a server that takes others."""
    if any(word in str(error) for word in _FULL):
        return False
    return pq.PGconn.ping(conninfo.encode()) == pq.Ping.OK


def said(error: psycopg.OperationalError) -> str:
    """The server's last sentence, or the client's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    told = next((line for line in reversed(lines) if _SAID in line), lines[0])
    return told.rpartition(_SAID)[2].rpartition(" failed: ")[2].strip()


def place(conninfo: str) -> str:
    """Who was refused where, without the password."""
    return " ".join(f"{name}={value}" for name, value in conninfo_to_dict(conninfo).items() if name in _SHOWN)
