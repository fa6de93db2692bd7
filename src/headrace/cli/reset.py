"""`reset`: let a query begin again, over what it has written, after telling what that does."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, connection_at, load_app, settings_at
from headrace.cli.replay import Name
from headrace.cli.run import Checkpoints
from headrace.engine import checkpoint
from headrace.engine.reset import Reset


def reset(
    app: AppFile,
    name: Name,
    *,
    repeats: Annotated[
        bool, typer.Option("--repeats", help="Accept that whoever reads the stream gets every row again.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    as_json: AsJson = False,
) -> None:
    """Let a view or stream begin again: a view is rebuilt, a stream is written once more."""
    settings = settings_at(app, bootstrap=bootstrap, checkpoints=checkpoints)
    wanted = Reset(load_app(app).graph(), name, connection_at(app, bootstrap), settings)
    consequences = list(wanted.consequences())
    for one in consequences:
        terminal.note(f"- {one}")
    if (wanted.is_view or repeats) and not yes:
        typer.confirm(f"Reset `{name}`?", abort=True, err=True)
    deleted = wanted.run(repeats=repeats)
    if checkpoint.local(wanted.place) is None:
        terminal.note(f"the checkpoint is not on a file system: remove it yourself, {wanted.place}")
    if as_json:
        terminal.out_json({"query": wanted.query.name, "topic": wanted.query.node.topic, "deleted": deleted})
    else:
        rows = f", and {deleted:,} rows are deleted from {wanted.query.node.topic}" if wanted.is_view else ""
        terminal.out(f"{name} begins again with the next run{rows}")
