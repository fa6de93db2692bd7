"""`headrace new`: a directory with an app to begin with.

A template is a directory of `headrace/templates`, whose files hold the words below where the new app has something of
its own. The first block of its README is what `new` tells to do next. The directory appears whole or not at all, and
nothing that is there is overwritten.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from headrace import names
from headrace.cli import terminal
from headrace.errors import DeclarationError

TEMPLATES = Path(__file__).parent.parent / "templates"
_NAME, _DIRECTORY, _VERSION = "APP_NAME", "APP_DIRECTORY", "HEADRACE_VERSION"


class Template(StrEnum):
    """What a new app begins with."""

    EVENTS = "events"
    DATABASE = "database"
    DASHBOARD = "dashboard"


def new(
    place: Annotated[
        Path,
        typer.Argument(metavar="NAME", show_default=False, help="The name of the app, and of its directory."),
    ],
    template: Annotated[
        Template,
        typer.Option(
            help="events: a stream and alerts; database: tables of PostgreSQL, joined; dashboard: a view with charts."
        ),
    ] = Template.EVENTS,
) -> None:
    """Make a directory with an app to begin with, and say how to run it."""
    name = place.name.replace("-", "_")
    if not names.is_name(name):
        raise DeclarationError(
            "HR-048",
            "The name of an app begins with a letter, and goes on with letters, digits and underscores.",
            found=repr(str(place)),
            fix="choose another name, such as `headrace new shop`",
        )
    words = {_NAME: name, _DIRECTORY: shlex.quote(str(place)), _VERSION: version("headrace")}
    made = _make(place, TEMPLATES / template, words)
    terminal.out(f"made {place}: {', '.join(made)}")
    terminal.out("next:")
    for line in _commands(place / "README.md"):
        terminal.out(f"  {line}")


def _make(place: Path, template: Path, words: dict[str, str]) -> list[str]:
    """Write the files beside the place, and let them appear there together; gives their names."""
    if os.path.lexists(place):
        raise _refused(place, "it is there already", "choose another name, or take away what is there")
    making = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        making.mkdir(parents=True)
        try:
            files = [file for file in sorted(template.iterdir()) if file.is_file()]
            for file in files:
                text = file.read_text(encoding="utf-8")
                text = re.sub("|".join(words), lambda found: words[found.group()], text)
                (making / file.name).write_text(text, encoding="utf-8")
            making.rename(place)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
    except OSError as error:
        raise _refused(place, error.strerror or str(error), "choose a directory that you can write to") from error
    return [file.name for file in files if not file.name.startswith(".")]


def _refused(place: Path, found: str, fix: str) -> DeclarationError:
    return DeclarationError("HR-049", f"The directory {place} of the new app cannot be made.", found=found, fix=fix)


def _commands(readme: Path) -> list[str]:
    return readme.read_text(encoding="utf-8").split("```")[1].strip().splitlines()
