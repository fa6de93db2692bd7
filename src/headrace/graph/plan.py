"""Which declared functions become topics, and the query that writes each.

A function is a topic when it is a view, is read by more than one function, is followed, is pinned (`topic=`,
`partitions=` or `retention=` was given), or is read by nobody; otherwise it is fused into its one reader and runs in
that query. One query writes one topic and has the name of its node, so that its checkpoint keeps its place when others
come and go; a later version of it has the version behind the name, and so a place of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace import names
from headrace.graph.graph import Graph
from headrace.graph.node import Derived


@dataclass(frozen=True)
class Query:
    """`reads` are the nodes read from topics; `fused` are the functions to call, in this order, before `node`."""

    name: str
    node: Derived
    reads: tuple[str, ...]
    fused: tuple[Derived, ...]


def is_topic(graph: Graph, node: Derived) -> bool:
    """Whether the node is written to the log rather than fused into its reader."""
    wanted = node.kind == "view" or node.pinned or bool(graph.followers(node.name))
    return wanted or len(graph.readers(node.name)) != 1


def plan(graph: Graph) -> tuple[Query, ...]:
    """The queries of a valid graph, each after those whose topics it reads."""
    return tuple(
        query_of(graph, node) for node in graph.topological() if isinstance(node, Derived) and is_topic(graph, node)
    )


def stages(queries: Iterable[Query]) -> list[list[Query]]:
    """The queries of a plan in groups: each reads topics of earlier ones only, so those of a group may go together."""
    depths: dict[str, int] = {}
    found: dict[int, list[Query]] = {}
    for query in queries:
        depth = depths[query.node.name] = 1 + max((depths.get(name, -1) for name in query.reads), default=-1)
        found.setdefault(depth, []).append(query)
    return [found[depth] for depth in sorted(found)]


def query_of(graph: Graph, node: Derived) -> Query:
    """The query that computes a function by itself, whether or not the plan has one."""
    reads: dict[str, None] = {}
    fused: list[Derived] = []

    def gather(reader: Derived) -> None:
        for name in reader.inputs:
            read = graph.node(name)
            if isinstance(read, Derived) and not is_topic(graph, read):
                gather(read)
                fused.append(read)
            else:
                reads[name] = None

    gather(node)
    return Query(names.versioned(node.name, node.version), node, tuple(reads), tuple(fused))
