"""Dead letters from the command line: which topics have some, what they are, and putting them back.

A topic may be named as it is or as its dead letter topic: `payments` and `payments.dead` mean the same here. A letter
is named by its partition and offset in the dead letter topic, as `ls` shows them.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from headrace import names
from headrace.cli import record, terminal
from headrace.cli.place import AsJson, Kafka, load_app, with_kafka
from headrace.errors import LogError
from headrace.log import dead
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.dead import DeadLetter
from headrace.log.position import Position

_PLACE = re.compile(r"(\d{1,10}):(\d{1,18})")

commands = typer.Typer(help="List, show and put back records that could not be used.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic the records came from.", show_default=False)]
Count = Annotated[int | None, typer.Option("-n", min=1, help="At most so many.", show_default=False)]
Pending = Annotated[bool, typer.Option("--pending", help="Leave out what was put back.")]
Offsets = Annotated[
    list[str] | None,
    typer.Option("--offset", metavar="P:O", help="A letter's partition and offset; can be given again."),
]


@commands.command("ls")
@with_kafka
def list_letters(
    what: Annotated[
        str | None, typer.Argument(metavar="APP|TOPIC", show_default=False, help="An app's file, or a topic.")
    ] = None,
    *,
    count: Count = None,
    pending: Pending = False,
    kafka: Kafka,
    as_json: AsJson = False,
) -> None:
    """Count the dead letters of every topic or of an app's, or list those of one topic."""
    if what is not None and not what.endswith(".py"):
        letters = dead.dead_letters(kafka.connection(), _source(what), pending_only=pending, limit=count)
        for letter in letters:
            if as_json:
                terminal.out_json(record.letter_as_json(letter))
            else:
                when = record.moment(letter.timestamp_ms) or "-"
                terminal.out("  ".join(map(terminal.safe, (str(letter.position), when, letter.query, letter.reason))))
        return
    connection = kafka.connection(Path(what) if what else None)
    declared = {node.topic for node in load_app(Path(what)).graph().nodes} if what else None
    sources = [_source(name) for name in topics.names(connection) if name.endswith(names.DEAD_SUFFIX)]
    rows = [
        (
            source,
            len({letter.source for letter in dead.dead_letters(connection, source)}),
            dead.pending(connection, source),
        )
        for source in sources
        if declared is None or source in declared
    ]
    rows = [row for row in rows if row[2] or not pending][:count]
    if as_json:
        terminal.out_json([{"topic": name, "records": total, "pending": left} for name, total, left in rows])
    elif rows:
        terminal.out(terminal.columns(rows, ("topic", "records", "pending")))
    else:
        terminal.note("there are no dead letters")


@commands.command()
@with_kafka
def show(
    name: Name,
    *,
    offset: Offsets = None,
    count: Count = None,
    pending: Pending = False,
    kafka: Kafka,
    as_json: AsJson = False,
) -> None:
    """Show the dead letters of a topic whole, with the reason and the record as it came."""
    connection, source = kafka.connection(), _source(name)
    if offset:
        letters = (_at(connection, source, position) for position in _positions(source, offset))
    else:
        letters = dead.dead_letters(connection, source, pending_only=pending)
    for letter in islice(letters, count):
        if as_json:
            terminal.out_json(record.letter_as_json(letter))
        else:
            terminal.out(record.letter_text(letter) + "\n")


@commands.command()
@with_kafka
def replay(
    name: Name,
    *,
    offset: Offsets = None,
    every: Annotated[bool, typer.Option("--all", help="Put back all that are pending.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    kafka: Kafka,
    as_json: AsJson = False,
) -> None:
    """Put dead letters back into the topic they came from, each once."""
    if bool(offset) == every:
        raise typer.BadParameter("say which: --all, or --offset P:O for each letter")
    connection, source = kafka.connection(), _source(name)
    positions = _positions(source, offset) if offset else None
    if not yes:
        asked = len(positions) if positions else dead.pending(connection, source)
        typer.confirm(
            f"Put {asked:,} dead letter{'' if asked == 1 else 's'} back into `{source}`?", abort=True, err=True
        )
    report = dead.replay(connection, source, positions=positions)
    if as_json:
        terminal.out_json({"topic": source, "replayed": report.replayed, "pending": report.pending})
    else:
        terminal.out(
            f"{report.replayed:,} record{'' if report.replayed == 1 else 's'} put back, {report.pending:,} pending"
        )


def _source(topic: str) -> str:
    return topic.removesuffix(names.DEAD_SUFFIX)


def _positions(source: str, texts: list[str]) -> list[Position]:
    """`0:42`, or the whole position as `ls` prints it."""
    found = []
    for text in texts:
        match = _PLACE.fullmatch(text)
        found.append(
            Position(names.dead_topic(source), int(match[1]), int(match[2])) if match else Position.parse(text)
        )
    return found


def _at(connection: Connection, source: str, position: Position) -> DeadLetter:
    records = read(connection, position.topic, start={position.partition: position.offset}, limit=1)
    letter = next((DeadLetter.of(one) for one in records if one.position == position), None)
    if letter is None:
        raise LogError(
            "HR-235",
            f"There is no dead letter of `{source}` at {position}",
            found=position,
            fix=f"`headrace dead ls {source}` shows the positions",
        )
    return letter
