"""Repeats in what a query writes, by the last records of its topic, and where they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace import names
from headrace.doctor.finding import Finding, Weight
from headrace.graph.plan import Query
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import read

LAST_RECORDS = 20_000


def examine(query: Query, connection: Connection) -> Iterator[Finding]:
    """The last records of a query's topic; a view's are changes of its rows, and may be equal."""
    if query.node.kind == "view" or query.node.topic not in topics.names(connection):
        return
    places = topics.describe_partitions(connection, query.node.topic)
    share = max(1, LAST_RECORDS // len(places))
    start = {place.partition: max(place.first, place.next - share) for place in places}
    ids: Counter[str] = Counter()
    rows: Counter[tuple[bytes | None, bytes | None]] = Counter()
    for record in read(connection, query.node.topic, start=start):
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
