"""A change is a record of a topic: its key says which row, its value is the whole row, or null when the row is gone.

Key and value are as the engine writes them: the key is the text of a single string column, else a JSON object of the
key columns; the value is a JSON object. The order of the records of a key in their partition is the order of its
changes, so of several the last one holds, and applying them again in order changes nothing.

Numbers stay text (`Number`), so that a decimal keeps its digits and a bigint its value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any

from headrace.log.consumer import Record


class Number(str):
    """A JSON number, as it was written."""

    __slots__ = ()


class Unreadable(ValueError):  # noqa: N818 - it is the change that is wrong
    """A record that is no change; the message is the reason in its dead letter."""


def row(change: Record) -> dict[str, Any] | None:
    """The row by column, numbers as `Number`; None for a deletion."""
    return None if change.value is None else _object(change.value, "the value")


def key(change: Record, columns: tuple[str, ...], *, text: bool) -> dict[str, Any]:
    """The values of the key columns; `text`: the key is the text of the one column that there is."""
    if change.key is None:
        raise Unreadable("the record has no key")
    if not text:
        return _object(change.key, "the key")
    try:
        return {columns[0]: change.key.decode()}
    except UnicodeDecodeError as error:
        raise Unreadable(f"the key is not UTF-8: {error.reason}") from None


def last_of_each_key(changes: Iterable[Record]) -> list[Record]:
    """The change that holds of each key, in the order in which those came."""
    last: dict[bytes | None, Record] = {}
    for change in changes:
        last.pop(change.key, None)
        last[change.key] = change
    return list(last.values())


def text_of(value: Any) -> str:
    """A value out of `row` as JSON text again."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode_basestring(name)}:{text_of(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text_of, value)) + "]"
    return "null" if value is None else "true" if value else "false"


def _constant(name: str) -> Any:
    raise Unreadable(f"{name} is not JSON; it is written as text")


_read = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_constant).decode


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        found = _read(raw.decode())
    except UnicodeDecodeError as error:
        raise Unreadable(f"{what} is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise Unreadable(f"{what} is nested too deeply") from None
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"{what} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Unreadable(f"{what} is not a JSON object")
    return found
