"""`replay`: a version of a query, built from history beside the current one, and how it differs.

It reads what the log holds by the time it starts, in exact mode, and ends. Interrupted or killed, it goes on when it is
called again. Nothing that is current changes: `promote` makes a version current.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import table, terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.run import Checkpoints, Master
from headrace.cli.status import line
from headrace.engine import captured
from headrace.log.connection import Connection
from headrace.services.servers import serving
from headrace.services.stop import signals

if TYPE_CHECKING:
    from headrace.engine.replay import Built

LONGEST_CELL = 100

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The view or stream.")]


def replay(
    app: AppFile,
    name: Name,
    *,
    version: Annotated[
        str, typer.Option("--as", metavar="VERSION", help="What the version is called, such as v2.", show_default=False)
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="beginning, a time in ISO 8601, or positions such as payments[0]@42,payments[1]@17.",
            show_default="beginning",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Take away what there is of this version first.")] = False,
    samples: Annotated[
        int, typer.Option("--samples", min=0, max=1000, help="How many rows of each kind are shown.")
    ] = 5,
    master: Master = None,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    as_json: AsJson = False,
) -> None:
    """Build a version of a view or stream from history, beside the current one, and show how it differs."""
    settings = settings_at(app, master=master, bootstrap=bootstrap, checkpoints=checkpoints)
    graph = load_app(app).graph()
    # Spark is loaded only by the commands that run it.
    from headrace.engine.replay import build

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def tell(text: str) -> None:
        signal.signal(signal.SIGINT, stop)  # Spark takes it for itself when it starts
        terminal.note(text)

    source = captured.asks(graph)
    with signals(stop), serving(settings, source=source, report=terminal.note) as (parts, settings):
        built = build(
            graph,
            name,
            version,
            start=start,
            again=again,
            drop_also=lambda view: table.drop(settings, view),
            samples=samples,
            settings=settings,
            bootstrap=parts.bootstrap,
            report=tell,
            show=lambda events: tell(line(events)) if events else None,
        )
        if built.version.of.kind == "view":
            table.fill(settings, built.version.of, Connection.of(settings, parts.bootstrap))
    if as_json:
        terminal.out_json(_as_json(built))
    else:
        _show(built)


def _as_json(built: Built) -> dict[str, Any]:
    told = asdict(built.difference)
    told["samples"] = [asdict(one) for one in built.difference.samples]
    of = built.version.of
    head = {"app": of.app, "query": of.view, "version": of.version, "topic": of.topic, "against": built.against}
    return head | told | {"behind": dict(built.behind)}


def _show(built: Built) -> None:
    found, name, new, old = built.difference, built.version.of.view, built.version.name, built.against
    counts = [("the same", found.same), ("added", found.added), ("removed", found.removed), ("changed", found.changed)]
    terminal.out(f"{name}, {new} beside {old}: " + ", ".join(f"{count:,} {what}" for what, count in counts))
    rows = [
        (one.what, *(() if one.key is None else (_cell(one.key),)), _row(one.old), _row(one.new))
        for one in found.samples
    ]
    if rows:
        header = ("row", *(("key",) if len(rows[0]) == 4 else ()), old, new)
        terminal.out(terminal.columns(rows, header))
    for one, count in built.behind.items():
        if count:
            terminal.note(f"{one} has yet to read {count:,} records of its input, which may be some of the difference")
    terminal.note(f"make it current: headrace promote … {name} --version {new}")


def _row(row: Mapping[str, Any] | None) -> str | None:
    return None if row is None else _cell(json.dumps(row, ensure_ascii=False))


def _cell(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"
