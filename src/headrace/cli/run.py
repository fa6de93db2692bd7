"""Running an app: `run` for production, `dev` for a laptop.

Kafka is the one of the settings; without an address it is the embedded one, found or started. SIGTERM and Ctrl-C end a
run in order: the queries, then Spark, then the parts that were started here, and the exit code is 0. A second signal
ends it at once; what was read and not committed is read again by the next run. When this process is killed with -9,
the parts that it started end with it.
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import duration
from headrace.cli import terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.status import line, screen
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress
from headrace.graph.graph import Graph
from headrace.graph.plan import plan
from headrace.parts.embedded import Parts
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
    str | None, typer.Option(metavar="PATH", help="Where checkpoints are kept.", show_default=".headrace beside the app")
]
Only = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Run this query and not the others; can be given again.", show_default=False),
]
For = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="End after this time, such as 60s.", show_default=False)
]


def run(
    app: AppFile,
    mode: Annotated[
        Mode, typer.Option(help="live answers in milliseconds, exact in transactions, batch over all of history, once.")
    ] = Mode.EXACT,
    master: Master = None,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    only: Only = None,
    lasting: For = None,
    as_json: AsJson = False,
) -> None:
    """Run the queries of an app until it is stopped."""
    seconds = _seconds(lasting)
    settings = settings_at(app, master=master, bootstrap=bootstrap, checkpoints=checkpoints)
    shown: dict[str, str] = {}

    def show(events: Sequence[Progress]) -> None:
        for event in events:
            if shown.get(event.query) != event.at:
                shown[event.query] = event.at
                terminal.out_json(asdict(event))

    if as_json:
        _carry_out(app, settings, mode, only or (), seconds, LIVE_S, show)
    else:
        _carry_out(app, settings, mode, only or (), seconds, LINE_S, lambda events: terminal.note(line(events)))


def dev(
    app: AppFile,
    master: Master = None,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    only: Only = None,
    lasting: For = None,
) -> None:
    """Run an app live on this machine, with everything it needs, and show what happens."""
    seconds = _seconds(lasting)
    settings = settings_at(app, master=master, bootstrap=bootstrap, checkpoints=checkpoints)
    with screen() as show:
        _carry_out(app, settings, Mode.LIVE, only or (), seconds, LIVE_S, show, places=True)
