"""What holds for every command: errors as text, exit codes, a quiet end of a pipe.

An error of Headrace is printed without a traceback, because it says where and what to do; `HEADRACE_DEBUG=1` shows the
traceback too. Any other exception is a fault of ours and always shows its own.

`check` is asked for again and again while one writes, and needs little. It begins without the modules of the other
commands, which take longer to load than it takes.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

from headrace.cli import terminal
from headrace.errors import HeadraceError

DEBUG_VARIABLE = "HEADRACE_DEBUG"


class Commands(TyperGroup):
    """A group that turns errors into text and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except HeadraceError as error:
            if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
                raise
            terminal.fail(error)
        raise typer.Exit(1)


def _commands(arguments: list[str]) -> typer.Typer:
    if arguments[:1] == ["check"]:
        from headrace.cli.check import EXAMPLES, check

        alone = typer.Typer(cls=Commands, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        alone.callback()(lambda: None)
        alone.command(epilog=EXAMPLES)(check)
        return alone
    from headrace.cli.command import app

    return app


def main() -> None:
    """The entry point of the command `headrace`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            _commands(sys.argv[1:])(prog_name="headrace")
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output once more when it ends, and must find something that takes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
