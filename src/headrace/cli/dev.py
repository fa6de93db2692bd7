"""All of an app on this machine: `dev`, with everything that it needs.

SIGTERM and Ctrl-C end it in order, with exit code 0; a second signal ends it at once, which loses nothing. A captured
table or a follower that cannot go on makes the exit code 1.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Annotated

import structlog
import typer
from rich.console import Console

from headrace.cli import logs, terminal
from headrace.cli.ending import For, seconds
from headrace.cli.place import AppFile, Bootstrap, settings_at
from headrace.cli.run import Checkpoints, Master, Only
from headrace.cli.status import LINE_S, screen
from headrace.services import fresh as fresh_start
from headrace.services.development import Development
from headrace.services.stop import Stop

LIVE_S = 1.0

log = structlog.get_logger()


def dev(
    app: AppFile,
    *,
    master: Master = None,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    only: Only = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Remove the topics, tables, checkpoints and progress of the embedded servers first."
        ),
    ] = False,
    no_reload: Annotated[
        bool, typer.Option("--no-reload", help="Let the app go on as it is when its files are saved.")
    ] = False,
    no_webhooks: Annotated[bool, typer.Option("--no-webhooks", help="Call no webhooks.")] = False,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Do not serve the views over HTTP.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="The port of the console and the views.", show_default="8600, or a free one"
        ),
    ] = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Open no console.")] = False,
    lasting: For = None,
) -> None:
    """Run all of an app live on this machine, with everything it needs, and show what happens, also in the browser."""
    logs.configure()
    settings = settings_at(app, master=master, bootstrap=bootstrap, checkpoints=checkpoints)
    lasting_s = seconds(lasting)
    all_of_it = Development(
        app,
        settings,
        only=only or (),
        webhooks=not no_webhooks,
        serve=not no_serve,
        console=not no_console,
        port=port,
        fresh=fresh,
        watch=not no_reload,
    )
    if fresh and sys.stdin.isatty() and (removed := fresh_start.held(settings)):
        terminal.note("\n".join(f"- {one}" for one in removed))
        typer.confirm("Remove all of this?", abort=True, err=True)
    stop = Stop()
    with stop.heeded(), all_of_it as running:
        stop.ready.set()
        terminal.out(terminal.columns(running.places))
        _watch(running, stop, lasting_s)
        log.info("stopping")
    if all_of_it.is_in_trouble:
        raise typer.Exit(1)


def _watch(running: Development, stop: Stop, lasting_s: float | None) -> None:
    every = LIVE_S if Console().is_terminal else LINE_S
    until = math.inf if lasting_s is None else time.monotonic() + lasting_s
    shown = -math.inf
    with screen() as show:
        while not stop.asked.is_set() and time.monotonic() < until:
            running.step()
            if time.monotonic() - shown >= every:
                shown = time.monotonic()
                show(running.events)
