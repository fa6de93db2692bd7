"""Repeats and disorder in what a query writes, by the last records of its topic, and where they come from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from headrace import names
from headrace.doctor.finding import Finding, Weight
from headrace.graph.graph import Graph
from headrace.graph.node import Source
from headrace.graph.plan import Query
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read

LAST_RECORDS = 20_000
_MANY = 0.01
_WINDOW_END = "window_end"


def examine(graph: Graph, query: Query, connection: Connection) -> Iterator[Finding]:
    """The last records of a query's topic; a view's are changes of its rows, and may be equal."""
    if query.node.kind == "view" or query.node.topic not in topics.names(connection):
        return
    places = topics.describe_partitions(connection, query.node.topic)
    share = max(1, LAST_RECORDS // len(places))
    start = {place.partition: max(place.first, place.next - share) for place in places}
    records = list(read(connection, query.node.topic, start=start))
    yield from _repeats(query, records)
    yield from _disorder(query, records, _times(graph))


def _repeats(query: Query, records: Sequence[Record]) -> Iterator[Finding]:
    ids: Counter[str] = Counter()
    rows: Counter[tuple[bytes | None, bytes | None]] = Counter()
    for record in records:
        if (known := record.header(names.HEADER_ID)) is not None:
            ids[known] += 1
        else:
            rows[record.key, record.value] += 1
    repeated = {known: times for known, times in ids.items() if times > 1}
    if repeated:
        example = next(iter(repeated))
        yield Finding(
            Weight.NOTE,
            query.name,
            "live mode has written results again after it was stopped or killed",
            f"{len(repeated):,} of the last {ids.total():,} ids stand there more than once, such as {example}",
            "read with `hr.read`, which leaves repeats out; or make it a view; or run it with --mode exact",
        )
    same = {row: times for row, times in rows.items() if times > 1}
    if same:
        yield Finding(
            Weight.NOTE,
            query.name,
            "equal rows stand in the output",
            f"{len(same):,} of the last {rows.total():,} rows are there more than once",
            "when the inputs have repeats, `hr.dedupe` by their id leaves them out; when a live run has written results"
            " that have no ids again, run it with --mode exact; and equal rows may be right",
        )


def _times(graph: Graph) -> list[str]:
    """The columns that may hold the event time of a result: a window's end, or the event time of an input."""
    inputs = [graph.node(name) for name in graph.names]
    return [_WINDOW_END, *(node.event_time for node in inputs if isinstance(node, Source) and node.event_time)]


def _disorder(query: Query, records: Sequence[Record], columns: Sequence[str]) -> Iterator[Finding]:
    """Rows that are older than one that stands before them: of the same key, or without keys in the same partition."""
    newest: dict[tuple[int, bytes | None], datetime] = {}
    timed = older = 0
    furthest, example = timedelta(0), ""
    for record in records:
        at = _time(record, columns)
        if at is None:
            continue
        timed += 1
        of = (record.partition, record.key)
        behind = newest.get(of, at) - at
        older += behind > timedelta(0)
        if behind > furthest:
            furthest, example = behind, str(record.position)
        newest[of] = max(at, newest.get(of, at))
    if older > timed * _MANY:
        keyless = any(record.key is None for record in records)
        remedy = "events that come late are written when they come: `headrace lateness` shows how late; readers go by"
        remedy += " event time, or read a window with emit='final', whose results come when it is over"
        if keyless:
            remedy += "; with key=… the rows of one entity are in one partition, in the order in which they were made"
        yield Finding(
            Weight.NOTE,
            query.name,
            "results are out of order",
            f"{older:,} of the last {timed:,} rows are older than one before them, by up to {furthest}, at {example}",
            remedy,
        )


def _time(record: Record, columns: Sequence[str]) -> datetime | None:
    try:
        row = json.loads(record.value or b"{}")
        found = next((row[name] for name in columns if name in row), None)
        return datetime.fromisoformat(found) if isinstance(found, str) else None
    except (ValueError, TypeError):
        return None
