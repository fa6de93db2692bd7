"""Running an app: `run` for production, `dev` for a laptop.

`run` runs the queries, and `headrace capture` and `headrace follow` run beside it, wherever they are put. `dev` does
all of it: it captures the app's tables, and where it has a PostgreSQL, of the settings or to capture from, it keeps the
tables of the views there. A capture that cannot go on ends it. Webhooks are left to `headrace follow`.

Kafka is the one of the settings; without an address it is the embedded one, found or started. SIGTERM and Ctrl-C end a
run in order: the queries, then Spark, then the parts that were started here, and the exit code is 0. A second signal
ends it at once; what was read and not committed is read again by the next run. A batch that is interrupted is not
complete, and its exit code says so. When this process is killed with -9, the parts that it started end with it.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headrace.capture.order import Order
from headrace.cli import capture, companion, follow, terminal
from headrace.cli.capture import Capturing
from headrace.cli.companion import STEP_S, Companion
from headrace.cli.ending import For, seconds, signals
from headrace.cli.follow import Following
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.servers import serving
from headrace.cli.status import line, screen
from headrace.engine import captured, version
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress
from headrace.graph.graph import Graph
from headrace.graph.plan import plan
from headrace.log.connection import Connection
from headrace.serve.beside import Beside
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.engine.run import Run

LINE_S = 5.0
LIVE_S = 1.0

Show = Callable[[Sequence[Progress]], None]
Master = Annotated[
    str | None, typer.Option(help="The Spark master, such as spark://host:7077.", show_default="this machine")
]
Checkpoints = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Where checkpoints are kept.", show_default=".headrace beside the app"),
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Run this query and not the others; can be given again.", show_default=False),
]


def run(
    app: AppFile,
    *,
    mode: Annotated[
        Mode, typer.Option(help="live: in milliseconds; exact: in recorded batches; batch: over all of history, once.")
    ] = Mode.EXACT,
    master: Master = None,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    only: Only = None,
    lasting: For = None,
    as_json: AsJson = False,
) -> None:
    """Run the queries of an app until it is stopped."""
    settings = settings_at(app, master=master, bootstrap=bootstrap, checkpoints=checkpoints)
    ending = _Ending(seconds(lasting), LIVE_S if as_json else LINE_S)
    if not as_json:
        _carry_out(app, settings, mode=mode, only=only or (), ending=ending, shown=lambda *_: nullcontext(_tell))
        return
    printed: dict[str, str] = {}

    def show(events: Sequence[Progress]) -> None:
        for event in events:
            if printed.get(event.query) != event.at:
                printed[event.query] = event.at
                terminal.out_json(asdict(event))

    _carry_out(app, settings, mode=mode, only=only or (), ending=ending, shown=lambda *_: nullcontext(show), ended=show)


def dev(
    app: AppFile,
    *,
    master: Master = None,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    only: Only = None,
    lasting: For = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port of the console.", show_default="8600, or a free one"),
    ] = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Open no console.")] = False,
) -> None:
    """Run an app live on this machine, with everything it needs, and show what happens, also in the browser."""
    settings = settings_at(app, master=master, bootstrap=bootstrap, checkpoints=checkpoints)
    ending = _Ending(seconds(lasting), LIVE_S if Console().is_terminal else LINE_S)

    @contextmanager
    def shown(graph: Graph, address: str) -> Iterator[Show]:
        with ExitStack() as stack:
            rows = _places(graph, settings, address)
            if not no_console:
                console = stack.enter_context(Beside(app, port=port, bootstrap=settings.bootstrap))
                rows.insert(0, ("console", console.wait() or f"did not start: {console.failure}"))
            terminal.out(terminal.columns(rows))
            yield stack.enter_context(screen())

    _carry_out(app, settings, mode=Mode.LIVE, only=only or (), ending=ending, shown=shown, alone=False)


@dataclass(frozen=True)
class _Ending:
    """When a run ends by itself, and how often it is shown until then."""

    seconds: float | None
    every: float


def _carry_out(
    file: Path,
    settings: Settings,
    *,
    mode: Mode,
    only: Sequence[str],
    ending: _Ending,
    shown: Callable[[Graph, str], AbstractContextManager[Show]],
    ended: Show = lambda events: None,
    alone: bool = True,
) -> None:
    """Run the app to its end; `ended` gets the last event of every query, also of a run that failed. Unless `alone`,
    its capture and the followers of its views run beside it."""
    app = load_app(file)
    graph = app.graph()
    # Spark is loaded only by the commands that run it.
    from headrace.engine.run import Run

    run: Run | None = None
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if run is None or stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()
        run.request_stop()

    tables = () if alone else captured.captured(graph)
    beside: list[Companion] = []
    try:
        with (
            signals(stop),
            serving(settings, source=bool(tables or captured.asks(graph))) as (parts, known),
            ExitStack() as stack,
        ):
            connection = Connection.of(known, parts.bootstrap)
            if tables:
                url = known.source or known.postgres or ""
                companion.check(url, "The capture waits")
                order = Order(graph.app, url, connection, tables)
                warning = capture.size(capture.WARNING, "--wal-warning")
                capturing = stack.enter_context(Capturing(order, known, warning=warning))
                beside.append(capturing)
                capturing.settle()
            with Run.start(
                app, mode=mode, settings=known, bootstrap=parts.bootstrap, only=only, report=terminal.note
            ) as run:
                signal.signal(signal.SIGINT, stop)  # Spark has taken it for itself
                followers = follow.tables(graph, known.postgres, connection) if known.postgres and not alone else []
                if followers:
                    beside.append(stack.enter_context(Following(graph.app, known, connection, followers)))
                if mode is not Mode.BATCH:
                    with shown(version.current(graph, run.connection), parts.bootstrap) as show:
                        _watch(run, stopped, ending, show, beside)
                    terminal.note("stopping")
    except KeyboardInterrupt:
        if run is not None or mode is Mode.BATCH:
            raise
        terminal.note("stopped before a query ran")
    finally:
        if run is not None:
            ended(run.progress())
    if any(one.is_in_trouble for one in beside):
        raise typer.Exit(1)


def _watch(run: Run, stopped: threading.Event, ending: _Ending, show: Show, beside: Sequence[Companion]) -> None:
    until = math.inf if ending.seconds is None else time.monotonic() + ending.seconds
    shown = -math.inf
    while not stopped.is_set() and (left := until - time.monotonic()) > 0:
        run.wait(min(STEP_S, left))
        for one in beside:
            one.step()
            if isinstance(one, Capturing):
                one.check()
        if time.monotonic() - shown >= ending.every:
            shown = time.monotonic()
            show([*run.progress(), *(event for one in beside for event in one.events)])


def _tell(events: Sequence[Progress]) -> None:
    if events:
        terminal.note(line(events))


def _places(graph: Graph, settings: Settings, address: str) -> list[tuple[str, str]]:
    queries = plan(graph)
    reads = {name for query in queries for name in query.reads}
    rows = [("Kafka", address), ("state", str(settings.state))]
    rows += [("input", graph.node(name).topic) for name in sorted(reads - {query.node.name for query in queries})]
    rows += [("result", query.node.topic) for query in queries]
    return rows
