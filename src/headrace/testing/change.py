"""The records that change a table under test.

    driver.push("cards", [{"card": "c1", "owner": "ann"}, Delete({"card": "c1"})])

A row is put under its key, `Delete` takes the row of a key away; in the form of the table's topic: plain, or Debezium's
envelope where the table is captured. `Put`, and `Delete` with `at`, say when the database committed the change, which
an envelope carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.graph.node import Node, Source
from headrace.log import codec


@dataclass(frozen=True)
class Delete:
    """The row of this key is deleted."""

    key: Mapping[str, Any]
    at: datetime | None = None


@dataclass(frozen=True)
class Put:
    """This row is put under its key."""

    row: Mapping[str, Any]
    at: datetime | None = None


Event = Mapping[str, Any] | bytes | Delete | Put


def record(node: Node, event: Event) -> tuple[bytes | None, bytes | None]:
    """The key and the value of the record of an event; that of a stream goes by its id, where it has one. Bytes are a
    value as it is."""
    if isinstance(node, Source) and node.kind == "table":
        return row(node, event)
    if isinstance(event, bytes):
        return None, event
    if isinstance(event, Mapping):
        identity = node.id if isinstance(node, Source) else None
        return str(event.get(identity)).encode() if identity else None, codec.encode(event)
    raise ValueError(f"`{node.name}` is a stream, and nothing is deleted from it")


def row(table: Source, event: Event) -> tuple[bytes, bytes | None]:
    """The same of a table; bytes are under a key of their own."""
    if isinstance(event, bytes):
        return b"bytes", event
    captured = table.connector is not None
    at = event.at if isinstance(event, Delete | Put) else None
    if at is not None and not captured:
        raise ValueError(f"`{table.name}` is not captured, so its records do not say when a row changed")
    if isinstance(event, Put):
        event = event.row
    given = event.key if isinstance(event, Delete) else event
    source = {} if at is None else {"source": {"ts_ms": round(at.timestamp() * 1000)}}
    key = {name: given[name] for name in table.key}
    (only, *more) = key.values()
    plain = isinstance(only, str) and not more and not captured
    name = only.encode() if plain else codec.encode(key)
    if isinstance(event, Delete):
        return name, codec.encode({"op": "d", "before": key, "after": None, **source}) if captured else None
    envelope = {"op": "u", "before": None, "after": event, **source}
    return name, codec.encode(envelope if captured else event)
