"""A run of an app: its topics made, its queries started, watched and stopped.

    with Run.start(app, mode=Mode.LIVE, settings=settings, bootstrap="…") as run:
        run.wait()

Everything that can be wrong with a declaration, the log or a checkpoint is found before the first query starts, and a
start that fails leaves nothing running (preparation.py). A thread watches the queries while they run (watch.py).

A crash of this process loses nothing. Spark's process ends with it, and the next run goes on from the checkpoints; it
first corrects what live queries have written after theirs (resumption.py). When Spark's process ends by itself, the run
ends with an error.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from headrace.app import App
from headrace.engine import (
    captured,
    check,
    checkpoint,
    damage,
    topics,
    traces,
    version,
    views,
    watch,
)
from headrace.engine import session as sessions
from headrace.engine.finishing import finish_input
from headrace.engine.frames import Frames
from headrace.engine.mode import Mode
from headrace.engine.modules import package
from headrace.engine.preparation import Preparation, Report
from headrace.engine.progress import Progress
from headrace.engine.watch import WATCH_S, Watch
from headrace.engine.writer_locks import WriterLocks
from headrace.errors import RunError
from headrace.graph.graph import Graph
from headrace.graph.plan import Query, plan
from headrace.kernel import bridge
from headrace.log import catalogue, topic
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.settings import Settings


class Run:
    """Made by `start`; ends with `stop`, or with the `with` block."""

    def __init__(self, app: str, mode: Mode, settings: Settings, connection: Connection, spark: SparkSession) -> None:
        self.app = app
        self.mode = mode
        self.settings = settings
        self.connection = connection
        self.spark = spark
        self._id = uuid.uuid4().hex
        self._owns_spark = True
        self.outputs: dict[str, View] = {}
        self._places: dict[str, str] = {}
        self._locks = WriterLocks(spark)
        self._read: dict[str, list[str]] = {}
        self._written: dict[str, list[str]] = {}
        self._held = contextlib.ExitStack()
        self._stop = threading.Event()
        self._watch = Watch(app, self._id, mode, settings, connection, spark)
        self._running = self._watch.running

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries."""
        return tuple(running.query.name for running in self._running)

    @classmethod
    def start(
        cls,
        app: App | Graph,
        *,
        mode: Mode,
        settings: Settings,
        bootstrap: str,
        only: Sequence[str] = (),
        spark: SparkSession | None = None,
        ends_spark: bool = False,
        beside: Mapping[str, str] | None = None,
        report: Report = lambda _: None,
    ) -> Run:
        """Start every query of the app, or those named in `only`. A session that is given is used, and ended by the run
        only with `ends_spark`.

        Queries run in the versions that are current, or that the graph has chosen. With `beside` they are not current,
        so their views are not published; it holds where they begin to read, by topic.
        """
        connection = Connection.of(settings, bootstrap)
        declared = app.graph() if isinstance(app, App) else app
        graph = version.current(declared, connection)
        queries = _chosen(plan(graph), only)
        with watch.answered(settings), contextlib.ExitStack() as undo:
            needed = check.needed(plan(graph), only)
            tables = captured.known(graph, needed, mode, settings, report)
            places = {query.name: checkpoint.location(settings, graph.app, query.name) for query in queries}
            held = undo.enter_context(contextlib.ExitStack())
            if mode is not Mode.BATCH:
                for query in queries:
                    held.enter_context(checkpoint.held(places[query.name], graph.app, query.name))
                    damage.refuse(places[query.name], query.name, query.node.where)
            if error := version.overtaken(graph, version.current(declared, connection)):
                raise error
            if mode is not Mode.BATCH:
                traces.check(connection, graph, queries, places)
            owns = spark is None or ends_spark
            if spark is None:
                spark = _session(graph, settings, mode, report)
            if owns:
                undo.callback(sessions.end, spark)
            sessions.check_doors(spark, live=mode is Mode.LIVE)
            run = cls(graph.app, mode, settings, connection, spark)
            run._owns_spark, run._places = owns, places
            run._read = {query.name: [graph.node(name).topic for name in query.reads] for query in queries}
            run._written = {query.name: topics.written(graph, query) for query in queries}
            frames = Frames(spark, graph, mode, connection, run._id, starts=beside or {}, columns=tables)
            undo.callback(run._release)
            preparation = Preparation(frames, run._watch, places, run._read, report)
            planned = preparation.plans(needed) if mode is not Mode.BATCH else {}
            for name in topic.ensure(connection, topics.needed(graph, queries)):
                report(f"created the topic {name}")
            if mode is Mode.BATCH:
                run._batch(frames, queries, report)
            else:
                identities = topic.identities(connection, sorted({one for read in run._read.values() for one in read}))
                run._locks.take(graph.app, places)
                for query in queries:
                    run._running.append(preparation.supervised(query, planned[query.name], identities))
                run._begin(undo, report)
                run.outputs = {q.name: views.described(graph, q, frames.schemas[q.node.name]) for q in queries}
                if beside is None:
                    catalogue.publish(connection, *(one for one in run.outputs.values() if one.kind == "view"))
                run._watch.start()
            run._held.push(held.pop_all())
            undo.pop_all()
        return run

    def wait(self, seconds: float | None = None) -> None:
        """Wait for `request_stop`, or for so many seconds. Raises when a query has failed for good, or when Spark has
        ended."""
        if self.mode is Mode.BATCH:
            return
        until = None if seconds is None else time.monotonic() + seconds
        while not self._stop.is_set():
            self.check()
            left = WATCH_S if until is None else min(WATCH_S, until - time.monotonic())
            if left <= 0:
                return
            self._stop.wait(left)

    def check(self, *, last: bool = False) -> None:
        """Raise the error of the run, or of a query that has failed for good; with `last`, when the run is about to
        end, also of a query that is down."""
        self._watch.check(last=last)

    def finish_input(self) -> None:
        """Exact mode: wait until every query has processed what is in the log (finishing.py). Raises the error of a
        query that has failed for good."""
        finish_input(self._watch, self._written)

    def covered(self, query: str) -> dict[tuple[str, int], int]:
        """Exact mode: the next offsets after what the finished batches of a query have read."""
        running = next(one for one in self._running if one.query.name == query)
        return checkpoint.reached(self._places[query]) | watch.last_batch(running)

    def left(self, query: str) -> int:
        """Live mode: how many records are in the topics that a query reads whose results are not in the log yet."""
        done = checkpoint.reached(self._places[query])
        for place, offset in self._watch.groups.committed(query).items():
            done[place] = max(offset, done.get(place, 0))
        ends = topic.ends_of(self.connection, self._read[query])
        return sum(max(0, end - done.get(place, 0)) for place, end in ends.items())

    def request_stop(self) -> None:
        """Let `wait` return; safe to call from a signal handler."""
        self._stop.set()

    def progress(self) -> list[Progress]:
        """The last event of every query."""
        last = self._watch.writer.last
        return [last[name] for name in self.queries if name in last]

    def stop(self) -> None:
        """Stop every query, then the session if this run started it. A step that fails does not stop the others; the
        first failure is raised at the end."""
        self._stop.set()
        failures: list[RunError] = []
        for name, step in (
            ("the watch", self._watch.end),
            *((f"`{running.query.name}`", running.stop) for running in self._running),
            ("what was committed", partial(self._watch.commit_last, self.covered)),
            ("the groups", self._watch.groups.close),
            ("the progress", self._watch.write_last),
            ("what the kernel keeps", self._release),
            ("Spark", partial(sessions.end, self.spark) if self._owns_spark else lambda: None),
            ("the locks", self._held.close),
        ):
            try:
                step()
            except Exception as error:  # the other steps are taken all the same
                alive = bridge.is_alive(self.spark)
                failures.append(_not_ended(name, error) if alive else watch.gone(self.settings))
        if self._watch.failure is not None:
            raise self._watch.failure
        if failures:
            raise failures[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except RunError as failure:
            if error is None:
                raise
            if failure is not error:
                error.add_note(str(failure))

    def _release(self) -> None:
        """Close what the kernel keeps for the queries, and release the checkpoints that nobody writes to any more. A
        query that could not be stopped still writes, until its session ends."""
        if not bridge.is_alive(self.spark):
            return
        bridge.close(self.spark, self._id)
        writing = {one.query.name for one in self._running if one.spark is not None and one.spark.isActive}
        for query in self._places:
            bridge.forget(self.spark, query, self._id)
            if self._owns_spark or query not in writing:
                self._locks.release(query)

    def _begin(self, undo: contextlib.ExitStack, report: Report) -> None:
        """Start all queries. A query is reported as running when Spark has accepted its plan."""
        for running in self._running:
            undo.callback(running.stop)
            running.begin()
            self._watch.writer.write(running, "starting", [])
        for running in self._running:
            if self.mode is Mode.LIVE:
                running.settle()
            report(f"running {running.query.name} ({self.mode})")

    def _batch(self, frames: Frames, queries: Sequence[Query], report: Report) -> None:
        for query in queries:
            report(f"computing {query.name} (batch)")
            records, _ = frames.records(query)
            records.write.format("kafka").options(**self.connection.spark()).option("topic", query.node.topic).save()


def prepared(
    graph: Graph, *, mode: Mode, settings: Settings, only: Sequence[str] = (), report: Report = lambda _: None
) -> SparkSession:
    """A session for a run that is about to start, after its functions were checked. When some are wrong, all errors are
    raised and the session is ended. Neither the log nor a database is needed. A run of the same queries is told before
    Spark is started."""
    chosen = _chosen(plan(graph), only)
    for query in chosen if mode is not Mode.BATCH else ():
        place = checkpoint.location(settings, graph.app, query.name)
        if (directory := checkpoint.local(place)) is not None and directory.exists():
            with checkpoint.held(place, graph.app, query.name):
                pass
    spark = _session(graph, settings, mode, report)
    try:
        check.refuse(check.check(graph, spark, settings, [mode], only).errors)
    except BaseException:
        sessions.end(spark)
        raise
    return spark


def _session(graph: Graph, settings: Settings, mode: Mode, report: Report) -> SparkSession:
    return sessions.session(
        f"headrace-{graph.app}-{mode}",
        master=settings.master,
        settings=settings.spark,
        modules=[] if sessions.is_local(settings.master) else [package(settings)],
        secrets={one.to.secret_env for one in graph.follows if one.to.secret_env},
        log=settings.state / "spark.log",
        report=report,
    )


def _not_ended(what: str, error: Exception) -> RunError:
    if isinstance(error, RunError):
        return error
    said = str(error).strip().splitlines()
    return RunError(
        "HR-319",
        f"The run could not be ended in order: {what} failed to end.",
        found=f"{type(error).__name__}: {said[0][:300]}" if said else type(error).__name__,
        fix="nothing is lost: the next run goes on from the checkpoints",
    )


def _chosen(queries: Sequence[Query], only: Sequence[str]) -> list[Query]:
    known = {query.node.name for query in queries}
    for name in only:
        if name not in known:
            raise RunError(
                "HR-311",
                f"There is no query `{name}`.",
                found=f"queries: {', '.join(sorted(known)) or 'none'}",
                fix="name one of them; `headrace graph` shows the plan",
            )
    if not queries:
        raise RunError(
            "HR-311",
            "The app declares nothing to run.",
            found="no function",
            fix="declare a function with @app.stream or @app.view",
        )
    return [query for query in queries if not only or query.node.name in only]
