"""The graph and its plan, to be read: text for people, JSON for programs, Mermaid for pages.

The same declarations always give the same description. Places are relative to the current directory.
"""

from __future__ import annotations

from typing import Any

from headrace import duration
from headrace.graph.follow import Follow
from headrace.graph.graph import Graph, inputs_of
from headrace.graph.node import Derived, Node, Source
from headrace.graph.plan import is_topic, plan


def text(graph: Graph) -> str:
    """What is declared, where, what becomes a topic, and which query writes it."""
    rows = [(node.name, _kind(node), _fate(graph, node), str(node.where)) for node in graph.nodes]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [f"app {graph.app}"]
    for title, nodes in (("inputs", graph.sources), ("functions", graph.derived)):
        if nodes:
            lines += ["", title]
        for node in nodes:
            row = rows[graph.nodes.index(node)]
            cells = [row[column].ljust(widths[column]) for column in range(3)]
            details = [*_details(node), *(_followed(follow) for follow in graph.followers(node.name))]
            lines += [f"  {'  '.join(cells)}  {row[3]}", *(f"      {detail}" for detail in details)]
    queries = plan(graph)
    if queries:
        lines += ["", "queries"]
    for query in queries:
        steps = [", ".join(query.reads), *(node.name for node in query.fused), f"topic {query.node.topic}"]
        lines.append(f"  {query.name}: {' → '.join(steps)}")
    return "\n".join(lines) + "\n"


def as_json(graph: Graph) -> dict[str, Any]:
    """The same, of plain values."""
    return {
        "app": graph.app,
        "nodes": [_as_json(graph, node) for node in graph.nodes],
        "edges": [{"from": name, "to": node.name} for node in graph.nodes for name in inputs_of(node)],
        "queries": [
            {
                "name": query.name,
                "topic": query.node.topic,
                "reads": list(query.reads),
                "fused": [node.name for node in query.fused],
            }
            for query in plan(graph)
        ],
        "follows": [
            {"of": follow.of, "name": follow.to.name, "webhook": follow.to.url, "where": str(follow.where)}
            for follow in graph.follows
        ],
    }


def mermaid(graph: Graph) -> str:
    """A flow chart: one box a query, with the functions fused into it."""
    lines = ["flowchart LR"]
    for node in graph.sources:
        opening, closing = ("[(", ")]") if node.kind == "table" else ("[/", "/]")
        lines.append(f'  n_{node.name}{opening}"{node.name}"{closing}')
    for query in plan(graph):
        lines.append(f'  subgraph q_{query.name}["query {query.name}"]')
        lines += [f'    n_{node.name}("{node.name}")' for node in query.fused]
        opening, closing = ("[[", "]]") if query.node.kind == "view" else ("[", "]")
        lines += [f'    n_{query.name}{opening}"{query.name}"{closing}', "  end"]
    lines += [f'  f_{number}>"{follow.to.name}"]' for number, follow in enumerate(graph.follows)]
    lines += [f"  n_{name} --> n_{node.name}" for node in graph.nodes for name in inputs_of(node)]
    lines += [f"  n_{follow.of} --> f_{number}" for number, follow in enumerate(graph.follows)]
    return "\n".join(lines) + "\n"


def _as_json(graph: Graph, node: Node) -> dict[str, Any]:
    common = {
        "name": node.name,
        "kind": node.kind,
        "topic": node.topic,
        "partitions": node.partitions,
        "retention_ms": node.retention_ms,
        "key": list(node.key),
        "where": str(node.where),
    }
    if isinstance(node, Derived):
        fused = None if is_topic(graph, node) else graph.readers(node.name)[0].name
        return {**common, "declared": "function", "inputs": list(node.inputs), "fused_into": fused}
    return {
        **common,
        "declared": "input",
        "schema": node.schema.ddl if node.schema else None,
        "event_time": node.event_time,
        "sent": node.sent,
        "received": node.received,
        "delay_ms": node.delay_ms,
        "delay_share": node.delay_share,
        "delay_least_ms": node.delay_least_ms,
        "idle_ms": node.idle_ms,
        "future_ms": node.future_ms,
        "id": node.id,
        "captured_from": str(node.connector) if node.connector else None,
    }


def _kind(node: Node) -> str:
    return f"{node.kind} of {', '.join(node.inputs)}" if isinstance(node, Derived) else node.kind


def _fate(graph: Graph, node: Node) -> str:
    if isinstance(node, Derived) and not is_topic(graph, node):
        return f"fused into {graph.readers(node.name)[0].name}"
    kept = "" if node.retention_ms is None else f", kept {duration.describe(node.retention_ms)}"
    return f"topic {node.topic} ({node.partitions} partition{'' if node.partitions == 1 else 's'}{kept})"


def _followed(follow: Follow) -> str:
    signed = f", signed with {follow.to.secret_env}" if follow.to.secret_env else ""
    return f"followed by {follow.to.name} {follow.to.url}{signed}"


def _details(node: Node) -> list[str]:
    details = []
    if isinstance(node, Source):
        if node.connector:
            details.append(f"captured from {node.connector}")
        if node.schema:
            details.append(node.schema.ddl)
        if node.event_time:
            bounds = {"delay": node.delay_ms, "idle": node.idle_ms, "future": node.future_ms}
            described = [f"{option} {duration.describe(bound)}" for option, bound in bounds.items()]
            if node.delay_share:
                least, most = duration.describe(node.delay_least_ms), duration.describe(node.delay_ms)
                described[0] = f"delay {least} to {most} for a share of {node.delay_share:g}"
            details.append(", ".join([f"event time {node.event_time}", *described]))
            if node.sent:
                received = node.received or "the record's time in Kafka"
                details.append(f"clock of the device corrected by {received} - {node.sent}")
        if node.id:
            details.append(f"id {node.id}")
    if node.key:
        details.append(f"key {', '.join(node.key)}")
    return details
