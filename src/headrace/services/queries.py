"""The queries of an app, checked before anything else starts.

Spark is started first and every function called, as `headrace check` does it: what is wrong is told while there is
neither a server nor a topic. Kafka is the one of the settings; without an address it is the embedded one, found or
started. The queries end before Spark, and Spark before the servers that were started here. When this process is killed
with -9, they end with it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog

from headrace.app import App
from headrace.engine import captured
from headrace.engine.mode import Mode
from headrace.graph.graph import Graph
from headrace.services.servers import serving
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.engine.run import Run

Spark = Any
"""A Spark session: this room does not know what that is, and hands it on."""

log = structlog.get_logger()


@contextmanager
def running(app: App, settings: Settings, *, mode: Mode, only: Sequence[str] = ()) -> Iterator[Run]:
    """A run of an app's queries, or of those in `only`, with the servers that it needs."""
    # Spark is loaded only by those who run it.
    from headrace.engine.run import Run

    graph = app.graph()
    with (
        checked(graph, settings, mode=mode, only=only) as spark,  # the run ends it before the servers, if there is one
        serving(settings, source=captured.asks(graph)) as (parts, known),
        Run.start(
            app,
            mode=mode,
            settings=known,
            bootstrap=parts.bootstrap,
            only=only,
            spark=spark,
            ends_spark=True,
            report=log.info,
        ) as run,
    ):
        yield run


@contextmanager
def checked(graph: Graph, settings: Settings, *, mode: Mode, only: Sequence[str] = ()) -> Iterator[Spark]:
    """A Spark session for a run that is yet to start, when nothing is wrong with the functions that it will call."""
    from headrace.engine.run import prepared

    with _signals_kept():
        spark = prepared(graph, mode=mode, settings=settings, only=only, report=log.info)
    try:
        yield spark
    finally:
        end(spark)


def end(spark: Spark) -> None:
    """Stop a session; one that has ended stays so."""
    from headrace.engine import session

    session.end(spark)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """PySpark takes Ctrl-C for itself when it starts; afterwards it is whose it was."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
