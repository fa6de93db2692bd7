"""What a run writes, as the catalogue names it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructType

from headrace.graph.graph import Graph
from headrace.graph.plan import Query, plan
from headrace.log.catalogue import View
from headrace.names import CHANGE
from headrace.operators.sign import is_signed


def columns(schema: StructType) -> StructType:
    """The columns of a view's rows in the log: `change`, which says what becomes of a row, is not one."""
    return StructType(
        [field for field in schema.fields if field.name != CHANGE] if is_signed(schema) else schema.fields
    )


def described(graph: Graph, query: Query, schema: StructType) -> View:
    """The view, or the stream, that a query writes."""
    return View(
        app=graph.app,
        view=query.node.name,
        topic=query.node.topic,
        schema=columns(schema).toDDL(),
        key=query.node.key,
        kind=query.node.kind,
        version=query.node.version,
        path=tuple(
            (step.name, step.node.topic, tuple(graph.node(name).topic for name in step.reads))
            for step in _leading_to(query, plan(graph))
        ),
    )


def _leading_to(query: Query, queries: Sequence[Query]) -> list[Query]:
    """The queries whose results reach this one, in the order of the plan, itself the last."""
    found = [query]
    for step in reversed(queries):
        if any(step.node.name in reader.reads for reader in found):
            found.append(step)
    return found[::-1]
