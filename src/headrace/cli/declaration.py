"""What is declared, without running it: `graph`, and `explain` for what was wrong."""

from __future__ import annotations

import difflib
import json
import re
from typing import Annotated

import typer

from headrace import errors
from headrace.cli import terminal
from headrace.cli.place import AppFile, AsJson, load_app
from headrace.graph import description

_CODE = re.compile(r"(?:HR-?)?(\d{1,3})", re.IGNORECASE)


def graph(
    app: AppFile,
    as_json: AsJson = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print a Mermaid flow chart.")] = False,
) -> None:
    """Show what the app declares, what becomes a topic, and which query writes it."""
    if as_json and mermaid:
        raise typer.BadParameter("choose one of --json and --mermaid")
    declared = load_app(app).graph()
    if as_json:
        terminal.out(json.dumps(description.as_json(declared), indent=2))
    else:
        terminal.out((description.mermaid(declared) if mermaid else description.text(declared)).rstrip("\n"))


def explain(
    code: Annotated[str | None, typer.Argument(help="An error code, such as HR-014 or 14.", show_default=False)] = None,
) -> None:
    """Explain an error code, or list all of them."""
    if code is None:
        terminal.out(terminal.columns((one, errors.title(one)) for one in errors.codes()))
        return
    match = _CODE.fullmatch(code.strip())
    known = f"HR-{int(match[1]):03}" if match else code
    text = errors.explanation(known) if match else None
    if text is None:
        near = difflib.get_close_matches(known, errors.codes(), n=3)
        hint = f"Near it are {', '.join(near)}. " if near else ""
        raise typer.BadParameter(f"there is no error code {known}. {hint}`headrace explain` lists all codes.")
    terminal.page(text)
