"""Topics from the command line: list, describe, read and write.

`tail` reads without a group and commits nothing. Without `--from` it shows the last records of all partitions by time;
partitions are otherwise interleaved as they come. Records of open and aborted transactions are not shown. `produce`
writes one record a line and ends with an error, and the number of what is written, at the first line that it cannot
write.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from headrace.cli import record, terminal
from headrace.cli.place import AsJson, Kafka, with_kafka
from headrace.errors import RunError
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import BEGINNING, END, Record, Start, read
from headrace.log.producer import Producer

LAST = 10
_WIDER = 4

commands = typer.Typer(help="List, describe, read and write topics.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.", show_default=False)]


@commands.command("ls")
@with_kafka
def list_topics(*, kafka: Kafka, as_json: AsJson = False) -> None:
    """List the topics, without those that Kafka keeps for itself."""
    there = kafka.connection().metadata().topics
    rows = [(name, len(there[name].partitions)) for name in sorted(there) if not name.startswith("__")]
    if as_json:
        terminal.out_json([{"name": name, "partitions": partitions} for name, partitions in rows])
    else:
        terminal.out(terminal.columns(rows, ("topic", "partitions")))


@commands.command()
@with_kafka
def describe(name: Name, *, kafka: Kafka, as_json: AsJson = False) -> None:
    """Show the offsets and the configuration of a topic, and what each group has yet to read."""
    found = topics.describe(kafka.connection(), name)
    if as_json:
        terminal.out_json(asdict(found))
        return
    terminal.out(f"topic {found.name}\n")
    offsets = [(str(one.partition), one.first, one.next, one.next - one.first) for one in found.partitions]
    terminal.out(terminal.columns(offsets, ("partition", "first", "next", "offsets")))
    for header, pairs in (("configuration", found.config), ("group", found.lag)):
        if pairs:
            second = "value" if pairs is found.config else "yet to read"
            terminal.out("\n" + terminal.columns(sorted(pairs.items()), (header, second)))


@commands.command(
    epilog="Examples:\n\n`headrace topic tail alerts -f`\n\n"
    "`headrace topic tail alerts --from 2026-03-01T12:00:00Z --json`"
)
@with_kafka
def tail(
    name: Name,
    *,
    count: Annotated[
        int | None, typer.Option("-n", min=0, help="At most so many records.", show_default=f"{LAST} without --from")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until interrupted.")] = False,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PLACE", help="beginning, end, an offset, or a time in ISO 8601.", show_default=False
        ),
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this one.", show_default=False)] = None,
    headers: Annotated[bool, typer.Option("--headers", help="Show the headers too.")] = False,
    kafka: Kafka,
    as_json: AsJson = False,
) -> None:
    """Show the last records of a topic, or those from a place on."""
    connection = kafka.connection()
    partitions = topics.partitions(connection, name)
    if partition is not None and partition not in partitions:
        raise typer.BadParameter(f"`{name}` has the partitions 0 to {partitions[-1]}", param_hint="--partition")
    chosen = partitions if partition is None else [partition]
    try:
        if start is None:
            shown = _last(connection, name, chosen, LAST if count is None else count, follow=follow)
        else:
            place = _place(connection, name, chosen, start, narrowed=partition is not None)
            found = (one for one in read(connection, name, start=place, follow=follow) if one.partition in chosen)
            shown = islice(found, count)
        for one in shown:
            if as_json:
                terminal.out_json(record.as_json(one))
            else:
                terminal.out("\n".join([record.as_line(one), *(record.header_lines(one.headers) if headers else [])]))
    except KeyboardInterrupt:
        if not follow:
            raise


@commands.command(
    epilog='Examples:\n\n`echo \'{"id": "a", "card": "c1"}\' | headrace topic produce payments --key-field card`'
)
@with_kafka
def produce(
    name: Name,
    *,
    key: Annotated[str | None, typer.Option(help="The key of every record.", show_default=False)] = None,
    key_field: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field of each JSON line that is its key.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of every record; can be given again.", show_default=False),
    ] = None,
    kafka: Kafka,
    as_json: AsJson = False,
) -> None:
    """Write each line of standard input as a record; empty lines are passed over."""
    if key is not None and key_field is not None:
        raise typer.BadParameter("choose one of --key and --key-field")
    headers = [_header(text) for text in header or ()]
    connection = kafka.connection()
    topics.partitions(connection, name)
    if sys.stdin.isatty():
        terminal.note("one record a line; Ctrl-D ends")
    written = 0
    with Producer(connection) as producer:
        for number, value in _lines(sys.stdin.buffer):
            producer.send(name, value, key=_key(value, key_field, number) if key_field else key, headers=headers)
            written += 1
    places = [str(position) for position in producer.positions]
    if as_json:
        terminal.out_json({"records": written, "positions": places})
    else:
        last = f"; the last at {', '.join(places)}" if places else ""
        terminal.out(f"{written:,} record{'' if written == 1 else 's'} written{last}")


def _last(
    connection: Connection, name: str, partitions: Iterable[int], count: int, *, follow: bool
) -> Iterator[Record]:
    """The last records by time, then, if asked, all that come after."""
    first = {one.partition: one.first for one in topics.describe(connection, name).partitions}
    ends = topics.ends(connection, name)
    found: dict[int, list[Record]] = {partition: [] for partition in partitions}
    back, missing = count, {partition for partition in found if count and first[partition] < ends[partition]}
    while missing:
        # Not every offset is a record: markers and compacted ones are passed over, so it may take a longer way back.
        starts = {partition: max(first[partition], ends[partition] - back) for partition in missing}
        for partition in missing:
            found[partition] = []
        for one in read(connection, name, start=starts):
            if one.offset < ends[one.partition]:
                found[one.partition].append(one)
        missing = {one for one in missing if len(found[one]) < count and starts[one] > first[one]}
        back *= _WIDER
    every = sorted((one for some in found.values() for one in some[-count:]), key=lambda one: one.timestamp_ms)
    yield from every[-count:] if count else ()
    if follow:
        yield from read(connection, name, start={partition: ends[partition] for partition in found}, follow=True)


def _place(connection: Connection, name: str, partitions: list[int], text: str, *, narrowed: bool) -> Start:
    """The start that `--from` names."""
    if text == "end":
        return {i: end for i, end in topics.ends(connection, name).items() if i in partitions} if narrowed else END
    if text == "beginning":
        described = topics.describe(connection, name).partitions if narrowed else ()
        return {one.partition: one.first for one in described if one.partition in partitions} or BEGINNING
    if re.fullmatch(r"\d{1,18}", text):
        if len(partitions) > 1:
            raise typer.BadParameter("an offset is of one partition: add --partition", param_hint="--from")
        return {partitions[0]: int(text)}
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"`{text}` is neither beginning nor end, an offset, nor a time such as 2026-03-01T12:00:00Z",
            param_hint="--from",
        ) from None


def _lines(stream: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(stream, start=1):
        if value := line.rstrip(b"\r\n"):
            yield number, value


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise typer.BadParameter(f"`{text}` is not NAME=VALUE", param_hint="--header")
    return name, value


def _key(value: bytes, field: str, number: int) -> str:
    """The key in a JSON line; a number is taken digit for digit."""
    try:
        row: Any = json.loads(value, parse_int=str, parse_float=str)
    except ValueError:
        raise _no_key(value, field, number, "is not JSON") from None
    found = row.get(field) if isinstance(row, dict) else None
    if isinstance(found, bool):
        return json.dumps(found)
    if not isinstance(found, str):
        problem = "is not a JSON object" if not isinstance(row, dict) else f"has no text or number in `{field}`"
        raise _no_key(value, field, number, problem)
    return found


def _no_key(value: bytes, field: str, number: int, problem: str) -> RunError:
    return RunError(
        "HR-341",
        f"Line {number} {problem}, so its key is not known; the lines before it are written.",
        found=terminal.readable(value[:200]),
        fix=f"correct the line and write the input again from line {number} on, or leave --key-field {field} out",
    )
