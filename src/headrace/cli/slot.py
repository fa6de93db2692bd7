"""The replication slots of the database: `slot ls` shows who holds back how much, `slot drop` gives one up.

A slot that nobody reads keeps the server's log until the disk is full. The database is that of the settings, or the
embedded one that runs; nothing is started here.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.capture import database, slot
from headrace.capture.database import Away
from headrace.cli import terminal
from headrace.cli.place import HERE, AsJson, Directory, settings_at
from headrace.errors import CaptureError, PartError
from headrace.parts import address, part, postgres

commands = typer.Typer(help="Show and drop the replication slots of the database.", no_args_is_help=True)
_HEADER = ("slot", "database", "read by", "health", "holds back", "behind", "may still write")


@commands.command("ls")
def list_slots(directory: Directory = HERE, as_json: AsJson = False) -> None:
    """List the logical slots of the server, with the bytes of its log that each holds back."""
    with database.connect(_url(directory), "slot") as connection:
        found = slot.every(connection)
    if as_json:
        terminal.out_json([asdict(one) for one in found])
        return
    rows = [
        (one.name, one.database, one.reader or "nobody", _health(one), one.held, one.behind, one.left or "no limit")
        for one in found
    ]
    terminal.out(terminal.columns(rows, _HEADER))


@commands.command("drop")
def drop_slot(
    name: Annotated[str, typer.Argument(metavar="SLOT", help="The slot, as `ls` shows it.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    directory: Directory = HERE,
) -> None:
    """Give a slot up, so that the server may delete what it held back; its reader must then read every table again."""
    with database.connect(_url(directory), "slot") as connection:
        there = slot.find(connection, name)
        if there is None:
            known = ", ".join(one.name for one in slot.every(connection)) or "none"
            raise CaptureError(
                "HR-618", f"The server has no slot `{name}`.", found=f"slots: {known}", fix="name one that it has"
            )
        if not yes:
            typer.confirm(f"drop {name}, which holds back {there.held:,} bytes?", abort=True)
        slot.drop(connection, name)
    terminal.out(f"dropped {name}; `headrace capture app.py --snapshot-again all` makes it anew")


def _health(one: slot.Slot) -> str:
    return "lost" if one.is_lost else one.status or "unknown"


def _url(directory: Path) -> str:
    settings = settings_at(directory)
    url = settings.source or settings.postgres
    if url is None:
        running = part.read(settings.state / postgres.NAME)
        if running is None or not running.server.alive:
            raise PartError(
                "HR-110",
                "There is no database whose slots could be looked at.",
                found="no `source` or `postgres` in the settings, and no embedded PostgreSQL runs in"
                f" {settings.directory}",
                fix="set HEADRACE_SOURCE, or start the embedded one with `headrace parts up`",
            )
        url = postgres.url(settings.state / postgres.NAME, running.address)
    try:
        database.connect(url, "slot").close()
    except Away:
        address.require_postgres(url)
    return url
