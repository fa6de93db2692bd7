"""The topics that a plan reads and writes, as the log must have them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace import names
from headrace.capture.writer import ROOM
from headrace.graph.connector import Debezium, Postgres
from headrace.graph.graph import Graph
from headrace.graph.node import Node, Source
from headrace.graph.plan import Query
from headrace.log import dead
from headrace.log.topic import HISTORY, LAST_DAY, Topic


def of_node(graph: Graph, node: Node) -> Topic:
    """The topic of a declared node: a table or view is compacted after a while, and later where a function may ask for
    its history; a captured table has the topic that capture makes."""
    compacted = node.kind in ("table", "view")
    told_again = node.kind == "table" or bool(graph.readers(node.name))
    config = (HISTORY if told_again else LAST_DAY) if compacted else {}
    if isinstance(node, Source) and isinstance(node.connector, Postgres):
        config = config | ROOM
    return Topic(node.topic, node.partitions, node.retention_ms, compacted=compacted, config=config)


def written(graph: Graph, query: Query) -> list[str]:
    """The topics that a query writes: its result, its late rows, and the dead letters of what it reads."""
    dead_letters = (names.dead_topic(graph.node(name).topic) for name in query.reads)
    return [query.node.topic, names.late_topic(query.node.topic), *dead_letters]


def needed(graph: Graph, queries: Iterable[Query]) -> list[Topic]:
    """Everything that the queries read and write, dead letters and late rows included, each once."""
    found: dict[str, Topic] = {}
    for query in queries:
        for name in query.reads:
            node = graph.node(name)
            written_elsewhere = isinstance(node, Source) and isinstance(node.connector, Debezium)
            for topic in (*(() if written_elsewhere else (of_node(graph, node),)), dead.declaration(node.topic)):
                found[topic.name] = topic
        late = Topic(names.late_topic(query.node.topic), retention_ms=dead.RETENTION_MS)
        for topic in (of_node(graph, query.node), late):
            found[topic.name] = topic
    return list(found.values())
