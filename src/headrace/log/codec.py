"""Python values as JSON text, the way every writer of the log writes them.

    datetime            "2026-03-01T12:00:00.000000Z": UTC, always six digits, so that text order is time order
    date                "2026-03-01"
    Decimal             a number with all its digits
    bytes               base64
    NaN, ±Infinity      "NaN", "Infinity", "-Infinity": JSON has no numbers for them, and null would hide them
    Mapping, list, tuple, str, int, float, bool, None    as JSON has them

A datetime without a time zone is refused: which moment it means depends on the machine. So is any other type, and a
field name that is not a string. Equal values give equal bytes when their fields come in the same order.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from headrace.errors import LogError


def encode(value: Mapping[str, Any]) -> bytes:
    """The value as compact UTF-8 JSON."""
    try:
        return _text(value, "").encode()
    except UnicodeEncodeError as error:
        raise _unwritable("", f"text that is not Unicode: {error.reason}", "remove the lone surrogates") from None


def iso(moment: datetime) -> str:
    """A moment as ISO-8601 in UTC with microseconds."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _text(value: Any, path: str) -> str:
    writer = _WRITERS.get(type(value))
    if writer is None:
        # A subclass (an IntEnum, numpy's float64) is written as the first type here that it is one of.
        writer = next((w for kind, w in _WRITERS.items() if isinstance(value, kind)), None)
    if writer is None:
        kind = type(value)
        raise _unwritable(path, f"a {kind.__module__}.{kind.__qualname__}", "convert it to a JSON type first")
    return writer(value, path)


def _mapping(value: Mapping[Any, Any], path: str) -> str:
    fields = []
    for name, item in value.items():
        if not isinstance(name, str):
            raise _unwritable(path, f"the field name {name!r}", "field names are strings")
        fields.append(f"{encode_basestring(name)}:{_text(item, f'{path}.{name}')}")
    return "{" + ",".join(fields) + "}"


def _sequence(value: Sequence[Any], path: str) -> str:
    return "[" + ",".join(_text(item, f"{path}[{i}]") for i, item in enumerate(value)) + "]"


def _float(value: float, path: str) -> str:
    return float.__repr__(value) if math.isfinite(value) else _not_finite(math.isnan(value), value > 0)


def _decimal(value: Decimal, path: str) -> str:
    return str(value) if value.is_finite() else _not_finite(value.is_nan(), value > 0 if not value.is_nan() else False)


def _not_finite(nan: bool, positive: bool) -> str:
    return '"NaN"' if nan else '"Infinity"' if positive else '"-Infinity"'


def _datetime(value: datetime, path: str) -> str:
    if value.tzinfo is None:
        raise _unwritable(path, f"{value!r}, which has no time zone", "use datetime.now(UTC), or set tzinfo")
    return f'"{iso(value)}"'


_WRITERS: dict[type, Callable[[Any, str], str]] = {
    str: lambda value, path: encode_basestring(str.__str__(value)),
    bool: lambda value, path: "true" if value else "false",
    int: lambda value, path: int.__repr__(value),
    float: _float,
    type(None): lambda value, path: "null",
    datetime: _datetime,
    date: lambda value, path: f'"{value.isoformat()}"',
    Decimal: _decimal,
    bytes: lambda value, path: f'"{b64encode(value).decode()}"',
    dict: _mapping,
    list: _sequence,
    tuple: _sequence,
    Mapping: _mapping,
}


def _unwritable(path: str, found: str, fix: str) -> LogError:
    field = f"The field `{path.removeprefix('.')}`" if path else "The value"
    return LogError("HR-222", f"{field} cannot be written as JSON", found=found, fix=fix)
