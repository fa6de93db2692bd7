"""What the operators of the queries remember: keys and bytes, from the progress files of the last run."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import HERE, AsJson, Directory, settings_at
from headrace.engine import progress
from headrace.errors import RunError

_HEADER = ("query", "operator", "keys", "bytes", "watermark")


def state(
    query: Annotated[str | None, typer.Argument(help="Only this query.", show_default=False)] = None,
    directory: Directory = HERE,
    as_json: AsJson = False,
) -> None:
    """Show how much each operator remembers: keys (once for each pane or slice of time) and bytes in the store."""
    settings = settings_at(directory)
    events = [event for app in progress.apps(settings) for event in progress.latest(settings, app)]
    chosen = [event for event in events if query in (None, event.query)]
    if query is not None and not chosen:
        raise RunError(
            "HR-311",
            f"There is no query `{query}`.",
            found=f"queries: {', '.join(sorted({event.query for event in events})) or 'none'}",
            fix="name one of them; `headrace status` shows them",
        )
    rows = [
        (event.query, name, held["keys"], held["bytes"], event.watermark)
        for event in chosen
        for name, held in sorted(event.operators.items())
    ]
    stores = [
        (event.query, "(store)", event.state_rows, event.state_bytes, event.watermark)
        for event in chosen
        if event.state_rows is not None
    ]
    if as_json:
        names = ("query", "operator", "keys", "bytes", "watermark")
        terminal.out_json([dict(zip(names, row, strict=True)) for row in [*rows, *stores]])
    elif rows or stores:
        terminal.out(terminal.columns(sorted([*rows, *stores], key=lambda row: (row[0], row[1])), _HEADER))
    else:
        terminal.note("no query keeps a state")
