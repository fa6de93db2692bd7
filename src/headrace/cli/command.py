"""All commands as one."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from headrace.cli import (
    capture,
    certify,
    check,
    console,
    dead,
    declaration,
    dev,
    doctor,
    follow,
    lateness,
    new,
    parts,
    promote,
    replay,
    reset,
    run,
    serve,
    setup,
    slot,
    state,
    status,
    terminal,
    topic,
    versions,
)
from headrace.cli.entry import Commands

app = typer.Typer(
    name="headrace",
    cls=Commands,
    help="Stream processing for Python teams, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _print_version(asked: bool) -> None:
    if asked:
        terminal.out(f"headrace {version('headrace')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command(epilog="Examples:\n\n`headrace new shop`\n\n`headrace new shop --template dashboard`")(new.new)
app.command(epilog=check.EXAMPLES)(check.check)
app.command(epilog="Example: `headrace graph app.py --mermaid > graph.mmd`")(declaration.graph)
app.command(epilog="Example: `headrace explain HR-014`")(declaration.explain)
app.command(epilog="Examples:\n\n`headrace dev app.py`\n\n`headrace dev app.py --fresh`")(dev.dev)
app.command(
    epilog="Examples:\n\n`headrace run app.py --mode live`\n\n"
    "`headrace run app.py --master spark://host:7077 --bootstrap broker:9092 --checkpoints s3a://bucket/checkpoints`"
)(run.run)
app.command(epilog="Examples:\n\n`headrace follow app.py`\n\n`headrace follow app.py --only totals --rebuild totals`")(
    follow.follow
)
app.command(epilog="Examples:\n\n`headrace capture app.py`\n\n`headrace capture app.py --snapshot-again public.cards`")(
    capture.capture
)
app.command(epilog="Example: `headrace status --watch`")(status.status)
app.command(epilog="Example: `headrace state alerts`")(state.state)
app.command(epilog="Example: `headrace lateness app.py transactions`")(lateness.lateness)
app.command(epilog="Example: `headrace doctor app.py --repair`")(doctor.doctor)
app.command(epilog="Example: `headrace certify app.py --kills 20 --seed 7`")(certify.certify)
app.command(epilog="Example: `headrace console app.py`")(console.console)
app.command(epilog="Example: `headrace serve app.py --port 8600`")(serve.serve)
app.command(
    epilog="Examples:\n\n`headrace replay app.py totals --as v2`\n\n"
    "`headrace replay app.py totals --as v2 --from 2026-03-01T00:00:00Z`"
)(replay.replay)
app.command(
    epilog="Examples:\n\n`headrace promote app.py totals --version v2`\n\n"
    "`headrace promote app.py totals --version first`"
)(promote.promote)
app.command(epilog="Examples:\n\n`headrace reset app.py totals`\n\n`headrace reset app.py alerts --repeats`")(
    reset.reset
)
app.add_typer(versions.commands, name="versions")
app.add_typer(topic.commands, name="topic")
app.add_typer(dead.commands, name="dead")
app.add_typer(slot.commands, name="slot")
app.add_typer(parts.commands, name="parts")
app.command(epilog="Example: `headrace setup`")(setup.setup)
