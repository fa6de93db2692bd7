"""The thread that watches the queries of a run. Several times a second it does its duties:

- carry out commands (commands.py), and start a failed query again (query.py);
- commit the offsets that were consumed (offsets.py, completed.py);
- write the progress of each query (progress_writer.py).

A duty that fails is named in the progress and done again the next time; the other duties go on. Two things end the
watch by themselves, and the run then raises its `failure`: Spark's process is gone, or a duty has failed
`MOST_FAILURES` times in a row.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from headrace.engine import checkpoint, commands, offsets, progress
from headrace.engine.completed import PAUSE_S, CompletedOffsets
from headrace.engine.mode import Mode
from headrace.engine.progress import State
from headrace.engine.progress_writer import ProgressWriter
from headrace.engine.query import SupervisedQuery
from headrace.engine.unread import Unread
from headrace.errors import LogError, RunError
from headrace.kernel import bridge
from headrace.kernel.bridge import Gauge
from headrace.log.connection import Connection
from headrace.settings import Settings

WATCH_S = 0.5
PROGRESS_S = 1.0
MOST_FAILURES = 20


@dataclass
class Watch:
    """Watches the queries in `running`, of the run with the id `run`. `completed` has the completed offsets of live
    queries, by name; `away` says since when the log cannot be reached."""

    app: str
    run: str
    mode: Mode
    settings: Settings
    connection: Connection
    spark: SparkSession
    running: list[SupervisedQuery] = field(default_factory=list)
    completed: dict[str, CompletedOffsets] = field(default_factory=dict)
    away: str | None = None
    failure: RunError | None = None

    def __post_init__(self) -> None:
        self.writer = ProgressWriter(self.app, self.mode, self.settings)
        self.groups = offsets.ConsumerGroups(self.connection, self.app)
        self._unread = Unread(self.connection)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures: dict[str, int] = {}

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._look, name="headrace-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the thread."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def gauges(self) -> list[Gauge]:
        """What the kernel has counted for the queries of this run."""
        return bridge.gauges(self.spark, self.run)

    def write_last(self) -> None:
        """Write the last progress event of every query."""
        alive = bridge.is_alive(self.spark)
        gauges = self.gauges() if alive else []
        for running in self.running:
            running.spark = running.spark if alive else None
            running.error = running.error or self.failure
            self._write(running, "failed" if running.error else "stopped", gauges)

    def commit_last(self, covered: Callable[[str], offsets.Offsets]) -> None:
        """Exact mode: commit what the last batches have covered, unless the log is away."""
        if self.mode is not Mode.EXACT or self.away:
            return
        with contextlib.suppress(KafkaException, LogError):
            for running in self.running:
                self.groups.commit(running.query.name, covered(running.query.name))

    def check(self, *, last: bool = False) -> None:
        """Raise what has ended the watch, or ended a query for good; with `last` also when a query is down."""
        if self.failure is not None:
            raise self.failure
        for running in self.running:
            if error := running.verdict() if last else running.error:
                raise error

    def _look(self) -> None:
        try:
            admin = self.connection.admin()
            supervised = written = 0.0
            while self.failure is None and not self._ending.wait(PAUSE_S if self.mode is Mode.LIVE else WATCH_S):
                if not bridge.is_alive(self.spark):
                    self.failure = gone(self.settings)
                    return
                now = time.monotonic()
                if now - supervised >= WATCH_S:
                    supervised = now
                    for running in self.running:
                        self._do(f"looking after `{running.query.name}`", partial(self._supervise, running))
                if self.mode is Mode.LIVE:
                    self._do("committing what was read", self._commit_live)
                if now - written >= PROGRESS_S:
                    written = now
                    for running in self.running:
                        self._do(f"reporting on `{running.query.name}`", partial(self._report, admin, running))
        except BaseException as error:
            self.failure = _lost("the watch", error)
            raise

    def _do(self, duty: str, work: Callable[[], None]) -> None:
        """Do a duty; a failure is written to the progress."""
        try:
            work()
        except Exception as error:  # whatever it is, the other duties are done and this one is done again
            if not bridge.is_alive(self.spark):
                self.failure = gone(self.settings)
                return
            self._failures[duty] = self._failures.get(duty, 0) + 1
            self.writer.trouble = f"{duty} fails: {_line(error)}"
            if self._failures[duty] >= MOST_FAILURES:
                self.failure = _lost(duty, error)
        else:
            if self._failures.pop(duty, None) and not self._failures:
                self.writer.trouble = None

    def _supervise(self, running: SupervisedQuery) -> None:
        running.follow_command(commands.wanted(self.settings, self.app, running.query.name, self.writer.began))
        running.supervise()

    def _commit_live(self) -> None:
        """Commit what the queries have completed."""
        gauges = self.gauges()
        for query, completed in list(self.completed.items()):
            if done := completed.step(gauges):
                try:
                    self.groups.commit(query, self._unread.over(query, done))
                except (KafkaException, LogError):
                    self.away = self.away or progress.moment()

    def _report(self, admin: offsets.AdminClient, running: SupervisedQuery) -> None:
        gauges = self.gauges()
        lag = self._lag(admin, running, gauges)
        state: State = "failed" if running.error is not None else "stopped" if running.held else "running"
        self._write(running, state, gauges, lag)

    def _write(
        self, running: SupervisedQuery, state: State, gauges: list[Gauge], lag: Mapping[str, int] | None = None
    ) -> None:
        self.writer.write(running, state, gauges, lag=dict(lag) if lag is not None else None, away=self.away)

    def _lag(self, admin: offsets.AdminClient, running: SupervisedQuery, gauges: list[Gauge]) -> dict[str, int] | None:
        """What the query has not consumed, None while the log is away; in exact mode commit what it has."""
        exact = self.mode is Mode.EXACT
        consumed = last_batch(running) if exact else offsets.read_so_far(gauges, running.query.name)
        try:
            if exact:
                self.groups.commit(running.query.name, consumed)
            behind = self._unread.behind(running.query.name, consumed, offsets.ends(admin, consumed))
            self.away = None
        except (KafkaException, LogError):
            self.away = self.away or progress.moment()
            return None
        return {f"{topic}[{partition}]": count for (topic, partition), count in sorted(behind.items())}


def last_batch(running: SupervisedQuery) -> dict[tuple[str, int], int]:
    """The next offsets after the last batch that Spark reports."""
    last = running.spark.lastProgress if running.spark else None
    return checkpoint.covered(source.endOffset or "" for source in last.sources) if last else {}


@contextlib.contextmanager
def answered(settings: Settings) -> Iterator[None]:
    """Inside, a call that fails because Spark's process has ended raises that as a RunError."""
    try:
        yield
    except bridge.UNANSWERED as error:
        if bridge.has_ended():
            raise gone(settings) from error
        raise


def gone(settings: Settings) -> RunError:
    """The error of a run whose Spark process has ended by itself."""
    return RunError(
        "HR-318",
        "Spark's process has ended, and the run with it.",
        found=bridge.ended(),
        fix=f"look at the end of spark.out and spark.log in {settings.state} for the reason (-9 is often a machine"
        " without memory left), then start the run again: it goes on from its checkpoints",
    )


def _lost(duty: str, error: BaseException) -> RunError:
    return RunError(
        "HR-319",
        f"The run has lost control of its queries: {duty} fails again and again.",
        found=_line(error),
        fix="start the run again: it goes on from its checkpoints; if it happens again, what was found is a fault of"
        " Headrace: please report it",
    )


def _line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300]}" if text else type(error).__name__
