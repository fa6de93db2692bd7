"""Running the queries of an app: `run`, for production.

`headrace capture` and `headrace follow` run beside it, wherever they are put. SIGTERM and Ctrl-C end a run in order:
the queries, then Spark, then the parts that were started here, and the exit code is 0. A second signal ends it at once;
what was read and not committed is read again by the next run. A batch that is interrupted is not complete, and its exit
code says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from headrace.cli import logs
from headrace.cli.ending import For, seconds
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.status import printer
from headrace.engine.mode import Mode
from headrace.services import queries
from headrace.services.background import STEP_S, Show
from headrace.services.stop import Stop, signals

if TYPE_CHECKING:
    from headrace.engine.run import Run

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


log = structlog.get_logger()


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
    logs.configure()
    settings = settings_at(app, master=master, bootstrap=bootstrap, checkpoints=checkpoints)
    lasting_s, show, stop = seconds(lasting), printer(as_json=as_json), Stop()
    declared = load_app(app)
    started: Run | None = None
    heeded: AbstractContextManager[None] = _interrupted() if mode is Mode.BATCH else stop.heeded()
    try:
        with heeded, queries.running(declared, settings, mode=mode, only=only or ()) as started:
            if mode is not Mode.BATCH:
                _watch(started, stop, lasting_s, show)
                started.check(last=True)
                log.info("stopping")
    finally:
        if started is not None and as_json:
            show(started.progress())


def _watch(run: Run, stop: Stop, lasting_s: float | None, show: Show) -> None:
    stop.ready.set()
    until = math.inf if lasting_s is None else time.monotonic() + lasting_s
    while not stop.asked.is_set() and (left := until - time.monotonic()) > 0:
        run.wait(min(STEP_S, left))
        show(run.progress())


@contextmanager
def _interrupted() -> Iterator[None]:
    """Inside, a signal interrupts what is done."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with signals(interrupt):
        yield
