"""From the declared queries of a run to queries that are ready to start.

Two steps, for all queries before the first one starts:

1. `plans` calls the declared functions and compares each plan with the checkpoint of its query. All errors are raised
   together.
2. `supervised` looks at the log, and gives a query that can be started, and started again after a failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace import duration
from headrace.engine import check, checkpoint, damage, handover, offsets
from headrace.engine import session as sessions
from headrace.engine.completed import PAUSE_ON_CLUSTER_S, PAUSE_S, CompletedOffsets
from headrace.engine.facts import Facts
from headrace.engine.frames import Frames
from headrace.engine.live import refuse
from headrace.engine.mode import Mode
from headrace.engine.query import SupervisedQuery, write
from headrace.engine.resumption import Resumption
from headrace.engine.watch import Watch
from headrace.errors import RunError
from headrace.graph.plan import Query
from headrace.kernel import bridge
from headrace.log import topic
from headrace.operators import sign

Report = Callable[[str], None]
DELIVERY_MS = 120_000  # after which Kafka's producer gives a record up


@dataclass(frozen=True)
class Planned:
    """The records of a query, what they were made with, and what has to be checked before it starts."""

    records: DataFrame
    build: bridge.Build
    facts: Facts
    resumption: Resumption
    written: bridge.Written | None


@dataclass(frozen=True)
class Preparation:
    """Prepares the queries of a run for its `watch`. By the names of the queries, `places` are their checkpoints and
    `read` the topics that they read."""

    frames: Frames
    watch: Watch
    places: Mapping[str, str]
    read: Mapping[str, list[str]]
    report: Report

    def plans(self, queries: Sequence[Query]) -> dict[str, Planned]:
        """The plans of the queries of this run, by name. Of other queries, which they read, only the columns are
        found. All errors are raised together."""
        found: dict[str, Planned] = {}

        def build(query: Query) -> None:
            if query.name in self.places:
                found[query.name] = self._planned(query)
            else:
                self.frames.result(query)

        errors, _ = check.each(queries, build)
        check.refuse(errors)
        return found

    def _planned(self, query: Query) -> Planned:
        """The plan of a query; RunError when its checkpoint was made with another one."""
        frames, spark = self.frames, self.watch.spark
        node, read = query.node, sorted(frames.graph.node(name).topic for name in query.reads)
        place = self.places[query.name]
        resumption = Resumption(
            self.watch.connection, query, place, self.read[query.name], self._set_back(query.name), self.report
        )
        live = self.watch.mode is Mode.LIVE
        written = bridge.written(spark) if live or resumption.ids(live=False) else None
        records, build = frames.records(query, written)
        if live:
            refuse(records, query)
        resumption.changes = sign.is_signed(frames.schemas[node.name])
        if written is not None and not (live or resumption.changes) and bridge.in_python(records):
            raise RunError(
                "HR-346",
                f"`{query.name}` has to end a live batch first: its rows have to be told from those that are in its"
                " topic, and behind a Python function they cannot be.",
                where=node.where,
                found=f"rows of an unfinished live batch in the topic {node.topic}, and a Python function in the plan",
                fix="run it without the Python function until that batch has ended, then start it with the function; or"
                f" begin again: `headrace reset app.py {node.name}`, which says what will happen",
            )
        key, tables = node.key if build.view else (), frames.columns.get(query.name, {})
        facts = Facts(query.name, node.where, read, build.operators, key, tables)
        facts.check(place)
        return Planned(records, build, facts, resumption, written)

    def supervised(self, query: Query, planned: Planned, identities: Mapping[str, str]) -> SupervisedQuery:
        """A query that can be started; RunError when the log lacks records that it has yet to read."""
        place, live = self.places[query.name], self.watch.mode is Mode.LIVE
        records, build, resumption, written = planned.records, planned.build, planned.resumption, planned.written
        planned.facts.note(place, {name: identities[name] for name in planned.facts.topics})
        if lost := offsets.lost(self.watch.connection, checkpoint.reached(place)):
            raise RunError(
                "HR-309",
                f"`{query.name}` cannot go on: records that it has not read yet are gone from the log.",
                where=query.node.where,
                found="; ".join(lost),
                fix="restore the topic, or begin again with what the log still has:"
                f" `headrace reset app.py {query.node.name}`, which says what will happen",
            )
        if not live or handover.is_due(place):
            kept_s = partial(offsets.retention_s, self.watch.connection)
            checkpoint.check_remembered(place, query.name, kept_s, query.node.where)
        batch = f"{duration.parse(self.watch.settings.live_batch)} milliseconds"

        def start() -> StreamingQuery:
            checkpoint.clear_unfinished(place)
            if live and handover.is_due(place):
                resumption.report(f"ending the exact batch that {query.name} was left in")
                handover.end(self.frames, query, place, resumption.ids(live=False))
            if written is not None:
                bridge.leave_out(self.watch.spark, written, resumption.ids(live=live))
            resumption.make_good(live=live)
            if live:
                self.watch.completed[query.name] = self._completed(query.name, build.named)
            kafka = self.watch.connection.spark()
            return write(records, query, build, mode=self.watch.mode, checkpoint=place, kafka=kafka, batch=batch)

        return SupervisedQuery(
            query,
            start,
            ready=lambda: not (self.watch.away or self._unwritten(query.name)),
            damaged=lambda said: damage.behind(said, place, query.name, query.node.where),
        )

    def _set_back(self, query: str) -> Callable[[Mapping[tuple[str, int], int]], None]:
        """Commit the offsets from which the query goes on, before results are taken back: who waits for a result must
        not find its record committed and the result gone."""

        def commit(reached: Mapping[tuple[str, int], int]) -> None:
            with self.watch.connection.translated(f"committing for {query}"):
                begun = dict.fromkeys(topic.ends_of(self.watch.connection, self.read[query]), 0)
                self.watch.groups.commit(query, begun | dict(reached))

        return commit

    def _unwritten(self, query: str) -> bool:
        """Whether records of a live query are on their way to the log and may still arrive."""
        since_ms = time.time() * 1000 - DELIVERY_MS
        mine = (gauge for gauge in self.watch.gauges() if gauge.query == query)
        return any(gauge.unwritten_ms is not None and gauge.unwritten_ms > since_ms for gauge in mine)

    def _completed(self, query: str, operators: Sequence[str]) -> CompletedOffsets:
        local = sessions.is_local(str(self.watch.spark.sparkContext.master))
        return CompletedOffsets(
            query,
            operators,
            self.watch.gauges(),
            partial(bridge.turn, self.watch.spark, query, run=self.watch.run),
            pause_s=PAUSE_S if local else PAUSE_ON_CLUSTER_S,
        )
