"""Following the database: `capture` writes what PostgreSQL commits to the log, for an app's tables and outboxes.

It needs Kafka and PostgreSQL, and no Spark. The database is `source` of the settings, else `postgres`, else the
embedded one. When either is away, it waits. SIGTERM and Ctrl-C end it in order with exit code 0; a second signal ends
it at once, which loses nothing. A table that cannot be followed is told of and the others go on; the exit code is then
1.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from headrace import names
from headrace.capture.capture import Capture, Status
from headrace.capture.session import Order
from headrace.capture.table import Captured
from headrace.cli import terminal
from headrace.cli.ending import seconds, signals
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.status import line
from headrace.engine import progress
from headrace.engine.progress import Progress
from headrace.errors import CaptureError, PartError
from headrace.graph.connector import Outbox, Postgres
from headrace.graph.graph import Graph
from headrace.log.connection import Connection
from headrace.parts import address
from headrace.parts.embedded import Parts
from headrace.settings import Settings

LINE_S = 5.0
PROGRESS_S = 1.0
EVERY = "all"

_SIZE = re.compile(r"(\d+)\s*([kMGT]?)B?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


SnapshotAgain = Annotated[
    list[str] | None,
    typer.Option(
        "--snapshot-again",
        metavar="TABLE",
        help="Read this table again, or `all`, which also makes a lost slot anew; can be given again.",
        show_default=False,
    ),
]
WalWarning = Annotated[
    str, typer.Option("--wal-warning", metavar="SIZE", help="Warn when the server keeps more of its log than this.")
]
WalLimit = Annotated[
    str | None,
    typer.Option(
        "--wal-limit",
        metavar="SIZE",
        help="Drop the slot and halt when the server keeps more of its log than this.",
        show_default=False,
    ),
]
For = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="End after this time, such as 60s.", show_default=False)
]


def capture(
    app: AppFile,
    *,
    snapshot_again: SnapshotAgain = None,
    wal_warning: WalWarning = "1GB",
    wal_limit: WalLimit = None,
    bootstrap: Bootstrap = None,
    lasting: For = None,
    as_json: AsJson = False,
) -> None:
    """Write what PostgreSQL commits to the log, until it is stopped."""
    settings = settings_at(app, bootstrap=bootstrap)
    lasting_s = seconds(lasting)
    until = math.inf if lasting_s is None else time.monotonic() + lasting_s
    graph = load_app(app).graph()
    tables = declared(graph)
    again = _chosen(tables, snapshot_again or ())
    warning, limit = (
        _bytes(wal_warning, "--wal-warning"),
        None if wal_limit is None else _bytes(wal_limit, "--wal-limit"),
    )
    stopped, ready = threading.Event(), threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if not ready.is_set() or stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    try:
        with signals(stop), _servers(settings) as (parts, url):
            settings = settings.model_copy(update={"kafka": parts.kafka_options})
            connection = Connection.of(settings, parts.bootstrap)
            order = Order(graph.app, url, connection, tables, limit)
            running = Capture(order, again=again or (), again_all=again is None, told=terminal.note)
            thread = threading.Thread(target=running.run, args=(stopped,), name="headrace-capture", daemon=True)
            telling = _Telling(graph.app, settings, warning, as_json=as_json)
            thread.start()
            ready.set()
            while thread.is_alive() and not stopped.wait(PROGRESS_S / 5) and time.monotonic() < until:
                telling.tell(running.status)
            stopped.set()
            thread.join()
            telling.tell(running.status, last=True)
    except KeyboardInterrupt:
        if ready.is_set():
            raise
        terminal.note("stopped before anything was captured")
        return
    ended = running.status
    if ended.error is not None:
        raise ended.error
    terminal.note("stopped")
    if any(one.paused for one in ended.tables):
        raise typer.Exit(1)


def declared(graph: Graph) -> tuple[Captured, ...]:
    """The tables and outboxes that an app captures; CaptureError HR-615 when there are none."""
    tables: list[Captured] = []
    streams: dict[str, dict[str, str]] = {}
    for node in graph.sources:
        if isinstance(node.connector, Postgres):
            columns = node.schema.names if node.schema else ()
            tables.append(
                Captured(
                    node.name,
                    node.connector.table,
                    node.topic,
                    node.key,
                    node.partitions,
                    tuple(columns),
                    where=node.where,
                )
            )
        elif isinstance(node.connector, Outbox):
            streams.setdefault(node.connector.table, {})[node.name] = node.topic
    for table, of in streams.items():
        first = graph.node(next(iter(of)))
        topic = names.captured_topic(graph.app, table)
        tables.append(Captured(table, table, topic, (), first.partitions, streams=of, where=first.where))
    if not tables:
        raise CaptureError(
            "HR-615",
            f"The app `{graph.app}` captures nothing.",
            found="no table with `hr.postgres`, and no stream with `hr.outbox`",
            fix='declare one: `app.table("cards", hr.postgres("public.cards"), key="card")`',
        )
    return tuple(tables)


def _chosen(tables: Sequence[Captured], again: Sequence[str]) -> set[str] | None:
    """The tables to be read again; None for all, and the slot with them."""
    if EVERY in again:
        return None
    known = {one.name: one.table for one in tables} | {one.table: one.table for one in tables}
    for name in again:
        if name not in known:
            raise CaptureError(
                "HR-615",
                f"The app captures nothing that is called `{name}`.",
                found=f"tables: {', '.join(one.table for one in tables)}",
                fix=f"name one of them, or `{EVERY}`",
            )
    return {known[name] for name in again}


def _bytes(text: str, option: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter("a size is a number with kB, MB, GB or TB, such as 10GB", param_hint=option)
    return int(found[1]) * _UNITS[found[2].lower()]


@contextmanager
def _servers(settings: Settings) -> Iterator[tuple[Parts, str]]:
    """Kafka, and the address of the database."""
    source = settings.source or settings.postgres
    with Parts.start(settings, postgres=not source, report=terminal.note) as parts:
        if source:
            _check(source)
        yield parts, source or parts.postgres_url


def _check(url: str) -> None:
    """An address that cannot be read is an error; a server that is away is waited for."""
    try:
        address.require_postgres(url, seconds=3)
    except PartError as error:
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise error from None
        terminal.note(f"{error.what} The capture waits for it.")


class _Telling:
    """Writes the progress of the tables beside that of the queries, and says how they do."""

    def __init__(self, app: str, settings: Settings, warning: int, *, as_json: bool) -> None:
        self._app = app
        self._settings = settings
        self._warning = warning
        self._as_json = as_json
        self._started_at = _now()
        self._written = self._told = 0.0
        self._rates: dict[str, tuple[float, int]] = {}
        self._paused: set[str] = set()
        self._warned = False

    def tell(self, status: Status, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._written < PROGRESS_S:
            return
        self._written = now
        events = self._events(status)
        for event in events:
            progress.write(self._settings, event)
            if self._as_json:
                terminal.out_json(asdict(event))
        for one in status.tables:
            if one.paused and one.name not in self._paused:
                terminal.note(one.paused)
            (self._paused.add if one.paused else self._paused.discard)(one.name)
        held = status.health.held
        if held > self._warning and not self._warned:
            terminal.note(
                f"the server keeps {held:,} bytes of its log for this capture, which is {status.health.behind:,} behind"
            )
        self._warned = held > self._warning
        if not self._as_json and not last and now - self._told >= LINE_S:
            self._told = now
            terminal.note(line(events))

    def _events(self, status: Status) -> list[Progress]:
        now = time.monotonic()
        events: list[Progress] = []
        health = status.health
        for one in status.tables:
            query = f"{one.name}.{names.CAPTURE}"
            then, before = self._rates.get(query, (now, one.written))
            self._rates[query] = (now, one.written)
            error = str(status.error) if status.error else one.paused or status.waiting
            states: dict[str, progress.State] = {
                "starting": "starting",
                "running": "running",
                "waiting": "running",
                "stopped": "stopped",
                "failed": "failed",
            }
            events.append(
                Progress(
                    app=self._app,
                    query=query,
                    mode=names.CAPTURE,
                    state="failed" if one.paused else states[status.state],
                    at=_now(),
                    started_at=self._started_at,
                    pid=os.getpid(),
                    rows_in=one.written,
                    rows_per_second=round(max(0.0, (one.written - before) / (now - then)), 1) if now > then else 0.0,
                    event_time=_moment(health.at) if health.at else None,
                    dead=one.dead,
                    skipped=one.skipped,
                    wal={"held": health.held, "behind": health.behind, "seconds": round(health.seconds, 3)},
                    error=error,
                )
            )
        return events


def _moment(microseconds: int) -> str:
    moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _now() -> str:
    return _moment(time.time_ns() // 1000)
