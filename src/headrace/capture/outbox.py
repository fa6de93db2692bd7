"""A row of an outbox as the event that it holds.

An outbox is a table that an application writes an event to in the same transaction as its other rows, so that the event
is there if and only if the transaction was committed. Its columns are those of Debezium's outbox:

    id             names the event; becomes the header `id`
    aggregatetype  names the stream: the declared one of this name gets the event
    aggregateid    what the event is about; becomes the key, so that the events of one aggregate stay in order
    type           what happened; becomes the header `type`
    payload        the event; becomes the value, as it is (`bytea` as its bytes)

Only inserts are events: a row may be deleted at once, even in the same transaction. A row that names no declared
stream, and one that was updated, goes to the dead letters of the outbox with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace import names
from headrace.capture.relation import Relation
from headrace.capture.table import Captured, Found
from headrace.errors import CaptureError

COLUMNS = ("id", "aggregatetype", "aggregateid", "type", "payload")
_COUNTING = {20, 21, 23}
_BYTEA = "binary"


@dataclass(frozen=True)
class Event:
    """A record to be written."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    dead: bool = False


def check(captured: Captured, found: Found) -> None:
    """CaptureError HR-617 when the table cannot be an outbox."""
    missing = [name for name in COLUMNS if name not in found.names]
    if missing:
        raise CaptureError(
            "HR-617",
            f"`{captured.table}` is no outbox: it has no column `{missing[0]}`.",
            where=captured.where,
            found=f"columns {', '.join(found.names)}",
            fix=f"`CREATE TABLE {captured.quoted} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text"
            " NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb);`",
        )


def counting_column(found: Found, key: Sequence[str]) -> str | None:
    """The key, when it counts up."""
    column = next((column for column in found.columns if [column.name] == list(key)), None)
    return column.name if column and column.type in _COUNTING else None


def event(captured: Captured, relation: Relation, fields: Sequence[bytes | None], *, updated: bool = False) -> Event:
    """The event in a row; a dead letter when it cannot be delivered."""
    told = {name: fields[relation.place(name)] for name in COLUMNS}
    payload = told["payload"]
    if payload is not None and relation.kinds[relation.place("payload")].form == _BYTEA:
        payload = bytes.fromhex(payload[2:].decode())
    headers = [(name, text) for name in ("id", "type") if (text := told[name]) is not None]
    aggregate = (told["aggregatetype"] or b"").decode()
    topic = captured.streams.get(aggregate)
    if topic is None or updated:
        reason = "the row was updated after it was written" if updated else f"no stream is declared for `{aggregate}`"
        headers += [(names.HEADER_TOPIC, captured.topic.encode()), (names.HEADER_REASON, reason.encode())]
        return Event(names.dead_topic(captured.topic), told["aggregateid"], payload, headers, dead=True)
    return Event(topic, told["aggregateid"], payload, headers)
