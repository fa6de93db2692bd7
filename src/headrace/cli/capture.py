"""Following the database: `capture` writes what PostgreSQL commits to the log, for an app's tables and outboxes.

SIGTERM and Ctrl-C end it in order with exit code 0; a second signal ends it at once, which loses nothing. A table that
cannot be followed makes the exit code 1.
"""

from __future__ import annotations

import re
from typing import Annotated

import structlog
import typer

from headrace.cli import logs
from headrace.cli.ending import For, ending_at
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.status import printer
from headrace.services.background import attend
from headrace.services.capture import CaptureService, capturing
from headrace.services.stop import Stop

log = structlog.get_logger()

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
    logs.configure()
    settings = settings_at(app, bootstrap=bootstrap)
    until = ending_at(lasting)
    graph = load_app(app).graph()
    warning = _size(wal_warning, "--wal-warning")
    limit = None if wal_limit is None else _size(wal_limit, "--wal-limit")
    show, stop = printer(as_json=as_json), Stop()
    running: CaptureService | None = None
    with stop.heeded():
        with capturing(graph, settings, again=snapshot_again or (), warning=warning, limit=limit) as running:
            attend(running, stop, until, show)
        if as_json:
            show(running.events)
    if running is None:
        return
    running.check()
    log.info("stopped")
    if running.is_in_trouble:
        raise typer.Exit(1)


def _size(text: str, option: str) -> int:
    """A size in bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter("a size is a number with kB, MB, GB or TB, such as 10GB", param_hint=option)
    return int(found[1]) * _UNITS[found[2].lower()]
