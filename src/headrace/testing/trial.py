"""The processes of an app under test, each as in production: the driver, the follower, the capture, and their servers.

A trial starts them in a directory of its own, stops and kills them, waits until the app goes on, and until it has
worked off all that it was given. Each start of the driver draws its mode from `modes`, and for the live one how long a
batch lasts. A driver that is refused because the one before still holds its checkpoints is started again.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

from headrace import names
from headrace.engine import checkpoint, topics
from headrace.engine.mode import Mode
from headrace.errors import LogError, RunError
from headrace.graph.connector import Debezium, Postgres
from headrace.graph.graph import Graph
from headrace.graph.plan import Query, plan
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.consumer import committed, read
from headrace.parts.embedded import Parts
from headrace.settings import Settings
from headrace.testing.database import Database
from headrace.testing.feeder import Feeder

Report = Callable[[str], None]
PATIENCE_S = 600.0
STOPPING_S = 180.0
REST_S = 5.0
AGAIN_S = 1.0
LOOK_S = 1.0
HELD = "HR-306"
LIVE_BATCHES = ("5 seconds", "15 seconds", "30 seconds")
TRANSACTIONS = 0.2  # of the rate; each changes a few rows
MASTER = "local[256]"  # the tasks of a live run wait beside each other, and the chains have many


class Trial:
    """The file declares the app; `graph` is what it declares."""

    def __init__(
        self, graph: Graph, file: Path, *, modes: Sequence[Mode], seed: int, rate: float, report: Report
    ) -> None:
        self.graph = graph
        self.queries = plan(graph)
        self.seed = seed
        self.report = report
        self.dice = random.Random(seed)
        self.refused: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.directory = file.parent
        self._file = file
        self._modes = modes
        self._rate = rate
        self._settings = Settings.model_construct(directory=file.parent)
        self._parts: dict[str, Parts] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._said_before: dict[str, int] = {}
        self._commands = {"driver": ["run", "--master", MASTER]}
        if self.views:
            self._commands["follower"] = ["follow"]
        captured = [one for one in graph.sources if isinstance(one.connector, Postgres)]
        if captured:
            self._commands["capture"] = ["capture"]
        self._captured = captured
        self.database: Database | None = None

    @property
    def views(self) -> tuple[Query, ...]:
        """The queries whose results are views."""
        return tuple(query for query in self.queries if query.node.kind == "view")

    @property
    def companions(self) -> tuple[str, ...]:
        """The processes beside the driver."""
        return tuple(name for name in self._commands if name != "driver")

    @property
    def has_store(self) -> bool:
        """Whether there is a PostgreSQL."""
        return bool(self.companions)

    @property
    def postgres(self) -> str:
        """Where the tables of the views are."""
        return self._parts["store"].postgres_url

    # The start and the end

    def begin(self) -> None:
        """Start everything, and feed the app until `finish`."""
        self._part("broker")
        self.connection = Connection(self._parts["broker"].bootstrap)
        elsewhere = [one for one in self.graph.sources if isinstance(one.connector, Debezium)]
        topic.ensure(
            self.connection,
            [*topics.needed(self.graph, self.queries), *(topics.of_node(self.graph, one) for one in elsewhere)],
        )
        keys = {column for node in self.graph.derived for column in node.key}
        if self.has_store:
            self._part("store")
        if self._captured:
            self.database = Database(
                self.postgres, self._captured, seed=self.seed, rate=self._rate * TRANSACTIONS, keys=keys
            )
            self.database.start()
        read_directly = [one for one in self.graph.sources if one not in self._captured]
        self.feeder = Feeder(self.connection, read_directly, seed=self.seed, rate=self._rate, keys=keys)
        for name in self._commands:
            self.start(name)
        self.feeder.start()

    def finish(self) -> None:
        """Close the windows, wait until everything is worked off, and stop the app."""
        if self.database is not None:
            self.database.stop()
        self.feeder.close()
        self.report(f"{self.total:,} records sent; waiting until they are worked off")
        self._wait("the app to read everything and to rest", self._rests())
        if self.views:
            self._wait("the view tables", self._views_at_end)
        for name in list(self._processes):
            self.stop(name)

    @property
    def total(self) -> int:
        """How many records and rows were sent."""
        return self.feeder.total + (self.database.total if self.database else 0)

    def close(self) -> None:
        """End whatever runs."""
        with suppress(AttributeError):
            self.feeder.stop()
        if self.database is not None:
            with suppress(psycopg.Error):
                self.database.stop()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            kill_family(process)
        for parts in self._parts.values():
            parts.stop()
        self._processes.clear()
        self._parts.clear()

    # Processes and servers

    def start(self, name: str) -> None:
        """Start a process; a driver in a mode that is drawn."""
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_") or key.endswith("_CACHE")
        }
        environment["HEADRACE_BOOTSTRAP"] = self.connection.bootstrap
        if self.has_store:
            environment["HEADRACE_POSTGRES"] = self.postgres
        if self.database is not None:
            environment["HEADRACE_SOURCE"] = self.database.url
        command, *options = self._commands[name]
        if name == "driver":
            self.mode = self.dice.choice(self._modes)
            self.starts[self.mode] += 1
            options += ["--mode", str(self.mode)]
            environment["HEADRACE_LIVE_BATCH"] = self.dice.choice(LIVE_BATCHES)
        with self._log(name).open("ab") as log:
            self._said_before[name] = log.tell()
            self._processes[name] = subprocess.Popen(
                [str(Path(sys.executable).with_name("headrace")), command, str(self._file), *options],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def stop(self, name: str) -> None:
        """End a process as one does: SIGTERM, and it ends in order."""
        process = self._processes[name]
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOPPING_S)
        except subprocess.TimeoutExpired:
            raise self._stuck(f"The {name} did not end within {STOPPING_S:g} seconds of SIGTERM", name) from None
        del self._processes[name]
        if code != 0:
            raise self._stuck(f"The {name} ended with the exit code {code} when it was stopped", name)

    def kill(self, name: str, *, family: bool = False) -> None:
        """kill -9 of a process; with its `family` it is waited for until all that it had started has ended, too."""
        process = self._processes.pop(name)
        if family:
            kill_family(process)
        else:
            process.kill()
            process.wait()

    def kill_part(self, name: str, *, away_s: float) -> None:
        """kill -9 of a server, `broker` or `store`, which comes back after a while with what it had."""
        for part in self._parts[name].started:
            os.kill(part.record.server.pid, signal.SIGKILL)
        self._parts[name].stop()
        time.sleep(away_s)
        self._part(name)

    def checkpoint(self, query: Query) -> Path:
        """The directory of a query's checkpoint."""
        place = checkpoint.local(checkpoint.location(self._settings, self.graph.app, query.name))
        assert place is not None
        return place

    # Waiting

    def until_it_works(self) -> None:
        """Until every query has consumed something since now; one that reads only results may have nothing left."""
        sources = {source.name for source in self.graph.sources}
        before = dict.fromkeys(self.queries, -1)

        def goes_on() -> bool:
            for query, then in list(before.items()):
                now = sum(self._places(query).values())
                if then < 0:
                    before[query] = now
                elif now > then or (sources.isdisjoint(query.reads) and self._has_read_all(query)):
                    del before[query]
            return not before

        self._wait("the app to go on", goes_on)

    def until_a_batch_ends(self, queries: Collection[Query]) -> None:
        """Until one of these queries has finished another batch."""
        before = {query: self._finished(query) for query in queries}
        self._wait("a batch to end", lambda: any(self._finished(query) > then for query, then in before.items()))

    def is_refused(self, expected: str) -> bool:
        """Start the driver: whether it is refused with this code; else it goes on."""
        self.start("driver")
        try:
            self.until_it_works()
        except RunError:
            if self._processes["driver"].poll() is None or expected not in self._said("driver"):
                raise
            del self._processes["driver"]
            self.refused[expected] += 1
            return True
        return False

    def _finished(self, query: Query) -> int:
        found = checkpoint.finished(str(self.checkpoint(query)))
        return found.batch if found else -1

    def _places(self, query: Query) -> dict[tuple[str, int], int]:
        read_topics = {self.graph.node(name).topic for name in query.reads}
        return committed(self.connection, names.group(self.graph.app, query.name), read_topics)

    def _has_read_all(self, query: Query) -> bool:
        """Whether no record is left; what comes behind the last one may be marks of transactions."""
        places = self._places(query)
        for name in {self.graph.node(name).topic for name in query.reads}:
            ends = topic.ends(self.connection, name)
            left = {p: at for p, end in ends.items() if end > (at := places.get((name, p), 0))}
            if left and next(iter(read(self.connection, name, start=left, limit=1)), None) is not None:
                return False
        return True

    def _rests(self) -> Callable[[], bool]:
        """Whether all is read, and for a while nothing was added: a function behind another's topic may wait until a
        partition of it counts as idle."""
        idle_s = max((source.idle_ms for source in self.graph.sources if source.event_time), default=0) / 1000
        seen: dict[tuple[str, int], int] = {}
        since = time.monotonic()

        def rests() -> bool:
            nonlocal seen, since
            now = topic.ends_of(self.connection, [query.node.topic for query in self.queries])
            if now != seen or not all(map(self._has_read_all, self.queries)):
                seen, since = now, time.monotonic()
            return time.monotonic() - since > REST_S + idle_s

        return rests

    def _views_at_end(self) -> bool:
        try:
            with psycopg.connect(self.postgres) as database:
                for query in self.views:
                    found = database.execute(
                        "select partition, next_offset from headrace.positions where follower = %s and topic = %s",
                        (f"{self.graph.app}.{query.name}", query.node.topic),
                    )
                    at = dict(found.fetchall())
                    ends = topic.ends(self.connection, query.node.topic)
                    if any(at.get(partition, 0) < end for partition, end in ends.items()):
                        return False
        except psycopg.Error:
            return False
        return True

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Until the condition holds; while the log is away it does not."""
        until = time.monotonic() + PATIENCE_S
        while not _holds(condition):
            for name, process in list(self._processes.items()):
                if process.poll() is None:
                    continue
                if name != "driver" or HELD not in self._said(name):
                    raise self._stuck(f"The {name} has ended by itself", name)
                self.refused[HELD] += 1
                time.sleep(AGAIN_S)
                self.start(name)
            if time.monotonic() > until:
                raise self._stuck(f"Waited {PATIENCE_S:g} seconds in vain for {what}", "driver")
            time.sleep(LOOK_S)

    def _part(self, name: str) -> None:
        self._parts[name] = Parts.start(self._settings, kafka=name == "broker", postgres=name == "store")

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _said(self, name: str) -> str:
        """What a process has said since it was started last."""
        return self._log(name).read_bytes()[self._said_before[name] :].decode("utf-8", "replace")

    def _stuck(self, what: str, name: str) -> RunError:
        return RunError(
            "HR-313",
            f"{what}, so the app `{self.graph.app}` cannot be certified (seed {self.seed}).",
            found=f"the end of its log:\n{self._said(name)[-2000:]}",
            fix="correct what the log says; `headrace run` and `headrace follow` must run with the app by themselves",
        )


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """End a process at once; returns when it and those below it have ended."""
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        psutil.wait_procs(family, timeout=30)
    process.wait()


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except LogError:
        return False
