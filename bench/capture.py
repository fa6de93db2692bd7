"""Capture: changes of PostgreSQL into Kafka, beside Debezium.

    python -m bench.capture [--changes 200000] [--only snapshot changes latency] [--no-peer] [--quick]

`snapshot`: rows a second that are there before, from the first record written to the last one readable. `changes`: the
same for changes that were committed while nothing captured: in 100 large transactions, and in 2,000 small ones.
Debezium does the same in turn, with its defaults and with larger batches. `latency`: at 100 transactions a second, from
the moment that COMMIT has returned to the moment that a reader of committed records has the change. Memory is the
largest that the process held. Both run as processes of their own, as their users run them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
import psycopg
from confluent_kafka import Consumer, TopicPartition
from psycopg import sql

from bench import debezium
from bench.latency import percentile
from bench.result import Result, print_result, print_table
from headrace import names
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.topic import Topic
from headrace.parts.embedded import Parts
from headrace.settings import Settings

CASES = ("snapshot", "changes", "latency")
SHAPES = ((100, "large"), (2_000, "small"))
PATIENCE_S = 300
APP = """
import headrace as hr

app = hr.App("{app}")
app.table("{table}", hr.postgres("public.{table}"), key="id")
"""
CHANGES_GOAL, RATIO_GOAL, SNAPSHOT_GOAL = 60_000, 3.0, 100_000
LATENCY_GOAL_MS, RSS_GOAL_MB = 20.0, 200.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.capture", description="PostgreSQL into Kafka.")
    parser.add_argument("--changes", type=int, default=200_000, help="how many changes (default 200,000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (default 3)")
    parser.add_argument("--seconds", type=float, default=30, help="seconds of the latency measurement (default 30)")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--no-peer", action="store_true", help="leave Debezium out")
    parser.add_argument("--quick", action="store_true", help="20,000 changes, one round, 3 seconds")
    given = parser.parse_args()
    if given.quick:
        given.changes, given.rounds, given.seconds = 20_000, 1, 3.0
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(0o755)
        settings = Settings.model_construct(directory=Path(home))
        with Parts.start(settings, postgres=True, report=note) as parts:
            ground = Ground(Path(home), parts.bootstrap, parts.postgres_url)
            for result in _measured(ground, given):
                print_result(result)
                results.append(result)
    print_table(results, "One machine with everything on it; memory is of the process that captures.")


def _measured(ground: Ground, given: argparse.Namespace) -> Iterator[Result]:
    if "snapshot" in given.only:
        yield _snapshot(ground, given)
    if "changes" in given.only:
        for shape in SHAPES:
            yield _changes(ground, given, *shape)
    if "latency" in given.only:
        yield _latency(ground, given.seconds)


@dataclass(frozen=True)
class Ground:
    """Servers, and a directory."""

    home: Path
    bootstrap: str
    url: str

    @property
    def connection(self) -> Connection:
        return Connection(self.bootstrap)

    def fill(self, table: str, rows: int) -> None:
        """A table of payments."""
        note(f"filling {table} with {rows:,} rows")
        with psycopg.connect(self.url, autocommit=True) as database:
            database.execute(
                sql.SQL(
                    "CREATE TABLE {} (id bigint PRIMARY KEY, card text NOT NULL, amount numeric(12,2) NOT NULL,"
                    " merchant text NOT NULL, at timestamptz NOT NULL)"
                ).format(sql.Identifier(table))
            )
            database.execute(
                sql.SQL(
                    "INSERT INTO {} SELECT n, 'card-' || n % 5000, n % 10000 / 100.0, 'merchant ' || n % 300, now()"
                    " FROM generate_series(1, {}) n"
                ).format(sql.Identifier(table), sql.Literal(rows))
            )
            database.execute("CHECKPOINT")

    def change(self, table: str, changes: int, transactions: int) -> None:
        """Change as many rows, one by one, in so many transactions."""
        each = changes // transactions
        with psycopg.connect(self.url, autocommit=True) as database:
            for number in range(transactions):
                database.execute(
                    sql.SQL("UPDATE {} SET amount = amount + 1 WHERE id BETWEEN {} AND {}").format(
                        sql.Identifier(table), sql.Literal(number * each + 1), sql.Literal((number + 1) * each)
                    )
                )
            database.execute("CHECKPOINT")

    @contextmanager
    def ours(self, table: str) -> Iterator[Callable[[], float]]:
        """Capture as its user runs it; the memory that it holds."""
        place = self.home / f"app-{table}"
        place.mkdir(exist_ok=True)
        (place / "app.py").write_text(APP.format(app=f"ours_{table}", table=table), encoding="utf-8")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
        environment |= {"HEADRACE_BOOTSTRAP": self.bootstrap, "HEADRACE_SOURCE": self.url}
        command = [sys.executable, "-c", "from headrace.cli import main; main()", "capture", "app.py"]
        with (place / "log").open("ab") as log:
            started = subprocess.Popen(command, cwd=place, env=environment, stdout=log, stderr=log)
        process = psutil.Process(started.pid)
        try:
            yield lambda: process.memory_info().rss / 1e6
        finally:
            started.terminate()
            started.wait(60)

    @contextmanager
    def theirs(self, table: str, kind: str) -> Iterator[Callable[[], float]]:
        """Debezium; the memory that it holds."""
        prefix = f"{kind}_{table}"
        with debezium.running(
            self.home / prefix,
            self.bootstrap,
            self.url,
            prefix=prefix,
            tables=[f"public.{table}"],
            options=debezium.TUNED if kind == "tuned" else {},
            report=note,
        ) as peer:
            yield lambda: peer.megabytes

    def drop(self, table: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as database:
            for name in (names.slot(f"ours_{table}"), f"debezium_plain_{table}", f"debezium_tuned_{table}"):
                database.execute(
                    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                    (name.lower(),),
                )


@dataclass(frozen=True)
class Run:
    """One run of one of them."""

    seconds: float
    rss_mb: float


class Reader:
    """Counts what a reader of committed records gets, and notices the first record that is written."""

    def __init__(self, connection: Connection, name: str) -> None:
        options = {"group.id": "bench", "enable.auto.commit": False, "isolation.level": "read_committed"}
        self._client = Consumer(connection.client(**options, **{"fetch.wait.max.ms": 20, "queued.min.messages": 50000}))
        topic.ensure(connection, [Topic(name, 2, compacted=True, config={"max.message.bytes": str(64 * 1024 * 1024)})])
        self._places = [TopicPartition(name, partition) for partition in range(2)]
        uncommitted = {"group.id": "bench", "isolation.level": "read_uncommitted"}
        self._looking = Consumer(connection.client(**uncommitted))
        self._ends = self._written()
        self._client.assign([TopicPartition(name, i, end) for i, end in enumerate(self._ends)])

    def take(self, count: int, megabytes: Callable[[], float]) -> Run:
        """Wait until so many records are readable; the time since the first was written."""
        until = time.monotonic() + PATIENCE_S
        while self._written() == self._ends:
            if time.monotonic() > until:
                sys.exit("nothing was written")
            time.sleep(0.005)
        begun, read, most = time.monotonic(), 0, megabytes()
        while read < count:
            read += sum(message.error() is None for message in self._client.consume(5_000, 0.05))
            most = max(most, megabytes())
            if time.monotonic() > until:
                sys.exit(f"only {read:,} of {count:,} records came")
        return Run(time.monotonic() - begun, most)

    def close(self) -> None:
        self._client.close()
        self._looking.close()

    def _written(self) -> list[int]:
        return [self._looking.get_watermark_offsets(place, timeout=10)[1] for place in self._places]


def _timed(ground: Ground, table: str, kind: str, count: int) -> Run:
    app = "ours" if kind == "ours" else kind
    reader = Reader(ground.connection, f"{app}_{table}.public.{table}")
    try:
        with ground.ours(table) if kind == "ours" else ground.theirs(table, kind) as megabytes:
            run = reader.take(count, megabytes)
            time.sleep(1.5)  # so that both have told the server how far they are
    finally:
        reader.close()
    note(f"{kind} {table}: {count / run.seconds:,.0f} a second, {run.seconds:.2f} s, {run.rss_mb:.0f} MB")
    return run


def _snapshot(ground: Ground, given: argparse.Namespace) -> Result:
    rows = given.changes * 2
    ground.fill("history", rows)
    mine = _timed(ground, "history", "ours", rows)
    peer = None if given.no_peer else _timed(ground, "history", "tuned", rows)
    ground.drop("history")
    return _result("snapshot", "rows", rows, [mine], [peer] if peer else [], ratio=None, least=SNAPSHOT_GOAL)


def _changes(ground: Ground, given: argparse.Namespace, transactions: int, shape: str) -> Result:
    table, count = f"payments_{shape}", given.changes
    kinds = ["ours"] if given.no_peer else ["ours", "plain", "tuned"]
    ground.fill(table, count)
    for kind in kinds:  # the first time all rows are read, which makes the slots
        _timed(ground, table, kind, count)
    taken: dict[str, list[Run]] = {kind: [] for kind in kinds}
    for _ in range(given.rounds):
        ground.change(table, count, transactions)
        for kind in kinds:
            taken[kind].append(_timed(ground, table, kind, count))
    ground.drop(table)
    best = min(kinds[1:], key=lambda kind: median(run.seconds for run in taken[kind]), default=None)
    case = f"changes, {transactions:,} transactions of {count // transactions:,}"
    peers = taken[best] if best else []
    return _result(case, best or "", count, taken["ours"], peers, ratio=RATIO_GOAL, least=CHANGES_GOAL)


def _result(
    case: str, best: str, count: int, ours: list[Run], peers: list[Run], *, ratio: float | None, least: int
) -> Result:
    mine = median(run.seconds for run in ours)
    theirs = median(run.seconds for run in peers) if peers else None
    return Result(
        case=case,
        mode="capture",
        events=count,
        events_per_second=round(count / mine),
        rss_mb=round(max(run.rss_mb for run in ours), 1),
        peer=f"{debezium.VERSION}{', larger batches' if best == 'tuned' else ''}" if theirs else None,
        peer_events_per_second=round(count / theirs) if theirs else None,
        peer_rss_mb=round(max(run.rss_mb for run in peers), 1) if peers else None,
        ratio=round(theirs / mine, 2) if theirs else None,
        goal=ratio if theirs else None,
        goal_events_per_second=least,
        goal_rss_mb=RSS_GOAL_MB,
    )


def _latency(ground: Ground, seconds: float) -> Result:
    table, every, warm = "ticks", 0.01, 2.0
    ground.fill(table, 10)
    reader = Consumer(
        ground.connection.client(**{"group.id": "bench", "isolation.level": "read_committed", "fetch.wait.max.ms": 500})
    )
    name = f"ours_{table}.public.{table}"
    topic.ensure(ground.connection, [Topic(name, 2, compacted=True, config={"max.message.bytes": str(64 * 1024**2)})])
    reader.assign([TopicPartition(name, partition, 0) for partition in range(2)])
    committed: dict[int, float] = {}
    arrived: dict[int, float] = {}
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            message = reader.poll(0.1)
            value = message.value() if message is not None and message.error() is None else None
            if value is not None:
                now = time.monotonic()
                arrived.setdefault(json.loads(value)["after"]["id"], now)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        with ground.ours(table), psycopg.connect(ground.url, autocommit=True) as database:
            until = time.monotonic() + PATIENCE_S
            while len(arrived) < 10 and time.monotonic() < until:
                time.sleep(0.1)
            insert = sql.SQL("INSERT INTO {} VALUES (%s, 'card', 1.5, 'merchant', now())").format(sql.Identifier(table))
            begun, number = time.monotonic(), 100
            while (now := time.monotonic()) < begun + warm + seconds:
                database.execute(insert, (number,))
                if now > begun + warm:
                    committed[number] = time.monotonic()
                number += 1
                time.sleep(max(0.0, begun + (number - 100) * every - time.monotonic()))
            time.sleep(1)
    finally:
        stop.set()
        thread.join()
        reader.close()
    ground.drop(table)
    times = sorted((arrived[one] - at) * 1000 for one, at in committed.items() if one in arrived)
    return Result(
        case="latency, 100 transactions/s",
        mode="capture",
        events=len(committed),
        lost=len(committed) - len(times),
        p50_ms=percentile(times, 0.5),
        p95_ms=percentile(times, 0.95),
        p99_ms=percentile(times, 0.99),
        goal_p50_ms=LATENCY_GOAL_MS,
    )


def note(line: str) -> None:
    """Tell the person in front of the terminal."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
