"""`reset`: a query begins again, over what it has written, because somebody has asked for it.

    say what it will do → agreed → checkpoint removed → the rows of a view deleted → the log forgets its batches → done

**A view** is rebuilt: every row that its topic holds is deleted by a record without a value, so that no row stays that
is not computed again, and the next run computes it from the log. Meanwhile readers see it empty, then grow. Followers,
subscribers and queries that read it see the rows go and come.

**A stream** is written once more, behind what its topic holds, and every reader gets each row again; so it is done only
where repeats are accepted (HR-317). A new version (`headrace replay`, `headrace promote`) repeats nothing.

What the log does not hold any more is not computed again. Late rows and dead letters are written once more, too.

**A crash** in between: before anything is removed, the checkpoint notes that a reset was begun, and no run starts with
it (HR-316). Called again, it goes on. The lock of the checkpoint is held all the time, so nobody runs the query
meanwhile. A checkpoint that is not on a file system cannot be locked or removed from here; the log forgets its batches.
"""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import Producer as Client

from headrace import names
from headrace.engine import checkpoint, offsets, rollback, traces
from headrace.engine.rollback import Change
from headrace.engine.version import Versions
from headrace.errors import RunError
from headrace.graph.graph import Graph
from headrace.graph.plan import Query, plan
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.settings import Settings

VISIBLE_S = 30.0
_FENCE_S = 30.0


class Reset:
    """That of the current version of a query of an app."""

    def __init__(self, graph: Graph, name: str, connection: Connection, settings: Settings) -> None:
        versions = Versions.of(graph, name, connection)
        self._graph, self._query = versions.query(versions.current)
        self._connection = connection
        self.place = checkpoint.location(settings, graph.app, self._query.name)

    @property
    def query(self) -> Query:
        """The query, in its current version."""
        return self._query

    @property
    def is_view(self) -> bool:
        """Whether it is rebuilt; else it is repeated."""
        return self._query.node.kind == "view"

    def consequences(self) -> Iterator[str]:
        """What it will do, one sentence each."""
        node, there = self._query.node, topics.names(self._connection)
        kept = topics.describe_partitions(self._connection, node.topic) if node.topic in there else ()
        held = sum(one.next - one.first for one in kept)
        yield f"the checkpoint {self.place} is removed, with the state in it"
        if self.is_view:
            yield f"every row of the view is deleted from {node.topic}, and the next run computes it again from the log"
            yield "until it has caught up, readers, tables and subscribers of the view see rows missing"
        else:
            yield f"the next run writes every row to {node.topic} once more, behind the {held:,} offsets that it holds"
            yield "whoever reads the stream gets each row again, and what counts or sums it is wrong by that"
        readers = [one.node.name for one in plan(self._graph) if node.name in one.reads]
        if readers:
            yield f"{', '.join(readers)} read it"
        for name in sorted({self._graph.node(one).topic for one in self._query.reads} & set(there)):
            gone = [one for one in topics.describe_partitions(self._connection, name) if one.first > 0]
            if gone:
                told = ", ".join(f"{name}[{one.partition}] before {one.first:,}" for one in gone)
                yield f"the log does not hold the whole input any more; gone, and not counted again, is {told}"

    def run(self, *, repeats: bool) -> int:
        """Do it; how many rows of a view were deleted."""
        if not self.is_view and not repeats:
            raise self._repeats()
        group, sink = (of(self._graph.app, self._query.name) for of in (names.group, names.sink))
        deleted = 0
        with checkpoint.held(self.place, self._graph.app, self._query.name):
            checkpoint.note_reset(self.place, "begun")
            checkpoint.clear(self.place)
            if self.is_view and self._query.node.topic in topics.names(self._connection):
                self._end_transactions(f"{sink}.")
                deletions = self._deletions()
                rollback.write(self._connection, self._query.node.topic, deletions)
                deleted = len(deletions)
            topics.forget_groups(self._connection, group, f"{sink}.")
            checkpoint.note_reset(self.place, "done")
        return deleted

    def _deletions(self) -> list[Change]:
        """The records that delete every row of the view."""
        there: set[tuple[int, bytes]] = set()
        for record in read(self._connection, self._query.node.topic):
            if record.key is not None:
                (there.discard if record.value is None else there.add)((record.partition, record.key))
        return [Change(partition, key, None) for partition, key in sorted(there)]

    def _end_transactions(self, prefix: str) -> None:
        """End what a killed run has left open: what stands behind it in the topic cannot be read."""
        written = self._query.node.topic
        if offsets.visible(self._connection, [written], seconds=0):
            return
        for task in topics.group_offsets(self._connection, prefix):
            with self._connection.translated(f"ending the transactions of {task}"):
                Client(self._connection.client(**{"transactional.id": task})).init_transactions(_FENCE_S)
        if not offsets.visible(self._connection, [written], seconds=VISIBLE_S):
            told = f"a transaction is open in {written}; of a killed run the broker ends it after 15 minutes"
            raise traces.unfinished_reset(self._query, told)

    def _repeats(self) -> RunError:
        name = self._query.node.name
        return RunError(
            "HR-317",
            f"`{name}` is a stream, and begun again it is written once more, behind what {self._query.node.topic}"
            " holds.",
            where=self._query.node.where,
            found="no --repeats",
            fix=f"build it anew beside the old one: `headrace replay app.py {name} --as v2`, then `headrace promote"
            f" app.py {name} --version v2`; or accept that its readers get every row again: --repeats",
        )
