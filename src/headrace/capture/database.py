"""Connections to the source database, and what its errors mean.

Every session writes values in the same text form (`OPTIONS`), so that a row read by a snapshot and the same row in the
stream are the same bytes. A server that is away is `Away`: whoever is capturing waits and begins again. One that does
not let us in is HR-623. No error shows a password.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq.abc import PGconn

from headrace import refusal
from headrace.errors import CaptureError
from headrace.refusal import Refused

OPTIONS = {
    "datestyle": "ISO",
    "timezone": "UTC",
    "bytea_output": "hex",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "1",
    "synchronous_commit": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
CONNECT_S = 10

# Connection trouble, a server that shuts down or starts up, and one that has no connection left.
_AWAY = ("08", "57P0", "53300")
Opened = TypeVar("Opened")


class Away(Exception):  # noqa: N818 - it is the server that is away
    """The database or the log does not answer, or has ended the connection; it may come back."""


def connect(url: str, purpose: str) -> psycopg.Connection[tuple[Any, ...]]:
    """An ordinary connection without a transaction of its own."""
    given = conninfo(url, application_name=f"headrace {purpose}")
    return _admitted(url, given, lambda: psycopg.connect(given, autocommit=True))


def connect_for_replication(url: str) -> PGconn:
    """A connection that can read a slot, as libpq has it."""
    given = conninfo(url, application_name="headrace capture", replication="database", client_encoding="UTF8")
    return _admitted(url, given, lambda: _opened(given))


def conninfo(url: str, **given: str) -> str:
    """The address with this session's options; options that it has already are kept."""
    try:
        there = conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # whose text may hold the password
        raise Away("the address of the database cannot be read") from None
    options = " ".join([str(there.get("options") or ""), *(f"-c {name}={value}" for name, value in OPTIONS.items())])
    return make_conninfo(url, options=options.strip(), connect_timeout=str(CONNECT_S), **given)


def _opened(given: str) -> PGconn:
    connection = pq.PGconn.connect(given.encode())
    if connection.status != pq.ConnStatus.OK:
        text = connection.get_error_message().strip()
        connection.finish()
        raise psycopg.OperationalError(text)
    return connection


def _admitted(url: str, given: str, connect: Callable[[], Opened]) -> Opened:
    try:
        return refusal.admitted(given, connect)
    except Refused as refused:
        raise CaptureError(
            "HR-623",
            f"PostgreSQL does not let the capture in: {_without_password(str(refused), url)}",
            found=refusal.place(url),
            fix="correct the user, the password or the database in `source` (HEADRACE_SOURCE), or let the server take"
            " the connection (pg_hba.conf)",
        ) from None
    except psycopg.OperationalError as error:
        raise Away(f"PostgreSQL is away (connecting): {_without_password(text_of(error), url)}") from None


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn what psycopg raises inside into Away, or into a CaptureError that says what was being done."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise CaptureError(
            "HR-603",
            f"The role may not do this ({doing}): {text_of(error)}",
            found=text_of(error),
            fix="grant what is named, or let somebody who may do it run the SQL that `headrace explain HR-603` shows",
        ) from None
    except psycopg.Error as error:
        raise meaning(error, doing) from None


def meaning(error: psycopg.Error, doing: str) -> Exception:
    """What an error of psycopg is to us."""
    if error.sqlstate is None or error.sqlstate.startswith(_AWAY):
        return Away(f"PostgreSQL is away ({doing}): {text_of(error)}")
    return CaptureError(
        "HR-620",
        f"PostgreSQL refuses a statement ({doing}): {text_of(error)}",
        found=f"SQLSTATE {error.sqlstate}",
        fix="correct what it names, and start the capture again: it goes on where it was",
    )


def text_of(error: psycopg.Error) -> str:
    """The first line of what the server or the client said."""
    said = error.diag.message_primary or str(error)
    return said.strip().splitlines()[0] if said.strip() else type(error).__name__


def _without_password(text: str, url: str) -> str:
    password = conninfo_to_dict(url).get("password")
    return text.replace(str(password), "…") if password else text
