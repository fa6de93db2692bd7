"""The messages of PostgreSQL's logical replication (`pgoutput`, protocol version 1), without the rows.

Rows are the hot path: `relation` decodes them in place. Everything here happens once a transaction or less. Offsets are
those of a whole `XLogData` message, whose 25 bytes of header stand before the payload.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

HEADER = 25
"""`w`, the place of the change, the end of the log, the server's clock."""

INSERT, UPDATE, DELETE, BEGIN, COMMIT = b"IUDBC"
RELATION, TYPE, ORIGIN, TRUNCATE, MESSAGE = b"RYOTM"
OLD, KEY, NEW = b"OKN"
NULL, UNCHANGED, TEXT = b"nut"

EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts microseconds since 2000."""

_BEGIN = struct.Struct(">QqI").unpack_from
_COMMIT = struct.Struct(">BQQq").unpack_from
_PLACE = struct.Struct(">Q").unpack_from
_TRUNCATE = struct.Struct(">IB").unpack_from
_RELATION = struct.Struct(">I").unpack_from
_SHORT = struct.Struct(">H").unpack_from
_COLUMN = struct.Struct(">Ii").unpack_from


@dataclass(frozen=True)
class Begin:
    """`commit` is the place of the transaction's commit record; `at_us` is in microseconds since 1970."""

    commit: int
    at_us: int
    xid: int


@dataclass(frozen=True)
class Commit:
    """`end` is the place after the commit record: where to go on."""

    commit: int
    end: int


@dataclass(frozen=True)
class Column:
    """A column as the stream announces it: the number of its type, and the type's modifier."""

    name: str
    type: int
    modifier: int
    in_identity: bool


@dataclass(frozen=True)
class Announced:
    """A table as the stream announces it, before its first change and after each change of its columns."""

    number: int
    schema: str
    table: str
    identity: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Message:
    """A message that an application has put into the log."""

    prefix: str
    content: bytes


def begin(data: bytes) -> Begin:
    commit, at, xid = _BEGIN(data, HEADER + 1)
    return Begin(commit, at + EPOCH_US, xid)


def commit(data: bytes) -> Commit:
    _, at, end, _ = _COMMIT(data, HEADER + 1)
    return Commit(at, end)


def origin(data: bytes) -> tuple[str, int]:
    """The name of the server that a transaction was replicated from, and the place of its commit there."""
    (at,) = _PLACE(data, HEADER + 1)
    return _string(data, HEADER + 9)[0], at


def truncated(data: bytes) -> list[int]:
    """The numbers of the tables that were truncated."""
    count, _ = _TRUNCATE(data, HEADER + 1)
    return list(struct.unpack_from(f">{count}I", data, HEADER + 6))


def message(data: bytes) -> Message:
    at = HEADER + 1 + 9
    prefix, at = _string(data, at)
    return Message(prefix, data[at + 4 :])


def announced(data: bytes) -> Announced:
    (number,) = _RELATION(data, HEADER + 1)
    schema, at = _string(data, HEADER + 5)
    table, at = _string(data, at)
    identity = chr(data[at])
    (count,) = _SHORT(data, at + 1)
    at += 3
    columns: list[Column] = []
    for _ in range(count):
        flags = data[at]
        name, at = _string(data, at + 1)
        kind, modifier = _COLUMN(data, at)
        at += 8
        columns.append(Column(name, kind, modifier, bool(flags & 1)))
    return Announced(number, schema or "pg_catalog", table, identity, tuple(columns))


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1
