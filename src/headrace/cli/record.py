"""A record of the log as a line of text and as JSON.

In JSON a key, value or header that is UTF-8 stands as text; any other bytes stand as `{"base64": …}`, so that nothing
is changed.
"""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from headrace.cli.terminal import readable, safe
from headrace.log.consumer import Record
from headrace.log.dead import DeadLetter

Headers = tuple[tuple[str, bytes | None], ...]


def moment(milliseconds: int | None) -> str | None:
    """A record's time in UTC; None where it has none."""
    if milliseconds is None or milliseconds < 0:
        return None
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"
    return at.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def as_line(record: Record) -> str:
    """`[partition]@offset  time  key  value`."""
    place = f"[{record.partition}]@{record.offset}"
    return "  ".join((place, moment(record.timestamp_ms) or "-", readable(record.key), readable(record.value)))


def header_lines(headers: Headers) -> list[str]:
    """A line a header."""
    return [f"    {safe(name)}: {readable(value)}" for name, value in headers]


def as_json(record: Record) -> dict[str, Any]:
    """The record, of plain values."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": moment(record.timestamp_ms),
        "key": _exact(record.key),
        "value": _exact(record.value),
        "headers": _headers(record.headers),
    }


def letter_as_json(letter: DeadLetter) -> dict[str, Any]:
    """The dead letter, of plain values."""
    return {
        "position": str(letter.position),
        "source": str(letter.source),
        "timestamp": moment(letter.timestamp_ms),
        "reason": letter.reason,
        "query": letter.query,
        "key": _exact(letter.key),
        "value": _exact(letter.raw),
        "headers": _headers(letter.headers),
    }


def letter_text(letter: DeadLetter) -> str:
    """The whole letter, a line a field."""
    fields = {
        "source": str(letter.source),
        "time": moment(letter.timestamp_ms) or "-",
        "query": letter.query,
        "reason": letter.reason,
        "key": readable(letter.key),
        "value": readable(letter.raw),
    }
    lines = [f"{letter.position}", *(f"  {name.ljust(6)}  {safe(text)}" for name, text in fields.items())]
    return "\n".join([*lines, *header_lines(letter.headers)])


def _headers(headers: Headers) -> list[list[Any]]:
    """Pairs, because a name may come more than once."""
    return [[name, _exact(value)] for name, value in headers]


def _exact(raw: bytes | None) -> str | dict[str, str] | None:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(raw).decode()}
