"""Topics that are missing or do not fit, and records that are gone or became dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from headrace import names
from headrace.doctor.finding import Finding, Weight
from headrace.engine import checkpoint, offsets
from headrace.engine.topics import needed
from headrace.graph.graph import Graph
from headrace.graph.node import Source
from headrace.graph.plan import Query
from headrace.log import dead
from headrace.log import topic as topics
from headrace.log.connection import Connection

MOST_LETTERS = 100_000
MOST_REASONS = 3


def examine(graph: Graph, queries: Sequence[Query], connection: Connection) -> Iterator[Finding]:
    """The topics that the queries need."""
    there = set(topics.names(connection))
    for wanted in needed(graph, queries):
        if wanted.name not in there:
            if not wanted.name.endswith((names.DEAD_SUFFIX, names.LATE_SUFFIX)):
                yield Finding(
                    Weight.NOTE,
                    wanted.name,
                    "the topic is not there",
                    f"Kafka has {len(there)} topics, and not this one",
                    "nothing, when the app has never run: a run makes it. Otherwise it was deleted",
                )
            continue
        found = len(topics.partitions(connection, wanted.name))
        if found < wanted.partitions:
            yield Finding(
                Weight.BROKEN,
                wanted.name,
                "the topic has fewer partitions than declared",
                f"{found}, and {wanted.partitions} are declared",
                f"kafka-topics --alter --topic {wanted.name} --partitions {wanted.partitions}, or declare {found}",
            )
    for source in graph.sources:
        if isinstance(source, Source) and source.kind == "stream" and names.dead_topic(source.topic) in there:
            yield from _letters(source, connection)


def gone(place: str, query: Query, connection: Connection) -> Iterator[Finding]:
    """Records that a query has not read and that the log does not have any more."""
    there = set(topics.names(connection))
    reached = {at: offset for at, offset in checkpoint.reached(place).items() if at[0] in there}
    for lost in offsets.lost(connection, reached):
        yield Finding(
            Weight.BROKEN,
            query.name,
            "records that it has not read yet are gone",
            lost,
            "restore the topic, or begin again with what the log still has: `headrace reset app.py"
            f" {query.node.name}`; a longer `retention=` gives more time",
        )


def _letters(source: Source, connection: Connection) -> Iterator[Finding]:
    """Pending dead letters by their reason: how records vanish after the schema, or its writers, have changed."""
    reasons: Counter[str] = Counter()
    for letter in dead.dead_letters(connection, source.topic, pending_only=True, limit=MOST_LETTERS):
        reasons[letter.reason] += 1
    if not reasons:
        return
    told = "; ".join(f"{count:,} × {reason}" for reason, count in reasons.most_common(MOST_REASONS))
    more = f"; and {len(reasons) - MOST_REASONS} other reasons" if len(reasons) > MOST_REASONS else ""
    yield Finding(
        Weight.AILING,
        source.topic,
        f"{reasons.total():,} records do not fit the schema, and are in no result",
        told + more,
        f"correct the writers or the schema, then put them back: `headrace dead replay {source.topic}`",
    )
