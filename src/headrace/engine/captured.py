"""What an app captures from PostgreSQL, and the columns of tables that leave them to the database.

A query that begins takes the columns that the table has then. Its state holds rows of them, so it keeps them: a column
that is added later is reported and left out, until the query is built again (`headrace replay`). Where a column is gone
or has another type, the columns of today are taken, and the checkpoint says what does not fit.

The database is asked when a run starts, and only for such tables. A query that has begun starts without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace import names
from headrace.capture import columns
from headrace.capture.database import Away
from headrace.capture.table import Captured
from headrace.engine import checkpoint, facts
from headrace.engine.mode import Mode
from headrace.errors import CaptureError, RunError
from headrace.graph.connector import Outbox, Postgres
from headrace.graph.graph import Graph
from headrace.graph.node import Derived, Source
from headrace.graph.plan import Query
from headrace.log.schema import Schema
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.settings import Settings

Columns = Mapping[str, Schema]
"""The columns of each table that leaves them to the database, by its name."""


def captured(graph: Graph) -> tuple[Captured, ...]:
    """The tables and outboxes that an app captures."""
    tables = [_table(node, node.connector) for node in graph.sources if isinstance(node.connector, Postgres)]
    streams: dict[str, dict[str, str]] = {}
    for node in graph.sources:
        if isinstance(node.connector, Outbox):
            streams.setdefault(node.connector.table, {})[node.name] = node.topic
    for table, of in streams.items():
        first = graph.node(next(iter(of)))
        topic = names.captured_topic(graph.app, table)
        tables.append(Captured(table, table, topic, (), first.partitions, streams=of, where=first.where))
    return tuple(tables)


def asks(graph: Graph) -> bool:
    """Whether a function reads a table that leaves its columns to the database."""
    return any(node.schema is None and graph.readers(node.name) for node in graph.sources)


def known(
    graph: Graph, queries: Sequence[Query], mode: Mode, settings: Settings, report: Callable[[str], None]
) -> dict[str, Columns]:
    """For each query, the columns of the tables that leave them to the database; RunError, or CaptureError."""
    asked: dict[str, Schema | str] = {}
    found: dict[str, Columns] = {}
    for query in queries:
        tables = [node for node in _sources(graph, query, mode) if node.schema is None]
        asked |= {node.name: _asked(node, settings) for node in tables if node.name not in asked}
        # A batch has no state, so it takes what the database has.
        kept = facts.columns(checkpoint.location(settings, graph.app, query.name)) if mode is not Mode.BATCH else {}
        found[query.name] = {
            node.name: _chosen(query, node, kept.get(node.name), asked[node.name], report) for node in tables
        }
    return found


def _sources(graph: Graph, query: Query, mode: Mode) -> list[Source]:
    """What a query reads itself; in a batch it is computed from what is declared, however far up that is."""
    ways = [graph.node(name) for name in query.reads]
    if mode is Mode.BATCH:
        for node in ways:
            ways += [graph.node(name) for name in node.inputs] if isinstance(node, Derived) else []
    return list({node.name: node for node in ways if isinstance(node, Source)}.values())


def _table(node: Source, connector: Postgres) -> Captured:
    declared = node.schema.fields if node.schema else ()
    return Captured(node.name, connector.table, node.topic, node.key, node.partitions, declared, where=node.where)


def _asked(node: Source, settings: Settings) -> Schema | str:
    """What the database says, or why it does not."""
    url = settings.source or settings.postgres
    if not isinstance(node.connector, Postgres) or url is None:
        return "no database is named: neither `source` nor `postgres` is set"
    try:
        there = columns.ask(url, _table(node, node.connector))
    except Away as away:
        return str(away)
    except CaptureError as error:
        if error.code not in ("HR-604", "HR-620", "HR-623"):
            raise
        return error.what
    _check(node, there)
    return there


def _check(node: Source, there: Schema) -> None:
    lower = [name.lower() for name in there.names]
    for problem, found in (
        ("that differ only in upper and lower case", [name for name in there.names if lower.count(name.lower()) > 1]),
        (
            "whose names Headrace needs itself",
            [name for name in there.names if name.lower() == CHANGE or name.lower().startswith(COLUMN_PREFIX)],
        ),
    ):
        if found:
            raise RunError(
                "HR-304",
                f"The table `{node.name}` has columns {problem}: {', '.join(found)}.",
                where=node.where,
                found=there.ddl,
                fix="declare the columns that are read, without those: `schema=…`",
            )


def _chosen(
    query: Query, node: Source, kept: Schema | None, asked: Schema | str, report: Callable[[str], None]
) -> Schema:
    if isinstance(asked, str):
        if kept is None:
            raise RunError(
                "HR-304",
                f"`{query.name}` reads the table `{node.name}`, whose columns are not declared, and the database does"
                " not tell them.",
                where=node.where,
                found=asked,
                fix="set HEADRACE_SOURCE to the address of the database that has it; or declare the columns that are"
                ' read, such as schema="card string, owner string"',
            )
        report(f"{node.name}: {asked}; `{query.name}` goes on with the columns that it has")
        return kept
    if kept is None or any(asked.field(field.name) != field for field in kept.fields):
        return asked
    if more := [name for name in asked.names if name not in kept.names]:
        report(
            f"{node.name} has the column {', '.join(more)} now, which `{query.name}` leaves out until it is replayed"
        )
    return kept
