"""A run of an app: its topics made, its queries started, watched and stopped.

    with Run.start(app, mode=Mode.LIVE, settings=settings, bootstrap="…") as run:
        run.wait()

Everything that can be wrong with a declaration, the log or a checkpoint is found before the first query starts, and a
start that fails leaves nothing running. A thread looks at every query a few times a second: it starts a failed one
again (query.py), writes progress (diary.py) and commits consumed offsets (offsets.py). A crash of this process
loses nothing: the next run goes on from the checkpoints, and what a live view has been told beyond its own is taken
back first (rollback.py).
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaException
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import headrace.errors
from headrace import duration
from headrace.app import App
from headrace.engine import captured, checkpoint, offsets, orders, progress, rollback, topics, version, views
from headrace.engine.diary import Diary
from headrace.engine.frames import Frames
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress, State
from headrace.engine.query import Running, write
from headrace.engine.session import session
from headrace.engine.wave import PAUSE_ON_CLUSTER_S, PAUSE_S, Wave
from headrace.errors import LogError, RunError
from headrace.graph.graph import Graph
from headrace.graph.plan import Query, plan
from headrace.kernel import bridge
from headrace.log import catalogue, topic
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.settings import Settings

Report = Callable[[str], None]
WATCH_S = 0.5
PROGRESS_S = 1.0
VISIBLE_S = 30.0
DELIVERY_MS = 120_000  # after which Kafka's producer gives a record up


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
        self._running: list[Running] = []
        self._places: dict[str, str] = {}
        self._read: dict[str, list[str]] = {}
        self._written: dict[str, list[str]] = {}
        self._held = contextlib.ExitStack()
        self._stop = threading.Event()
        self._watcher: threading.Thread | None = None
        self._waves: dict[str, Wave] = {}
        self._diary = Diary(app, mode, settings)
        self._away: str | None = None
        self._groups = offsets.Groups(connection, app)

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
        beside: Mapping[str, str] | None = None,
        report: Report = lambda _: None,
    ) -> Run:
        """Start every query of the app, or those named in `only`; a given session is used and left running.

        Queries run in the versions that are current, or that the graph has chosen. With `beside` they are not current,
        so nobody is told of what they write; it holds where they begin to read, by topic.
        """
        connection = Connection.of(settings, bootstrap)
        declared = app.graph() if isinstance(app, App) else app
        graph = version.current(declared, connection)
        queries = _chosen(plan(graph), only)
        with contextlib.ExitStack() as undo:
            needed = [query for query in plan(graph) if query in queries or _feeds(query, queries)]
            tables = captured.known(graph, needed, mode, settings, report)
            places = {query.name: checkpoint.location(settings, graph.app, query.name) for query in queries}
            held = undo.enter_context(contextlib.ExitStack())
            if mode is not Mode.BATCH:
                for query in queries:
                    held.enter_context(checkpoint.held(places[query.name], graph.app, query.name))
            if error := version.overtaken(graph, version.current(declared, connection)):
                raise error
            for name in topic.ensure(connection, topics.needed(graph, queries)):
                report(f"created the topic {name}")
            owns = spark is None
            if spark is None:
                spark = _session(graph.app, settings, mode, report)
                undo.callback(spark.stop)
            run = cls(graph.app, mode, settings, connection, spark)
            run._owns_spark, run._places = owns, places
            run._read = {query.name: [graph.node(name).topic for name in query.reads] for query in queries}
            run._written = {query.name: topics.written(graph, query) for query in queries}
            frames = Frames(spark, graph, mode, connection, run._id, starts=beside or {}, columns=tables)
            if mode is Mode.BATCH:
                run._batch(frames, queries, report)
            else:
                identities = topic.identities(connection, sorted({one for read in run._read.values() for one in read}))
                undo.callback(bridge.close, spark, run._id)
                for query in plan(graph):
                    if query in queries:
                        run._running.append(run._prepared(frames, query, places[query.name], identities, report))
                    elif query in needed:
                        frames.result(query)
                for running in run._running:
                    undo.callback(running.stop)
                    running.begin()
                    run._diary.write(running, "starting", [], away=run._away)
                    report(f"running {running.query.name} ({mode})")
                run.outputs = {q.name: views.described(graph, q, frames.schemas[q.node.name]) for q in queries}
                if beside is None:
                    catalogue.publish(connection, *(one for one in run.outputs.values() if one.kind == "view"))
                run._watcher = threading.Thread(target=run._watch, name="headrace-watch", daemon=True)
                run._watcher.start()
            run._held.push(held.pop_all())
            undo.pop_all()
        return run

    def wait(self, seconds: float | None = None) -> None:
        """Until `request_stop`, the time is over, or a query has failed for good, which is raised."""
        if self.mode is Mode.BATCH:
            return
        until = None if seconds is None else time.monotonic() + seconds
        while not self._stop.is_set():
            self.check()
            left = WATCH_S if until is None else min(WATCH_S, until - time.monotonic())
            if left <= 0:
                return
            self._stop.wait(left)

    def check(self) -> None:
        """Raise the error of a query that has failed for good."""
        for running in self._running:
            if running.error is not None:
                raise running.error

    def finish_input(self) -> None:
        """Exact mode: until every query, in the order of the plan, has worked off what is in the log, its watermark has
        come to the newest event, and readers see what it has written: the next query may be one. Raises the error of
        a query that has failed for good."""
        for running in self._running:
            self._finish(running)
            bridge.hush(self.spark, running.query.name)
            self._finish(running)
            offsets.visible(self.connection, self._written[running.query.name], seconds=VISIBLE_S)

    def _finish(self, running: Running) -> None:
        done = 0
        while done < 2:  # the first time may be answered by a look at the log from before the call
            self.check()
            spark = running.spark
            try:
                if spark is not None and spark.isActive:
                    spark.processAllAvailable()
                    done += spark.isActive
                    continue
            except PySparkException:
                done = 0  # the watch starts it again
            time.sleep(WATCH_S / 10)

    def covered(self, query: str) -> dict[tuple[str, int], int]:
        """Exact mode: the next offsets behind what the finished batches of a query have read."""
        running = next(one for one in self._running if one.query.name == query)
        return checkpoint.reached(self._places[query]) | _told(running)

    def left(self, query: str) -> int:
        """Live mode: how many records of the topics that a query reads are in the log, and its results not yet."""
        done = checkpoint.reached(self._places[query])
        for place, offset in self._groups.committed(query).items():
            done[place] = max(offset, done.get(place, 0))
        ends = topic.ends_of(self.connection, self._read[query])
        return sum(max(0, end - done.get(place, 0)) for place, end in ends.items())

    def request_stop(self) -> None:
        """Let `wait` return; safe to call from a signal handler."""
        self._stop.set()

    def progress(self) -> list[Progress]:
        """The last event of every query."""
        return [self._diary.last[name] for name in self.queries if name in self._diary.last]

    def stop(self) -> None:
        """Stop every query, then the session if this run started it."""
        self._stop.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        for running in self._running:
            running.stop()
        self._commit_last()
        self._groups.close()
        bridge.close(self.spark, self._id)
        gauges = bridge.gauges(self.spark) if self._running else []
        for running in self._running:
            self._diary.write(running, "failed" if running.error else "stopped", gauges, away=self._away)
            bridge.forget(self.spark, running.query.name)
        if self._owns_spark:
            self.spark.stop()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepared(
        self, frames: Frames, query: Query, place: str, identities: Mapping[str, str], report: Report
    ) -> Running:
        """A query that is planned, and that its checkpoint and the log fit; it is yet to begin."""
        bridge.forget(self.spark, query.name)
        records, build = frames.records(query)
        read = {name: identities[name] for name in sorted(frames.graph.node(name).topic for name in query.reads)}
        checkpoint.check(
            place, query.name, read, build.operators, query.node.where, tables=frames.columns.get(query.name)
        )
        if lost := offsets.lost(self.connection, checkpoint.reached(place)):
            raise RunError(
                "HR-309",
                f"`{query.name}` cannot go on: records that it has not read yet are gone from the log.",
                where=query.node.where,
                found="; ".join(lost),
                fix=f"restore the topic, or delete the checkpoint {place} to begin again with what the log still has",
            )
        if self.mode is Mode.EXACT:
            kept_s = partial(offsets.retention_s, self.connection)
            checkpoint.check_remembered(place, query.name, kept_s, query.node.where)
        batch = f"{duration.parse(self.settings.live_batch)} milliseconds"
        view = query.node.kind == "view"

        def start() -> StreamingQuery:
            checkpoint.clear_unfinished(place)
            if view:
                self._roll_back(query, place, report)
            if self.mode is Mode.LIVE:
                self._waves[query.name] = self._wave(query.name, build.named)
            kafka = self.connection.spark()
            return write(records, query, build, mode=self.mode, checkpoint=place, kafka=kafka, batch=batch)

        return Running(query, start, ready=lambda: not view or not (self._away or self._unwritten(query.name)))

    def _roll_back(self, query: Query, place: str, report: Report) -> None:
        """Take a view back to the checkpoint when the query was live and goes on from there, in either mode."""
        finished = checkpoint.finished(place)
        if finished is not None and checkpoint.was_live(place):
            name, topic_name = query.name, query.node.topic
            if changes := rollback.due(self.connection, topic_name, finished):
                # Nobody may take for done, and look for in the view, what is about to be taken back.
                with self.connection.translated(f"committing for {name}"):
                    begun = dict.fromkeys(topic.ends_of(self.connection, self._read[name]), 0)
                    self._groups.commit(name, begun | checkpoint.reached(place))
                rollback.write(self.connection, topic_name, changes)
                report(f"took {len(changes)} rows of {topic_name} back to the last finished batch of {name}")
        checkpoint.note_live(place, self.mode is Mode.LIVE)

    def _unwritten(self, query: str) -> bool:
        """Whether records of a live query are on their way to the log and may still come to be there."""
        since_ms = time.time() * 1000 - DELIVERY_MS
        mine = (gauge for gauge in bridge.gauges(self.spark) if gauge.query == query)
        return any(gauge.unwritten_ms is not None and gauge.unwritten_ms > since_ms for gauge in mine)

    def _wave(self, query: str, operators: Sequence[str]) -> Wave:
        local = str(self.spark.sparkContext.master).startswith("local")
        return Wave(
            query,
            operators,
            bridge.gauges(self.spark),
            partial(bridge.turn, self.spark, query),
            pause_s=PAUSE_S if local else PAUSE_ON_CLUSTER_S,
        )

    def _batch(self, frames: Frames, queries: Sequence[Query], report: Report) -> None:
        for query in queries:
            report(f"computing {query.name} (batch)")
            records, _ = frames.records(query)
            records.write.format("kafka").options(**self.connection.spark()).option("topic", query.node.topic).save()

    def _watch(self) -> None:
        admin = self.connection.admin()
        supervised = written = 0.0
        while not self._stop.wait(PAUSE_S if self.mode is Mode.LIVE else WATCH_S):
            if time.monotonic() - supervised >= WATCH_S:
                supervised = time.monotonic()
                for running in self._running:
                    running.obey(orders.wanted(self.settings, self.app, running.query.name, self._diary.began))
                    running.supervise()
            if self.mode is Mode.LIVE:
                self._commit_live()
            if time.monotonic() - written < PROGRESS_S:
                continue
            written = time.monotonic()
            gauges = bridge.gauges(self.spark)
            for running in self._running:
                lag = self._account(admin, running, gauges)
                self._diary.write(running, _state(running), gauges, lag=lag, away=self._away)

    def _commit_last(self) -> None:
        """Exact mode: commit what the last batches have covered, unless the log is away."""
        if self.mode is not Mode.EXACT or self._away:
            return
        with contextlib.suppress(KafkaException, LogError):
            for query in self.queries:
                self._groups.commit(query, self.covered(query))

    def _commit_live(self) -> None:
        """Commit what the queries have worked off and written."""
        gauges = bridge.gauges(self.spark)
        for query, wave in list(self._waves.items()):
            if done := wave.step(gauges):
                try:
                    self._groups.commit(query, done)
                except (KafkaException, LogError):
                    self._away = self._away or progress.moment()

    def _account(
        self, admin: offsets.AdminClient, running: Running, gauges: list[bridge.Gauge]
    ) -> dict[str, int] | None:
        """What the query has not consumed, None while the log is away; in exact mode commit what it has."""
        exact = self.mode is Mode.EXACT
        consumed = _told(running) if exact else offsets.read_so_far(gauges, running.query.name)
        try:
            if exact:
                self._groups.commit(running.query.name, consumed)
            ends = offsets.ends(admin, consumed)
            self._away = None
        except (KafkaException, LogError):
            self._away = self._away or progress.moment()
            return None
        return {f"{t}[{p}]": max(0, ends[t, p] - offset) for (t, p), offset in sorted(consumed.items())}


def _told(running: Running) -> dict[tuple[str, int], int]:
    """The next offsets behind the last batch that Spark tells of."""
    last = running.spark.lastProgress if running.spark else None
    return checkpoint.covered(source.endOffset or "" for source in last.sources) if last else {}


def _state(running: Running) -> State:
    if running.error is not None:
        return "failed"
    return "stopped" if running.held else "running"


def _session(app: str, settings: Settings, mode: Mode, report: Report) -> SparkSession:
    modules = [] if settings.master is None or settings.master.startswith("local") else [_package(settings)]
    return session(
        f"headrace-{app}-{mode}",
        master=settings.master,
        settings=settings.spark,
        modules=modules,
        log=settings.state / "spark.log",
        report=report,
    )


def _package(settings: Settings) -> Path:
    """Headrace and the modules beside the app, as a zip for the executors' Python."""
    root = Path(headrace.errors.__file__).parent
    target = settings.state / "modules.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, Path("headrace") / file.relative_to(root))
        for file in sorted(settings.directory.glob("*.py")):
            out.write(file, file.name)
    return target


def _feeds(query: Query, others: Sequence[Query]) -> bool:
    return any(query.node.name in other.reads for other in others)


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
