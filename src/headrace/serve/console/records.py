"""The records of a stream or view as a live table: columns as declared or as seen, secret fields masked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from nicegui import ui

from headrace.graph.node import Node, Source
from headrace.log.consumer import Record
from headrace.serve.console.backend import Backend
from headrace.serve.console.live_table import Column, LiveTable
from headrace.serve.console.secret import masked

SHOWN = 200
MOST_COLUMNS = 40
_PLACE = (Column("time", dim=True, width="124px"), Column("place", dim=True, width="96px", title="partition@offset"))
_RAW = "(not JSON)"
_TIME = "minmax(212px, 1fr)"
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def records_table(backend: Backend, node: Node, *, height: int = 420) -> None:
    """The newest records of a node's topic, as they come."""
    declared = node.schema.fields if isinstance(node, Source) and node.schema else ()
    names = [field.name for field in declared]
    numbers = {field.name for field in declared if field.type.partition("(")[0] in _NUMBERS}
    times = {field.name for field in declared if field.type.startswith("timestamp")}
    table = LiveTable(_columns(names, numbers, times, ()), noun="records", most=SHOWN, keyed=False, height=height)
    client = ui.context.client

    async def follow() -> None:
        await client.connected()

        def show(records: Sequence[Record], *, mark: bool = True) -> None:
            parsed = [(record, _fields(record.value)) for record in records]
            fresh = [name for _, fields in parsed for name in fields if name not in names]
            if fresh and len(names) < MOST_COLUMNS:
                names.extend(list(dict.fromkeys(fresh))[: MOST_COLUMNS - len(names)])
                table.set_columns(_columns(names, numbers, times, [fields for _, fields in parsed]))
                parsed = [(record, _fields(record.value)) for record in (*tail.kept, *records)][-SHOWN:]
            secret = backend.secrets(node.name)
            table.put(
                [
                    (str(record.position), [*_place(record), *_values(names, fields, secret)])
                    for record, fields in parsed
                ],
                mark=mark,
            )

        with backend.tails.listening(node.topic, show) as tail:
            if tail.kept:
                show(tuple(tail.kept), mark=False)
            await client.disconnected()

    ui.timer(0, follow, once=True)


def _columns(names: Sequence[str], numbers: set[str], wide: set[str], seen: Sequence[dict[str, Any]]) -> list[Column]:
    def is_number(name: str) -> bool:
        if name in numbers:
            return True
        found = [row[name] for row in seen if row.get(name) is not None]
        return bool(found) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in found)

    def width(name: str) -> str | None:
        times = [row[name] for row in seen if isinstance(row.get(name), str)]
        return _TIME if name in wide or (times and all(_ISO.match(one) for one in times)) else None

    return [*_PLACE, *(Column(name, number=is_number(name), width=width(name)) for name in names)]


def _place(record: Record) -> list[str]:
    return [
        f"{datetime.fromtimestamp(record.timestamp_ms / 1000):%H:%M:%S.%f}"[:-3],
        f"{record.partition}@{record.offset}",
    ]


def _fields(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {_RAW: value.decode("utf-8", "backslashreplace")[:2000]}


def _values(names: Sequence[str], fields: dict[str, Any], secret: frozenset[str]) -> list[Any]:
    return [masked(name, fields.get(name), secret) for name in names]
