"""A value in PostgreSQL's text form as JSON, byte for byte exact.

Whole numbers and floats stay numbers; `numeric` is a string with all its digits; times are ISO-8601 strings (in UTC
with `Z` where the type has a zone, without a zone where it has none); `bytea` is base64; arrays are arrays, in as many
dimensions as they have; JSON documents, and everything that has no form of its own (enums, UUIDs, addresses, ranges,
intervals, composites), is a string as PostgreSQL writes it. A domain is written as the type below it.

JSON has no NaN and no infinity: as floats they are strings. `infinity` and years before Christ are as PostgreSQL writes
them. The text form depends on the session: `database.OPTIONS` sets what this file expects.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Write: TypeAlias = Callable[[bytes], bytes]

NULL = b"null"
unsafe = re.compile(rb'[\x00-\x1f"\\]').search
_ARRAY = re.compile(rb'(?P<mark>[{},])|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^{},"]+)', re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_MARKS = {b"{": b"[", b"}": b"]", b",": b","}


@dataclass(frozen=True)
class Kind:
    """How the values of a type are written: two types of one `form` look the same to a reader.

    Without `write` the text is JSON already. `harmless` text needs quotes and nothing else. `type` is the type of a
    schema's column that holds every value; of a decimal and an array it depends on the column (kinds.py).
    """

    form: str
    write: Write | None
    harmless: bool = False
    type: str = "string"


def text(raw: bytes) -> bytes:
    """A JSON string."""
    if unsafe(raw) is None:
        return b'"' + raw + b'"'
    return escaped(raw)


def escaped(raw: bytes) -> bytes:
    """A JSON string of text with quotes, backslashes or control characters."""
    return json.dumps(raw.decode(), ensure_ascii=False).encode()


def boolean(raw: bytes) -> bytes:
    return b"true" if raw == b"t" else b"false"


def floating(raw: bytes) -> bytes:
    return b'"' + raw + b'"' if raw[-1:] in (b"N", b"y") else raw


def binary(raw: bytes) -> bytes:
    return b'"' + b64encode(bytes.fromhex(raw[2:].decode())) + b'"'


def moment(raw: bytes) -> bytes:
    """A timestamp with time zone, which the session writes in UTC."""
    if not raw.endswith(b"+00"):
        return b'"' + raw + b'"'
    return b'"' + raw[:-3].replace(b" ", b"T", 1) + b'Z"'


def local(raw: bytes) -> bytes:
    """A timestamp without a zone."""
    return b'"' + (raw if raw.endswith(b"BC") else raw.replace(b" ", b"T", 1)) + b'"'


def array(element: Write | None) -> Write:
    """An array whose elements are written like this."""

    def write(raw: bytes) -> bytes:
        if raw[:1] == b"[":  # bounds that do not begin at 1
            raw = raw[raw.index(b"=") + 1 :]
        parts: list[bytes] = []
        for found in _ARRAY.finditer(raw):
            if mark := found["mark"]:
                parts.append(_MARKS[mark])
                continue
            plain = found["plain"]
            if plain is not None and plain.upper() == b"NULL":
                parts.append(NULL)
                continue
            value = plain if plain is not None else _ESCAPE.sub(rb"\1", found["quoted"])
            parts.append(value if element is None else element(value))
        return b"".join(parts)

    return write


WHOLE = "whole number"
FLOAT = "float"
DECIMAL = Kind("decimal", text, harmless=True)
TEXT = Kind("text", text)

KINDS: dict[int, Kind] = {
    16: Kind("boolean", boolean, type="boolean"),
    17: Kind("binary", binary, type="binary"),
    20: Kind(WHOLE, None, type="bigint"),
    21: Kind(WHOLE, None, type="smallint"),
    22: TEXT,  # int2vector and oidvector: their text is not that of other arrays
    23: Kind(WHOLE, None, type="int"),
    26: Kind(WHOLE, None, type="bigint"),
    30: TEXT,
    700: Kind(FLOAT, floating, type="float"),
    701: Kind(FLOAT, floating, type="double"),
    1082: Kind("date", text, harmless=True, type="date"),
    1083: Kind("time", text, harmless=True),
    1114: Kind("timestamp", local, type="timestamp_ntz"),
    1184: Kind("timestamp with time zone", moment, type="timestamp"),
    1266: Kind("time with time zone", text, harmless=True),
    1700: DECIMAL,
    2950: Kind("text", text, harmless=True),
}
"""PostgreSQL's own types by their number, where they are not simply text."""


def array_of(kind: Kind) -> Kind:
    """The kind of an array of such elements."""
    return Kind(f"array of {kind.form}", array(kind.write))
