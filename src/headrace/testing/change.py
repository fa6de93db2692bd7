"""The records that change a table under test.

    driver.push("cards", [{"card": "c1", "owner": "ann"}, Delete({"card": "c1"})])

A row is put under its key, `Delete` takes the row of a key away; in the form of the table's topic: plain, or Debezium's
envelope where the table is captured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.graph.node import Source
from headrace.log import codec


@dataclass(frozen=True)
class Delete:
    """The row of this key is deleted."""

    key: Mapping[str, Any]


Event = Mapping[str, Any] | bytes | Delete


def record(table: Source, event: Event) -> tuple[bytes, bytes | None]:
    """The key and the value of the record; bytes are a value as it is, under a key of its own."""
    if isinstance(event, bytes):
        return b"bytes", event
    captured = table.connector is not None
    given = event.key if isinstance(event, Delete) else event
    key = {name: given[name] for name in table.key}
    (only, *more) = key.values()
    plain = isinstance(only, str) and not more and not captured
    name = only.encode() if plain else codec.encode(key)
    if isinstance(event, Delete):
        return name, codec.encode({"op": "d", "before": key, "after": None}) if captured else None
    return name, codec.encode({"op": "u", "before": None, "after": event}) if captured else codec.encode(event)
