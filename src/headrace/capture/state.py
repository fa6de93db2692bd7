"""What capture remembers, in a compacted topic of the log, written in the same transactions as the changes.

Two kinds of record: the place up to which the write-ahead log has been written (`position`, one in every transaction),
and how each table is (`table <name>`, when that changes). Both are read when a capture begins. A consumer group's
offsets would hold the place as well, but the broker forgets them after a week without a commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace import names
from headrace.errors import CaptureError
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.topic import Topic

POSITION = b"position"
_TABLE = "table "


@dataclass(frozen=True)
class Position:
    """`lsn` is None while the slot is being made. `system` is the server's own number, `slot` the slot's name."""

    system: str
    slot: str
    lsn: int | None

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()


@dataclass(frozen=True)
class TableState:
    """How far a table is.

    `columns` are name, type and modifier of each column of the last row that was written. While the table is being read
    (`reading`) `after` is the key after which to go on, and `attached` are the partitions that are yet to be read, if
    it is not the whole table. `sweep` says that the topic may hold rows that are gone, and `stale` below which offsets,
    as soon as that is known, until they were looked for. `partitions` are those that the table had when it was looked
    at last (table.py); None is unknown. A table that is `paused` says why.
    """

    number: int
    columns: tuple[tuple[str, int, int], ...] = ()
    reading: bool = True
    after: tuple[str, ...] | None = None
    stale: Mapping[str, int] | None = None
    sweep: bool = False
    partitions: tuple[tuple[int, int], ...] | None = None
    attached: tuple[int, ...] = ()
    paused: str | None = None

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    def with_(self, **changed: Any) -> TableState:
        return replace(self, **changed)


@dataclass(frozen=True)
class State:
    """Everything that is remembered of an app's capture."""

    position: Position | None
    tables: dict[str, TableState]


def topic(app: str) -> Topic:
    """Where it is kept; small segments, so that compaction keeps it short."""
    settings = {"segment.bytes": str(1024 * 1024), "segment.ms": "600000", "min.cleanable.dirty.ratio": "0.01"}
    return Topic(names.capture(app), compacted=True, config=settings)


def key_of(table: str) -> bytes:
    """The key of a table's record."""
    return f"{_TABLE}{table}".encode()


def recall(connection: Connection, app: str) -> State:
    """What was remembered last."""
    found: dict[str, bytes] = {}
    for record in read(connection, names.capture(app)):
        key = (record.key or b"").decode("utf-8", "replace")
        if record.value is None:
            found.pop(key, None)
        else:
            found[key] = record.value
    try:
        position = found.pop(POSITION.decode(), None)
        return State(
            None if position is None else Position(**json.loads(position)),
            {key.removeprefix(_TABLE): _table(raw) for key, raw in found.items()},
        )
    except (ValueError, TypeError, KeyError) as error:
        raise CaptureError(
            "HR-621",
            f"The topic `{names.capture(app)}` holds a record that capture did not write.",
            found=str(error),
            fix=f"delete the topic (`headrace topic` shows it) and begin anew with `headrace slot drop"
            f" {names.slot(app)}`: every table is then read again",
        ) from None


def _table(raw: bytes) -> TableState:
    told = json.loads(raw)
    told["columns"] = tuple((name, kind, modifier) for name, kind, modifier in told["columns"])
    told["after"] = None if told["after"] is None else tuple(told["after"])
    known = told.get("partitions")
    told["partitions"] = None if known is None else tuple((number, since) for number, since in known)
    told["attached"] = tuple(told.get("attached", ()))
    return TableState(**told)
