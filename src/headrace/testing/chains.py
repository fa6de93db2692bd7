"""An app with readers behind everything that it has, so that it is tried as a part of chains.

    app = Chained(load(Path("app.py")))

What one query writes and another reads has to be right after a crash of either, and an app need not have such a place.
So each stream, declared or derived, gets a reader that passes it on (`kept`) and a view that counts what was passed on
(`counted`); a view that nobody reads is counted; if no chain is three queries long then, the longest is counted on; and
what the app would fuse into its reader has a topic of its own, as if a second function read it. A row that is lost or
comes twice anywhere makes a count wrong for good.

The counts are of the rows in each of eight parts, by a checksum of the whole row, so that they need no column. Names
that are added begin with `certify_`, or with more of the like where the app has such names itself.

Webhooks are left out: their receivers are somebody's. A stream that an outbox fills is one without an outbox here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.app import App
from headrace.graph.connector import Outbox
from headrace.graph.follow import Follow
from headrace.graph.graph import Graph, inputs_of
from headrace.graph.node import DEFAULT_PARTITIONS, Derived, Node, Source
from headrace.names import CHANGE
from headrace.operators import sign
from headrace.operators.aggregate import count
from headrace.operators.aggregation import aggregate
from headrace.operators.columns import quoted

PREFIX = "certify_"
LONG = 3
PARTS = 8
PART = f"{PREFIX}part"


class Chained(App):
    """The app that it is given, with the readers in `added`; without `chains` there are none."""

    def __init__(self, app: App, *, chains: bool = True) -> None:
        super().__init__(app.name)
        graph = app.graph()
        own = [_own(graph, node, pinned=chains) for node in graph.nodes]
        self.added = _added(graph) if chains else ()
        self._definitions.extend([*own, *self.added])

    @property
    def follows(self) -> tuple[Follow, ...]:
        return ()


def kept(rows: DataFrame) -> DataFrame:
    """The rows as they are."""
    return rows


def counted(rows: DataFrame) -> DataFrame:
    """How many rows there are in each part."""
    if not sign.is_table(rows):
        rows = rows.drop(*(name for name in rows.columns if name.lower() == CHANGE))
    whole = F.to_json(F.struct(*(F.col(quoted(name)) for name in sign.columns(rows))))
    return aggregate(rows.withColumn(PART, F.pmod(F.crc32(whole), F.lit(PARTS))), by=PART, n=count())


def _own(graph: Graph, node: Node, *, pinned: bool) -> Node:
    if isinstance(node, Source):
        return replace(node, connector=None) if isinstance(node.connector, Outbox) else node
    return replace(node, pinned=node.pinned or pinned or bool(graph.followers(node.name)))


def _added(graph: Graph) -> tuple[Derived, ...]:
    prefix = PREFIX
    while any(name.startswith(prefix) for name in graph.names):
        prefix += PREFIX
    depths: dict[str, int] = {}
    added: list[Derived] = []

    def add(name: str, read: str, node: Node, function: Callable[[DataFrame], DataFrame]) -> str:
        depths[name] = depths[read] + 1
        added.append(_reader(name, read, node, function))
        return name

    ends: dict[str, Node] = {}
    for node in graph.topological():
        depths[node.name] = max((depths[name] + 1 for name in inputs_of(node)), default=0)
        if node.kind == "stream":
            passed_on = add(f"{prefix}kept_{node.name}", node.name, node, kept)
            ends[add(f"{prefix}counted_{node.name}", passed_on, node, counted)] = node
        elif node.kind == "view" and not graph.readers(node.name):
            ends[add(f"{prefix}counted_{node.name}", node.name, node, counted)] = node
    last = max(ends, key=lambda name: depths[name], default=None)
    while last is not None and depths[last] < LONG:
        node = ends[last]
        last = add(f"{prefix}counted{depths[last]}_{node.name}", last, node, counted)
        ends[last] = node
    return tuple(added)


def _reader(name: str, read: str, node: Node, function: Callable[[DataFrame], DataFrame]) -> Derived:
    return Derived(
        name=name,
        kind="view" if function is counted else "stream",
        function=function,
        inputs=(read,),
        key=(PART,) if function is counted else (),
        topic=name,
        pinned=True,
        partitions=DEFAULT_PARTITIONS,
        retention_ms=None,
        where=node.where,
    )
