"""All commands as one, with what holds for every one of them: errors as text, exit codes, a quiet end of a pipe.

An error of Headrace is printed without a traceback, because it says where and what to do; `HEADRACE_DEBUG=1` shows the
traceback too. Any other exception is a fault of ours and always shows its own.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.cli import (
    capture,
    certify,
    console,
    dead,
    declaration,
    doctor,
    follow,
    lateness,
    parts,
    promote,
    replay,
    run,
    serve,
    slot,
    state,
    status,
    terminal,
    topic,
    versions,
)
from headrace.errors import HeadraceError

DEBUG_VARIABLE = "HEADRACE_DEBUG"


class _Commands(TyperGroup):
    """A group that turns errors into text and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except HeadraceError as error:
            if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
                raise
            terminal.fail(error)
        raise typer.Exit(1)


app = typer.Typer(
    name="headrace",
    cls=_Commands,
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


app.command(epilog="Example: `headrace check app.py`")(declaration.check)
app.command(epilog="Example: `headrace graph app.py --mermaid > graph.mmd`")(declaration.graph)
app.command(epilog="Example: `headrace explain HR-014`")(declaration.explain)
app.command(epilog="Example: `headrace dev app.py`")(run.dev)
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
app.add_typer(versions.commands, name="versions")
app.add_typer(topic.commands, name="topic")
app.add_typer(dead.commands, name="dead")
app.add_typer(slot.commands, name="slot")
app.add_typer(parts.commands, name="parts")
app.command()(parts.setup)


def main() -> None:
    """The entry point of the command `headrace`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="headrace")
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output once more when it ends, and must find something that takes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
