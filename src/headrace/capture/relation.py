"""The rows of a table as JSON, by the columns that the stream announced.

The hot path: a row is decoded where it stands in the message, each value is written as JSON by its column's writer, and
the row and its key are put together by one formatting each. No object is made for a field.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from headrace.capture import pgoutput, value
from headrace.capture.value import Kind, Write

UNAVAILABLE = b'"__debezium_unavailable_value"'
"""What stands for a large value that an update left as it was, and that could not be had: Debezium's word for it."""

_LENGTH = struct.Struct(">I").unpack_from
_TEXT, _NULL = pgoutput.TEXT, pgoutput.NULL


class Relation:
    """The form of a table's rows: `names` and `kinds` of its columns, and which of them are the key."""

    def __init__(self, names: Sequence[str], kinds: Sequence[Kind], key: Sequence[str]) -> None:
        self.names = tuple(names)
        self.kinds = tuple(kinds)
        self.key = tuple(key)
        self._writers: tuple[Write | None, ...] = tuple(kind.write for kind in kinds)
        self._row = _template(names)
        self._places = tuple(self.names.index(name) for name in key)
        self._key_of = _template(key)
        self._picked: Callable[[Sequence[bytes]], Any] = itemgetter(*self._places)

    def decode(self, data: bytes, at: int) -> tuple[list[bytes | None], int]:
        """The values of a row that begins at an offset, as JSON, and the offset after it; None was left unchanged."""
        at += 2
        values: list[bytes | None] = []
        add = values.append
        for write in self._writers:
            kind = data[at]
            if kind == _TEXT:
                (size,) = _LENGTH(data, at + 1)
                begin = at + 5
                at = begin + size
                add(data[begin:at] if write is None else write(data[begin:at]))
            elif kind == _NULL:
                add(value.NULL)
                at += 1
            else:
                add(None)
                at += 1
        return values, at

    def fields(self, data: bytes, at: int) -> list[bytes | None]:
        """The same row as PostgreSQL's text; None is null, or was left unchanged."""
        at += 2
        found: list[bytes | None] = []
        for _ in self.names:
            if data[at] == _TEXT:
                (size,) = _LENGTH(data, at + 1)
                found.append(data[at + 5 : at + 5 + size])
                at += 5 + size
            else:
                found.append(None)
                at += 1
        return found

    def encode(self, fields: Sequence[bytes | None]) -> list[bytes]:
        """The values of a row whose fields are PostgreSQL's text, as JSON."""
        return [
            value.NULL if field is None else field if write is None else write(field)
            for field, write in zip(fields, self._writers, strict=True)
        ]

    def row(self, values: Sequence[bytes]) -> bytes:
        """The row as a JSON object."""
        return self._row % tuple(values)

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


def _template(names: Sequence[str]) -> bytes:
    members = (value.text(name.encode()).replace(b"%", b"%%") + b":%b" for name in names)
    return b"{" + b",".join(members) + b"}"
