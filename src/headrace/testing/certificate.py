"""The certificate: an app runs on made-up events while its processes are killed, and every output is held against the
batch answer.

    certificate = certify(Path("app.py"), kills=20, seed=7)
    assert certificate.holds

The app runs as in production, in processes of its own: `headrace run --mode exact` on a Kafka of its own, and where it
has views `headrace follow` on a PostgreSQL of its own. Again and again one of them is killed with -9 and started anew;
a killed driver may also lose the record of its last batch, which is what is left of a kill between the sink's commit
and Spark's. At the end each source gets an event far in the future, which closes the windows, and when all is worked
off, committed records and view tables are compared:

- lost: in the batch answer with and without the closing events, and not in the output;
- duplicated: more often in the output than in the batch answer;
- wrong: in the output, and not in the batch answer.

Functions that draw random numbers, or depend on the order in which rows of equal time arrive, have no one answer, and
may be reported as wrong.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql
from pyspark.sql import SparkSession

from headrace import names
from headrace.app import App, load
from headrace.engine import checkpoint, topics
from headrace.engine.mode import Mode
from headrace.engine.session import session
from headrace.errors import LogError, RunError
from headrace.graph.graph import Graph
from headrace.graph.node import Source
from headrace.graph.plan import Query, plan
from headrace.kernel import bridge
from headrace.log import catalogue, topic
from headrace.log.connection import Connection
from headrace.log.consumer import committed, read
from headrace.log.producer import Producer
from headrace.parts.embedded import Parts
from headrace.settings import Settings
from headrace.testing.driver import forget_last_commit
from headrace.testing.oracle import oracle
from headrace.testing.sample import Events, Sample

Report = Callable[[str], None]
PATIENCE_S = 300.0
CLOSING = timedelta(days=30)
_OTHER_FILES = shutil.ignore_patterns(".headrace", ".venv", ".git", "__pycache__", "*.pyc")


@dataclass(frozen=True)
class Verdict:
    """What became of one output: the rows it must have, and how many are lost, duplicated and wrong."""

    output: str
    rows: int
    lost: int
    duplicated: int
    wrong: int
    examples: tuple[str, ...] = field(default=(), repr=False)

    @property
    def holds(self) -> bool:
        return not (self.lost or self.duplicated or self.wrong)


@dataclass(frozen=True)
class Certificate:
    """The verdicts of a run, with what was sent and killed."""

    app: str
    seed: int
    events: int
    kills: Mapping[str, int]
    verdicts: tuple[Verdict, ...]

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts)


def certify(
    app: Path, *, kills: int = 20, seed: int, rate: float = 100.0, report: Report = lambda _: None
) -> Certificate:
    """Run the app in a directory of its own while it is killed so many times; `rate` is events a second and source."""
    with ExitStack() as undo:
        home = Path(tempfile.mkdtemp(prefix="headrace-certify-"))
        home.chmod(0o755)  # the user that runs PostgreSQL for root must enter
        undo.callback(shutil.rmtree, home, ignore_errors=True)
        shutil.copytree(app.parent, home / "app", ignore=_OTHER_FILES)
        file = home / "app" / app.name
        declared = load(file)
        trial = _Trial(declared, file, seed, report)
        undo.callback(trial.stop)
        trial.start()
        trial.feed(rate)
        trial.hurt(kills)
        trial.finish()
        return trial.judge()


class _Trial:
    """The processes of an app under test, and what they were given."""

    def __init__(self, app: App, file: Path, seed: int, report: Report) -> None:
        self._app = app
        self._graph: Graph = app.graph()
        self._queries = plan(self._graph)
        self._file = file
        self._seed = seed
        self._report = report
        self._dice = random.Random(seed)
        self._settings = Settings.model_construct(directory=file.parent)
        self._has_views = any(query.node.kind == "view" for query in self._queries)
        self._parts: dict[str, Parts] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._feeder: _Feeder | None = None
        self._killed: Counter[str] = Counter()

    # The processes

    def start(self) -> None:
        self._part("broker")
        self._connection = Connection(self._parts["broker"].bootstrap)
        topic.ensure(self._connection, topics.needed(self._graph, self._queries))
        if self._has_views:
            self._part("store")
            self._process("follower", "follow")
        self._process("driver", "run", "--mode", str(Mode.EXACT))

    def stop(self) -> None:
        if self._feeder is not None:
            self._feeder.stop()
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            _kill(process.pid)
            process.wait()
        for parts in self._parts.values():
            parts.stop()
        self._processes.clear()
        self._parts.clear()

    def _part(self, name: str) -> None:
        self._parts[name] = Parts.start(self._settings, kafka=name == "broker", postgres=name == "store")

    def _process(self, name: str, command: str, *options: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        environment["HEADRACE_BOOTSTRAP"] = self._connection.bootstrap
        if self._has_views:
            environment["HEADRACE_POSTGRES"] = self._parts["store"].postgres_url
        with (self._file.parent / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(Path(sys.executable).with_name("headrace")), command, str(self._file), *options],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def feed(self, rate: float) -> None:
        """Send events to every source until `finish`."""
        self._feeder = _Feeder(self._connection, self._graph.sources, self._seed, rate)
        self._feeder.start()

    # The kills

    def hurt(self, kills: int) -> None:
        victims = ["driver", "driver", "driver between commits", "broker"]
        victims += ["follower", "store"] if self._has_views else []
        for number in range(kills):
            self._until_it_works()
            time.sleep(self._dice.uniform(0, 5))
            victim = self._dice.choice(victims)
            self._killed[victim] += 1
            self._report(f"kill {number + 1} of {kills}: {victim}")
            self._kill(victim)
        self._until_it_works()

    def _kill(self, victim: str) -> None:
        if victim in ("broker", "store"):
            for part in self._parts[victim].started:
                os.kill(part.record.server.pid, signal.SIGKILL)
            self._parts[victim].stop()
            time.sleep(self._dice.uniform(0, 3))
            self._part(victim)
            return
        name = victim.split(maxsplit=1)[0]
        _kill(self._processes[name].pid)
        self._processes[name].wait()
        if victim == "driver between commits":
            for query in self._queries:
                place = checkpoint.local(checkpoint.location(self._settings, self._graph.app, query.name))
                if place is not None:
                    forget_last_commit(place)
        if name == "driver":
            self._process("driver", "run", "--mode", str(Mode.EXACT))
        else:
            self._process("follower", "follow")

    def _until_it_works(self) -> None:
        """Until every query has consumed something since now."""
        before: dict[str, int] = {}

        def goes_on() -> bool:
            now = {query.name: self._consumed(query) for query in self._queries}
            if not before:
                before.update(now)
            return all(now[name] > then for name, then in before.items())

        self._wait("the app to go on", goes_on)

    def _consumed(self, query: Query) -> int:
        return sum(max(0, place) for place in self._places(query).values())

    def _places(self, query: Query) -> dict[tuple[str, int], int]:
        read_topics = {self._graph.node(name).topic for name in query.reads}
        return committed(self._connection, names.group(self._graph.app, query.name), read_topics)

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Until the condition holds; while the log is away it does not."""
        until = time.monotonic() + PATIENCE_S
        while not _holds(condition):
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise self._stuck(f"The {name} has ended by itself", name)
            if time.monotonic() > until:
                raise self._stuck(f"Waited {PATIENCE_S:g} seconds in vain for {what}", "driver")
            time.sleep(0.5)

    def _stuck(self, what: str, name: str) -> RunError:
        log = (self._file.parent / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return RunError(
            "HR-313",
            f"{what}, so the app `{self._graph.app}` cannot be certified (seed {self._seed}).",
            found=f"the end of its log:\n{log[-2000:]}",
            fix="correct what the log says; `headrace run` and `headrace follow` must run with the app by themselves",
        )

    # The end

    def finish(self) -> None:
        """Close the windows, and wait until everything is worked off."""
        assert self._feeder is not None
        self._feeder.close()
        self._report(f"{self._feeder.total:,} records sent; waiting until they are worked off")
        for query in self._queries:
            self._wait(f"{query.name} to read to the end", lambda query=query: self._at_end(query))
        if self._has_views:
            self._wait("the view tables", self._views_at_end)

    def _at_end(self, query: Query) -> bool:
        """Whether the query has read everything and written for it, and for a while has had nothing to add."""
        state = (self._places(query), topic.ends(self._connection, query.node.topic))
        for name in query.reads:
            ends = topic.ends(self._connection, self._graph.node(name).topic)
            if any(state[0].get((self._graph.node(name).topic, p), 0) < end for p, end in ends.items()):
                return False
        time.sleep(3)
        return state == (self._places(query), topic.ends(self._connection, query.node.topic))

    def _views_at_end(self) -> bool:
        try:
            with psycopg.connect(self._parts["store"].postgres_url) as database:
                for query in self._queries:
                    if query.node.kind != "view":
                        continue
                    found = database.execute(
                        "select partition, next_offset from headrace.positions where follower = %s and topic = %s",
                        (f"{self._graph.app}.{query.name}", query.node.topic),
                    )
                    at = dict(found.fetchall())
                    ends = topic.ends(self._connection, query.node.topic)
                    if any(at.get(partition, 0) < end for partition, end in ends.items()):
                        return False
        except psycopg.Error:
            return False
        return True

    def judge(self) -> Certificate:
        """Stop the app, and compare what it wrote with the batch answer."""
        assert self._feeder is not None
        for name in ("driver", "follower"):
            if name in self._processes:
                self._processes[name].send_signal(signal.SIGTERM)
                self._processes.pop(name).wait(120)
        self._report("computing the batch answer")
        spark = session("headrace-certify", log=self._file.parent / "oracle.log")
        try:
            verdicts = tuple(verdict for query in self._queries for verdict in self._verdicts(query, spark))
        finally:
            spark.stop()
        letters = tuple(self._letters(source) for source in self._graph.sources if source.kind == "stream")
        return Certificate(self._graph.app, self._seed, self._feeder.total, dict(self._killed), (*verdicts, *letters))

    def _verdicts(self, query: Query, spark: SparkSession) -> list[Verdict]:
        assert self._feeder is not None
        without, whole = (
            _bag(oracle(self._app, query.name, events, spark))
            for events in (self._feeder.sent(closing=False), self._feeder.sent(closing=True))
        )
        if query.node.kind != "view":
            rows = [json.loads(one.value) for one in read(self._connection, query.node.topic) if one.value]
            return [_compare(f"topic {query.node.topic}", _bag(_accumulated(rows)), without & whole, whole)]
        topic_rows: dict[bytes | None, bytes | None] = {
            one.key: one.value for one in read(self._connection, query.node.topic)
        }
        whole = _keyed(whole, query.node.key)
        required = _keyed(without, query.node.key) & whole
        in_log = _bag([json.loads(value) for value in topic_rows.values() if value is not None])
        return [
            _compare(f"view {query.name}, topic", in_log, required, whole),
            _compare(f"view {query.name}, table", self._table(query, spark), required, whole),
        ]

    def _table(self, query: Query, spark: SparkSession) -> Counter[str]:
        """The rows of a view's table as they would stand in the log."""
        view = catalogue.views(self._connection, self._graph.app)[query.name]
        with psycopg.connect(self._parts["store"].postgres_url) as database:
            statement = sql.SQL("select * from {}").format(sql.Identifier(self._graph.app, query.name))
            found = database.execute(statement)
            columns = [column.name for column in found.description or ()]
            rows = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
        return _bag(_as_in_log(rows, view.schema, spark))

    def _letters(self, source: Source) -> Verdict:
        """Every record that does not fit, once for each query that reads it."""
        assert self._feeder is not None
        readers = [query.name for query in self._queries if source.name in query.reads]
        broken = self._feeder.broken(source.name)
        expected = Counter({f"{raw!r} {reader}": times for raw, times in broken.items() for reader in readers})
        found = Counter(
            f"{one.value!r} {one.header(names.HEADER_QUERY)}"
            for one in read(self._connection, names.dead_topic(source.topic))
        )
        return _compare(f"dead letters of {source.name}", found, expected, expected)


class _Feeder(threading.Thread):
    """Sends events to every source, and remembers them."""

    def __init__(self, connection: Connection, sources: Sequence[Source], seed: int, rate: float) -> None:
        super().__init__(daemon=True, name="headrace-certify-feeder")
        self._connection = connection
        start = datetime.now(UTC) - CLOSING
        self._sources = {source.name: source for source in sources if source.kind == "stream"}
        self._events = {name: Events(source, seed=seed, start=start) for name, source in self._sources.items()}
        self._sent: dict[str, list[Sample]] = {name: [] for name in self._sources}
        self._closing: dict[str, list[Sample]] = {name: [] for name in self._sources}
        self._pause = 1 / rate
        self._done = threading.Event()
        self._producer = Producer(connection)
        self.error: BaseException | None = None

    @property
    def total(self) -> int:
        return sum(map(len, self._sent.values()))

    def run(self) -> None:
        streams = {name: iter(events) for name, events in self._events.items()}
        try:
            while not self._done.wait(self._pause):
                for name, stream in streams.items():
                    self._send(name, next(stream), self._sent)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._done.set()
        if self.is_alive():
            self.join()

    def close(self) -> None:
        """Send the last events; returns when all are in the log."""
        self.stop()
        if self.error is not None:
            raise self.error
        at = datetime.now(UTC)
        for name, events in self._events.items():
            for sample in events.closing(at):
                self._send(name, sample, self._closing)
        self._producer.flush()

    def sent(self, *, closing: bool) -> dict[str, list[bytes]]:
        """What was sent to each source, with or without the last events."""
        return {
            name: [one.value for one in [*samples, *(self._closing[name] if closing else [])] if one.fits]
            for name, samples in self._sent.items()
        }

    def broken(self, name: str) -> Counter[bytes]:
        return Counter(sample.value for sample in self._sent[name] if not sample.fits)

    def _send(self, name: str, sample: Sample, kept: dict[str, list[Sample]]) -> None:
        self._producer.send(self._sources[name].topic, sample.value, key=sample.key, partition=sample.partition)
        kept[name].append(sample)


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except LogError:
        return False


def _compare(output: str, found: Counter[str], required: Counter[str], allowed: Counter[str]) -> Verdict:
    lost = required - found
    more = found - allowed
    duplicated = Counter({row: times for row, times in more.items() if row in allowed})
    wrong = more - duplicated
    examples = [f"lost: {row}" for row in lost] + [f"duplicated: {row}" for row in duplicated]
    examples += [f"wrong: {row}" for row in wrong]
    return Verdict(
        output, required.total(), lost.total(), duplicated.total(), wrong.total(), tuple(sorted(examples)[:5])
    )


def _bag(rows: Sequence[Mapping[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def _accumulated(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows put there and not taken back, where `change` says so; the others as they are."""
    if not rows or any(row.get("change") not in ("+", "-") for row in rows):
        return list(rows)
    left: Counter[str] = Counter()
    for row in rows:
        left[json.dumps({**row, "change": "+"}, sort_keys=True)] += 1 if row["change"] == "+" else -1
    if any(times < 0 for times in left.values()):
        left += Counter({row: -times for row, times in left.items() if times < 0})
    return [json.loads(row) for row, times in left.items() for _ in range(times)]


def _keyed(rows: Counter[str], key: Sequence[str]) -> Counter[str]:
    """The rows that can be in a view: those without a null in their key."""
    return Counter(
        {row: times for row, times in rows.items() if all(json.loads(row).get(column) is not None for column in key)}
    )


def _as_in_log(rows: Sequence[dict[str, Any]], schema: str, spark: SparkSession) -> list[dict[str, Any]]:
    if not rows:
        return []
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], schema, verifySchema=False)
    return [json.loads(row.value) for row in bridge.encode(frame, ()).collect()]


def _kill(pid: int) -> None:
    """End a process and those below it, at once."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        process.kill()
        psutil.wait_procs(family, timeout=30)
