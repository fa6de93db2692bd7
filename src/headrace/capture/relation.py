"""The rows of a table as JSON, by the columns that the stream announced.

The hot path: a row is decoded where it stands in the message, by a function that was written out for the columns of the
table, and the row and its key are put together by one formatting each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from headrace.capture import pgoutput, value
from headrace.capture.value import Kind

UNAVAILABLE = b'"__debezium_unavailable_value"'
"""What stands for a large value that an update left as it was, and that could not be had: Debezium's word for it."""

_LENGTH = struct.Struct(">I").unpack_from


class Relation:
    """The form of a table's rows: `names` and `kinds` of its columns, and which of them are the key."""

    def __init__(self, names: Sequence[str], kinds: Sequence[Kind], key: Sequence[str]) -> None:
        self.names = tuple(names)
        self.kinds = tuple(kinds)
        self.key = tuple(key)
        self.decode: Callable[[bytes, int], tuple[tuple[bytes | None, ...], int]] = _decoder(kinds)
        """The values of a row that begins at an offset, as JSON, and the offset after it; None was left unchanged."""
        self._encode: Callable[[Sequence[bytes | None]], tuple[bytes, ...]] = _encoder(kinds)
        self._row = _template(names)
        self._places = tuple(self.names.index(name) for name in key)
        self._key_of = _template(key)
        self._picked: Callable[[Sequence[bytes]], Any] = itemgetter(*self._places)

    def fields(self, data: bytes, at: int) -> list[bytes | None]:
        """The same row as PostgreSQL's text; None is null, or was left unchanged."""
        at += 2
        found: list[bytes | None] = []
        for _ in self.names:
            if data[at] == pgoutput.TEXT:
                (size,) = _LENGTH(data, at + 1)
                found.append(data[at + 5 : at + 5 + size])
                at += 5 + size
            else:
                found.append(None)
                at += 1
        return found

    def encode(self, fields: Sequence[bytes | None]) -> tuple[bytes, ...]:
        """The values of a row whose fields are PostgreSQL's text, as JSON."""
        return self._encode(fields)

    def row(self, values: Sequence[bytes]) -> bytes:
        """The row as a JSON object."""
        return self._row % (values if type(values) is tuple else tuple(values))

    def key_of(self, values: Sequence[bytes]) -> bytes:
        """The key of a row as a JSON object."""
        return self._key_of % self._picked(values)

    def only_key(self, values: Sequence[bytes]) -> bytes:
        """The row of which only the key is known: everything else is null."""
        known = [value.NULL] * len(values)
        for place in self._places:
            known[place] = values[place]
        return self._row % tuple(known)

    def place(self, name: str) -> int:
        """Where a column stands."""
        return self.names.index(name)

    def texts_of_key(self, fields: Sequence[bytes | None]) -> list[str]:
        """PostgreSQL's text of the key columns of a row."""
        return [(fields[place] or b"").decode() for place in self._places]


def _decoder(kinds: Sequence[Kind]) -> Any:
    """A function that decodes rows of these columns, written out for them column by column."""
    lines = ["def decode(data, at):", "    at += 2"]
    for number, kind in enumerate(kinds):
        lines += [
            "    if data[at] == TEXT:",
            "        begin = at + 5",
            "        at = begin + length(data, at + 1)[0]",
            *(f"        {line}" for line in _written(number, kind, "data[begin:at]")),
            "    else:",
            f"        v{number} = null if data[at] == NULL else None",
            "        at += 1",
        ]
    lines.append(f"    return ({_listed('v', kinds)}), at")
    return _made(lines, kinds)["decode"]


def _encoder(kinds: Sequence[Kind]) -> Any:
    """The same for the fields of a row."""
    lines = ["def encode(fields):", f"    {_listed('f', kinds)} = fields"]
    for number, kind in enumerate(kinds):
        lines += [f"    if f{number} is None:", f"        v{number} = null", "    else:"]
        lines += [f"        {line}" for line in _written(number, kind, f"f{number}")]
    lines.append(f"    return ({_listed('v', kinds)})")
    return _made(lines, kinds)["encode"]


def _written(number: int, kind: Kind, raw: str) -> list[str]:
    if kind.write is None:
        return [f"v{number} = {raw}"]
    if kind.harmless:
        return [f"v{number} = b'\"' + {raw} + b'\"'"]
    if kind.write is value.text:
        return [f"raw = {raw}", f"v{number} = b'\"' + raw + b'\"' if unsafe(raw) is None else escaped(raw)"]
    return [f"v{number} = w{number}({raw})"]


def _listed(letter: str, kinds: Sequence[Kind]) -> str:
    return "".join(f"{letter}{number}, " for number in range(len(kinds)))


def _made(lines: Sequence[str], kinds: Sequence[Kind]) -> dict[str, Any]:
    known: dict[str, Any] = {f"w{number}": kind.write for number, kind in enumerate(kinds)}
    known |= {"length": _LENGTH, "TEXT": pgoutput.TEXT, "NULL": pgoutput.NULL, "null": value.NULL}
    known |= {"unsafe": value.unsafe, "escaped": value.escaped}
    exec("\n".join(lines), known)  # noqa: S102 - all of the text is ours: no name of the database is in it
    return known


def _template(names: Sequence[str]) -> bytes:
    members = (value.text(name.encode()).replace(b"%", b"%%") + b":%b" for name in names)
    return b"{" + b",".join(members) + b"}"
