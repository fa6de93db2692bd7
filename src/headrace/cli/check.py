"""Everything that is wrong with an app, inside of its functions too: `check`.

A helper process that keeps Spark warm answers (engine/checker.py), so that a check takes about a second after the first
one; without a helper Spark is started for it here. Neither Kafka nor PostgreSQL is asked, and nothing is written beside
the app. The command is called while one writes: it loads little, and not what the other commands need.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace import duration
from headrace.cli import terminal
from headrace.cli.argument import AppFile, AsJson
from headrace.engine import checker
from headrace.engine.mode import Mode
from headrace.errors import together

EXAMPLES = "Examples:\n\n`headrace check app.py`\n\n`headrace check app.py --mode exact`"
CHECKED = (Mode.LIVE, Mode.EXACT)


def check(
    app: AppFile,
    mode: Annotated[Mode | None, typer.Option(help="Check for this mode only.", show_default="live and exact")] = None,
    within: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the file, and its functions, may take.")
    ] = f"{checker.WITHIN_S:g}s",
    no_helper: Annotated[
        bool, typer.Option("--no-helper", help="Start Spark for this check, and leave no process behind.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say nothing when an app is right, and everything that is wrong with it and its functions when not."""
    try:
        within_s = duration.parse(within) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--within") from None
    modes = CHECKED if mode is None else (mode,)
    answer = None if no_helper else checker.ask(app, modes, within_s)
    if answer is None:
        # Without a helper it is this process that needs Spark.
        from headrace.engine.check import look

        found = look(app, modes, within_s)
        errors, unchecked = found.errors, found.unchecked
    else:
        errors, unchecked = checker.heard(answer)
    for name, why in unchecked.items():
        terminal.note(f"not checked: {name}: {why}")
    if as_json:
        terminal.out_json([error.as_dict() for error in errors])
    if errors:
        raise typer.Exit(1) if as_json else together(errors)
