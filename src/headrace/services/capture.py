"""Following the database: what PostgreSQL commits is written to the log, for an app's tables and outboxes.

It needs Kafka and PostgreSQL, and no Spark. The database is `source` of the settings, else `postgres`, else the
embedded one. When either is away, it waits. A table that cannot be followed is told of, and the others go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import structlog

from headrace import names
from headrace.capture.capture import Capture, TableStatus
from headrace.capture.order import Order
from headrace.capture.session import Health
from headrace.capture.table import Captured
from headrace.engine import captured
from headrace.engine.progress import Progress, State
from headrace.errors import CaptureError, HeadraceError
from headrace.graph.graph import Graph
from headrace.log.connection import Connection
from headrace.services.background import STEP_S, BackgroundService
from headrace.services.servers import look, serving
from headrace.settings import Settings

EVERY = "all"
WARNING = 1024**3
SETTLED_S = 5.0
_STATES: dict[str, State] = {"starting": "starting", "waiting": "running", "stopped": "stopped", "failed": "failed"}

log = structlog.get_logger()


@contextmanager
def capturing(
    graph: Graph, settings: Settings, *, again: Sequence[str] = (), warning: int = WARNING, limit: int | None = None
) -> Iterator[CaptureService]:
    """The capture of an app with the servers that it needs. Tables in `again` are read again, or `all`, which also
    makes a lost slot anew. It warns when the server keeps more than `warning` bytes of its log, and drops the slot and
    halts beyond `limit`."""
    tables = _declared(graph)
    chosen = _chosen(tables, again)
    with serving(settings, source=True) as (parts, known):
        order = ordered(graph, tables, known, parts.bootstrap, limit)
        with CaptureService(order, known, warning=warning, again=chosen) as running:
            yield running


def ordered(
    graph: Graph, tables: tuple[Captured, ...], settings: Settings, bootstrap: str, limit: int | None = None
) -> Order:
    """What is to be captured where; a database that is away is told of."""
    url = settings.source or settings.postgres or ""
    look(url, "The capture waits")
    return Order(graph.app, url, Connection.of(settings, bootstrap), tables, limit)


class CaptureService(BackgroundService):
    """The capture of an app; `error` says why it cannot go on. `again` are the tables to be read again: None is all."""

    def __init__(
        self, order: Order, settings: Settings, *, warning: int = WARNING, again: Collection[str] | None = ()
    ) -> None:
        super().__init__(order.app, names.CAPTURE, settings)
        self._capture = Capture(order, again=again or (), again_all=again is None, told=log.info)
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
                log.error(one.paused)
            (self._paused.add if one.paused else self._paused.discard)(one.name)
        held = status.health.held
        if held > self._warning and not self._warned:
            log.warning(
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


def _moment(microseconds: int) -> str:
    moment = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
