"""The embedded servers from the command line.

`up` leaves the parts running until `down`; parts that an app started belong to it and end with it. The password of
PostgreSQL is printed only when it is asked for: by `env`, which is for programs, and by `status --show-url`.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import HERE, AsJson, Directory, settings_at
from headrace.errors import PartError
from headrace.parts import kafka, postgres
from headrace.parts.embedded import Parts, PartStatus
from headrace.settings import Settings

_VARIABLES = {kafka.NAME: "HEADRACE_BOOTSTRAP", postgres.NAME: "HEADRACE_POSTGRES"}

commands = typer.Typer(help="Start, stop and show the embedded Kafka and PostgreSQL.", no_args_is_help=True)


@commands.command()
def up(
    with_postgres: Annotated[
        bool, typer.Option("--postgres/--no-postgres", help="PostgreSQL as well as Kafka.")
    ] = True,
    directory: Directory = HERE,
    as_json: AsJson = False,
) -> None:
    """Start the parts and leave them running until `headrace parts down`."""
    settings = settings_at(directory)
    Parts.start(settings, postgres=with_postgres, detached=True, report=terminal.note)
    _show(settings, as_json, show_url=False)


@commands.command()
def down(directory: Directory = HERE, as_json: AsJson = False) -> None:
    """Stop the parts that `headrace parts up` started."""
    stopped = Parts.down(settings_at(directory))
    if as_json:
        terminal.out_json({"stopped": stopped})
    else:
        terminal.out(f"stopped {' and '.join(stopped)}" if stopped else "nothing was running")


@commands.command()
def status(
    directory: Directory = HERE,
    show_url: Annotated[
        bool, typer.Option("--show-url", help="Show the whole address of PostgreSQL, with its password.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the address, the process and the health of each part."""
    _show(settings_at(directory), as_json, show_url)


@commands.command()
def env(directory: Directory = HERE, as_json: AsJson = False) -> None:
    """Print the addresses of the parts as variables, for other programs and for the commands of another directory."""
    settings = settings_at(directory)
    parts = [part for part in Parts.status(settings) if part.running]
    if not parts:
        raise PartError(
            "HR-115",
            f"No part runs in {settings.directory}, and so there is no address to print.",
            found="neither Kafka nor PostgreSQL answers",
            fix="start them with `headrace parts up`, or name the app's directory with --directory",
        )
    found = {_VARIABLES[part.name]: _url(settings, part) or part.address or "" for part in parts}
    if as_json:
        terminal.out_json(found)
        return
    for name, value in found.items():
        terminal.out(f"export {name}={shlex.quote(value)}")


def _show(settings: Settings, as_json: bool, show_url: bool) -> None:
    parts = Parts.status(settings)
    urls = {part.name: _url(settings, part) for part in parts} if show_url else {}
    if as_json:
        terminal.out_json(
            [{**asdict(part), "health": _health(settings, part), "url": urls.get(part.name)} for part in parts]
        )
        return
    rows = [
        (part.name, _health(settings, part), part.address, part.pid and str(part.pid), _lives(part)) for part in parts
    ]
    terminal.out(terminal.columns(rows, ("part", "health", "address", "pid", "lives")))
    for url in filter(None, urls.values()):
        terminal.out(url)
    if not show_url and any(part.name == postgres.NAME and part.embedded and part.running for part in parts):
        password = settings.state / postgres.NAME / "password"
        terminal.note(f"the password of PostgreSQL is in {password}; --show-url prints the whole address")


def _health(settings: Settings, part: PartStatus) -> str:
    if part.embedded and not part.running:
        return "not running"
    # A server of the settings was asked already; of an embedded one it is known only that its process lives.
    answers = part.running and (not part.embedded or _answers(part, settings))
    return "answers" if answers else "does not answer"


def _lives(part: PartStatus) -> str | None:
    if not part.embedded:
        return "by itself: the address is of the settings"
    if not part.running:
        return None
    return f"with process {part.owner}" if part.owner else "until `headrace parts down`"


def _url(settings: Settings, part: PartStatus) -> str | None:
    if part.name != postgres.NAME or not part.running:
        return None
    return settings.postgres or postgres.url(settings.state / part.name, part.address or "")


def _answers(part: PartStatus, settings: Settings) -> bool:
    address = part.address or ""
    if part.name == kafka.NAME:
        return kafka.answers(address)
    return postgres.answers(settings.state / part.name, address)
