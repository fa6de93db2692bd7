"""Compares what a query has written to the log with the checkpoint that it is about to go on from.

With two checkpoints, a query writes its results twice; with a checkpoint that is older than the results, it takes new
rows for rows that were written. So before a query starts, the log is asked who wrote for it:

- **Exact mode** records for every task the last batch, its checkpoint and how the batch was planned (the kernel's
  Transaction), in the groups `headrace.<app>.<query>.sink.<task>`. A record of a batch that the checkpoint has not
  begun, or has planned in another way, was made by a newer state of the checkpoint: HR-314. After a crash the log is
  ahead of Spark's last finished batch only by the batch that was begun, with the same plan. So a query that is accepted
  finds again all that it has written, and one that is refused would have lost or doubled rows.
- **Live mode** writes the checkpoint and the batch beside every record, as a header. After a crash the topic is ahead
  by the one batch that was running, and that is corrected (resumption.py). A record of a later batch is of a newer
  state: HR-314. A record of the batch that was running looks like a crash, also where the checkpoint is a copy from a
  time when the query was not live.
- **Records of another checkpoint**, or of any where there is none, say that this checkpoint was deleted, is not
  mounted, or was mistaken for another: HR-315. In live mode a query that has no checkpoint, and whose topic is not
  empty, has run before when its group (offsets.py) has read something of its input, or when the last records of its
  topic have that header. A topic that somebody filled by hand has neither.

**Limits.** The log forgets the offsets of a group that commits nothing for `offsets.retention.minutes`, a week by
default, and with them what exact mode has recorded. A checkpoint that is not on a file system is not looked at here; in
exact mode the kernel compares again when it writes, and fails with the same errors. A checkpoint whose identity cannot
be read is refused by Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace import names
from headrace.engine import checkpoint, topics
from headrace.engine.checkpoint import Finished
from headrace.engine.unfinished import batch_of
from headrace.errors import RunError
from headrace.graph.graph import Graph
from headrace.graph.plan import Query
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.topic import Committed

LOOK = 50  # records at the end of a partition
_MOST = 3


@dataclass(frozen=True)
class Trace:
    """The last batch that a task has written, the checkpoint that it was of, and how it was planned."""

    task: str
    checkpoint: str
    batch: int
    plan: str


def check(connection: Connection, graph: Graph, queries: Sequence[Query], places: Mapping[str, str]) -> None:
    """Refuse the first of the queries that must not go on from its checkpoint."""
    groups = topic.group_offsets(connection, names.group(graph.app, ""))
    for query in queries:
        place = places[query.name]
        if error := refusal(connection, graph, query, place, groups):
            raise error
        mine, (begun, _) = checkpoint.finished(place), checkpoint.begun(place)
        # What it wrote live before its last exact start was corrected then, and has the number of the exact batch that
        # came after it at the most: a batch that was begun is ended in exact mode before the query goes live.
        if mine is not None and checkpoint.live_since(place) is None and _told(connection, query, mine) > begun:
            checkpoint.note_live(place, {})  # live after the copy was made; any record may be of that time


def refusal(
    connection: Connection, graph: Graph, query: Query, place: str, groups: Mapping[str, Sequence[Committed]]
) -> RunError | None:
    """Why a query must not go on from its checkpoint; None when it may. `groups` are those of the app."""
    if checkpoint.reset(place) == "begun":
        return unfinished_reset(query, place)
    found = of(graph, query, groups)
    if checkpoint.is_new(place):
        signs = _shown(found) if found else _signs(connection, graph, query, place, groups)
        return elsewhere(query, f"{signs}; there is no checkpoint in {place}") if signs else None
    mine = checkpoint.finished(place)
    if mine is None:
        return None
    if others := [one for one in found if one.checkpoint != mine.query]:
        return elsewhere(query, f"{_shown(others)}; {place} is the checkpoint {mine.query}")
    begun, plan = checkpoint.begun(place)
    newer = [one for one in found if one.batch > begun or (one.batch == begun and plan not in (None, one.plan))]
    if not newer and (told := _told(connection, query, mine)) > begun + 1:
        newer = [Trace(query.node.topic, mine.query, told, "")]
    if not newer:
        return None
    reached = f"has begun batch {begun}" if begun >= 0 else "has begun no batch"
    reached += ", with other records" if max(one.batch for one in newer) == begun else ""
    return ahead(query, f"{_shown(newer)}; {place} {reached}")


def of(graph: Graph, query: Query, groups: Mapping[str, Sequence[Committed]]) -> list[Trace]:
    """What the tasks of a query have recorded in the topics that it writes."""
    prefix = names.sink(graph.app, query.name) + "."
    written = set(topics.written(graph, query))
    found: list[Trace] = []
    for group, places in sorted(groups.items()):
        for one in places if group.startswith(prefix) else ():
            if one.topic in written:
                by, _, plan = one.metadata.partition("\0")[0].partition(":")
                found.append(Trace(group.removeprefix(prefix), by, one.offset - 1, plan))
    return found


def ahead(query: Query, found: str) -> RunError:
    """The error of a query whose checkpoint is older than what it has written."""
    return RunError(
        "HR-314",
        f"`{query.name}` cannot go on: the log is ahead of its checkpoint, as after a restore from an older copy, and"
        " new rows would be taken for such as were written.",
        where=query.node.where,
        found=found,
        fix=f"put the newer checkpoint back; or begin again: `headrace reset app.py {query.node.name}`, which says what"
        " will happen",
    )


def elsewhere(query: Query, found: str) -> RunError:
    """The error of a query for which another checkpoint has written."""
    return RunError(
        "HR-315",
        f"`{query.name}` must not begin here: another checkpoint has written to {query.node.topic}, and everything"
        " would be written once more.",
        where=query.node.where,
        found=found,
        fix="put the checkpoint back (is its volume mounted? is --checkpoints the place where it was?); or begin again:"
        f" `headrace reset app.py {query.node.name}`, which says what will happen",
    )


def unfinished_reset(query: Query, found: str) -> RunError:
    """The error of a query whose reset was interrupted."""
    return RunError(
        "HR-316",
        f"The reset of `{query.name}` has not come to its end, so it cannot start.",
        where=query.node.where,
        found=found,
        fix=f"call `headrace reset app.py {query.node.name}` again: it goes on",
    )


def _shown(traces: Iterable[Trace]) -> str:
    """Who wrote how much, the latest first."""
    latest = sorted(traces, key=lambda one: (-one.batch, one.task))
    shown = [f"{one.task} has batch {one.batch} of the checkpoint {one.checkpoint}" for one in latest[:_MOST]]
    more = len(latest) - len(shown)
    return "; ".join([*shown, *([f"and {more} more tasks"] if more else [])])


def _told(connection: Connection, query: Query, mine: Finished) -> int:
    """The last batch of a checkpoint that has written something live, as far as the ends of the topic show; or -1."""
    batches = (batch_of(record, mine.query) for record in _last(connection, query.node.topic))
    return max((batch for batch in batches if batch is not None), default=-1)


def _signs(
    connection: Connection, graph: Graph, query: Query, place: str, groups: Mapping[str, Sequence[Committed]]
) -> str | None:
    """What says that a query has run before, where exact mode has recorded nothing; None for its first start."""
    written = query.node.topic
    if checkpoint.reset(place) == "done" or written not in topic.names(connection):
        return None
    size = sum(one.next for one in topic.describe_partitions(connection, written))
    if size == 0:
        return None
    group = names.group(graph.app, query.name)
    inputs = {graph.node(name).topic for name in query.reads}
    taken = sorted(f"{one.topic}[{one.partition}]@{one.offset}" for one in groups.get(group, ()) if one.topic in inputs)
    if taken:
        return f"{written} has had {size:,} records; the group {group} has read up to {', '.join(taken[:_MOST])}"
    for record in _last(connection, written):
        if by := record.header(names.HEADER_BATCH):
            return f"{written} has had {size:,} records; {record.position} is of the checkpoint and batch {by}"
    return None


def _last(connection: Connection, name: str) -> Iterator[Record]:
    """The last records of each partition of a topic that may not be there."""
    held = topic.describe_partitions(connection, name) if name in topic.names(connection) else ()
    start = {one.partition: max(one.first, one.next - LOOK) for one in held if one.next > one.first}
    return read(connection, name, start=start) if start else iter(())
