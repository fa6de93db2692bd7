"""Following the database: `capture` writes what PostgreSQL commits to the log, for an app's tables and outboxes.

It needs Kafka and PostgreSQL, and no Spark. The database is `source` of the settings, else `postgres`, else the
embedded one. When either is away, it waits. SIGTERM and Ctrl-C end it in order with exit code 0; a second signal ends
it at once, which loses nothing. A table that cannot be followed is told of and the others go on; the exit code is then
1.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from headrace import names
from headrace.capture.capture import Capture, TableStatus
from headrace.capture.order import Order
from headrace.capture.session import Health
from headrace.capture.table import Captured
from headrace.cli import companion, terminal
from headrace.cli.companion import STEP_S, Companion, Stop
from headrace.cli.ending import For, ending_at
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.servers import serving
from headrace.engine import captured
from headrace.engine.progress import Progress, State
from headrace.errors import CaptureError, HeadraceError
from headrace.graph.graph import Graph
from headrace.log.connection import Connection
from headrace.settings import Settings

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
WARNING = "1GB"
SETTLED_S = 5.0
_STATES: dict[str, State] = {"starting": "starting", "waiting": "running", "stopped": "stopped", "failed": "failed"}


def capture(
    app: AppFile,
    *,
    snapshot_again: SnapshotAgain = None,
    wal_warning: WalWarning = WARNING,
    wal_limit: WalLimit = None,
    bootstrap: Bootstrap = None,
    lasting: For = None,
    as_json: AsJson = False,
) -> None:
    """Write what PostgreSQL commits to the log, until it is stopped."""
    settings = settings_at(app, bootstrap=bootstrap)
    until = ending_at(lasting)
    graph = load_app(app).graph()
    tables = _declared(graph)
    again = _chosen(tables, snapshot_again or ())
    warning = size(wal_warning, "--wal-warning")
    limit = None if wal_limit is None else size(wal_limit, "--wal-limit")
    stop = Stop()
    running: Capturing | None = None
    with stop.heeded(), serving(settings, source=True) as (parts, settings):
        url = settings.source or settings.postgres or ""
        companion.check(url, "The capture waits")
        order = Order(graph.app, url, Connection.of(settings, parts.bootstrap), tables, limit)
        with Capturing(order, settings, warning=warning, again=again) as running:
            stop.ready.set()
            companion.attend(running, stop, until, as_json=as_json)
        if as_json:
            companion.show(running, 0.0, as_json=True)
    if running is None:
        return
    running.check()
    terminal.note("stopped")
    if running.is_in_trouble:
        raise typer.Exit(1)


class Capturing(Companion):
    """The capture of an app; `error` says why it cannot go on. `again` are the tables to be read again: None is all."""

    def __init__(self, order: Order, settings: Settings, *, warning: int, again: Collection[str] | None = ()) -> None:
        super().__init__(order.app, names.CAPTURE, settings)
        self._capture = Capture(order, again=again or (), again_all=again is None, told=terminal.note)
        self._warning = warning
        self._warned = False
        self._paused: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._capture.run, args=(self._stop,), name="headrace-capture", daemon=True
        )

    @property
    def error(self) -> HeadraceError | None:
        return self._capture.status.error

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    @property
    def is_in_trouble(self) -> bool:
        return self.error is not None or any(one.paused for one in self._capture.status.tables)

    def settle(self, seconds: float = SETTLED_S) -> None:
        """Wait a moment for it to run; raise the error of one that cannot go on."""
        until = time.monotonic() + seconds
        while self._capture.status.state == "starting" and time.monotonic() < until:
            time.sleep(STEP_S / 4)
        self.check()

    def check(self) -> None:
        """Raise the error of one that cannot go on."""
        if self.error is not None:
            raise self.error

    def _begin(self) -> None:
        self._thread.start()

    def _end(self) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> list[Progress]:
        status = self._capture.status
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
        state = _STATES.get(status.state, "running")
        error = str(status.error) if status.error else status.waiting
        return [self._told_of(one, state, error, status.health) for one in status.tables]

    def _told_of(self, one: TableStatus, state: State, error: str | None, health: Health) -> Progress:
        return self._event(
            f"{one.name}.{names.CAPTURE}",
            "failed" if one.paused else state,
            one.written,
            event_time=_moment(health.at) if health.at else None,
            dead=one.dead,
            skipped=one.skipped,
            wal={"held": health.held, "behind": health.behind, "seconds": round(health.seconds, 3)},
            error=one.paused or error,
        )


def _declared(graph: Graph) -> tuple[Captured, ...]:
    """The tables and outboxes that an app captures; CaptureError HR-615 when there are none."""
    tables = captured.captured(graph)
    if not tables:
        raise CaptureError(
            "HR-615",
            f"The app `{graph.app}` captures nothing.",
            found="no table with `hr.postgres`, and no stream with `hr.outbox`",
            fix='declare one: `app.table("cards", hr.postgres("public.cards"), key="card")`',
        )
    return tables


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


def size(text: str, option: str) -> int:
    """A size in bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter("a size is a number with kB, MB, GB or TB, such as 10GB", param_hint=option)
    return int(found[1]) * _UNITS[found[2].lower()]


def _moment(microseconds: int) -> str:
    moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
