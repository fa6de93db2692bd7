"""Keeping the stores at what the log says: `follow` runs the followers of an app's views, and its webhooks.

SIGTERM and Ctrl-C end it in order with exit code 0; a second signal ends it at once, which loses nothing. A follower
that cannot go on, or does not end in time, makes the exit code 1.
"""

from __future__ import annotations

from typing import Annotated

import structlog
import typer

from headrace.cli import logs
from headrace.cli.ending import For, ending_at
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.status import printer
from headrace.services.background import attend
from headrace.services.followers import FollowerService, following
from headrace.services.stop import Stop

log = structlog.get_logger()

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Follow this view or stream and no other; can be given again.", show_default=False
    ),
]
Rebuild = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Empty the table of this view and fill it again from its topic; for a webhook, send everything again.",
        show_default=False,
    ),
]


def follow(
    app: AppFile,
    *,
    only: Only = None,
    rebuild: Rebuild = None,
    bootstrap: Bootstrap = None,
    lasting: For = None,
    as_json: AsJson = False,
) -> None:
    """Keep the tables of an app's views, and its webhooks, at what the log says."""
    logs.configure()
    settings = settings_at(app, bootstrap=bootstrap)
    until = ending_at(lasting)
    graph = load_app(app).graph()
    show, stop = printer(as_json=as_json), Stop()
    running: FollowerService | None = None
    with stop.heeded():
        with following(graph, settings, only=only or (), rebuild=rebuild or ()) as running:
            attend(running, stop, until, show)
            log.info("stopping")
        if as_json:
            show(running.events)
    if running is not None and running.is_in_trouble:
        raise typer.Exit(1)
