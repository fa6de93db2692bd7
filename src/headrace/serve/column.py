"""The values of a column: as text in a query, as JSON in the topic, as a parameter of SQL, and how they compare.

They compare here as they do in the table, so that a filter means the same for a snapshot and for a change: text by code
points (SQL says COLLATE "C"), NaN equal to itself and above every number, floats with the precision of the column.
Arrays, maps and structs are only null or not.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.log.schema import Field
from headrace.serve.statement import Sql, bound, name

_INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_POSTGRES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
_FORMS = {
    "timestamp": """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
    "timestamp_ntz": """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS.US')""",
    "binary": r"""translate(encode({}, 'base64'), E'\n', '')""",
}
_JSON_TYPES = {"boolean": "boolean", "float": "number", "double": "number", **dict.fromkeys(_INTEGERS, "integer")}
_EXAMPLES = {
    "boolean": "true or false",
    "float": "a number, NaN, Infinity or -Infinity",
    "double": "a number, NaN, Infinity or -Infinity",
    "string": "text",
    "binary": "base64",
    "date": "a date such as 2026-03-01",
    "timestamp": "a time with a zone, such as 2026-03-01T12:00:00Z (a `+` in a URL is written %2B)",
    "timestamp_ntz": "a time without a zone, such as 2026-03-01T12:00:00",
}
_WHOLE = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,4})?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class Column:
    """One column of a view; `type` is canonical, as in log/schema.py."""

    name: str
    type: str
    nullable: bool = True

    @classmethod
    def of(cls, field: Field) -> Column:
        return cls(field.name, field.type, field.nullable)

    @property
    def comparable(self) -> bool:
        """Whether rows can be chosen and ordered by it."""
        return self.type in _POSTGRES or self.is_decimal

    @property
    def is_decimal(self) -> bool:
        return self.type.startswith("decimal")

    @property
    def exact(self) -> bool:
        """Whether equal values have equal JSON, whoever writes it."""
        return self.type not in ("float", "double")

    @property
    def expected(self) -> str:
        """What a value looks like, for a person."""
        if self.type in _INTEGERS:
            return f"a whole number of {_INTEGERS[self.type]} bits"
        return "a number" if self.is_decimal else _EXAMPLES.get(self.type, "null or not null")

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON of a value, as OpenAPI says it."""
        kind = "number" if self.is_decimal else _JSON_TYPES.get(self.type)
        if self.type.startswith("array"):
            kind = "array"
        elif self.type.startswith(("map", "struct")):
            kind = "object"
        found: dict[str, Any] = {"type": kind or "string", "description": self.type}
        if self.type in ("date", "timestamp"):
            found["format"] = {"date": "date", "timestamp": "date-time"}[self.type]
        if self.type == "binary":
            found["contentEncoding"] = "base64"
        if self.type in ("float", "double"):
            found["type"] = ["number", "string"]
        if kind == "array":
            found["items"] = {}
        return found

    def parse(self, text: str) -> Any:
        """The value that a text in a query means; ValueError when it means none."""
        if "\0" in text:
            raise ValueError("text with a NUL character")
        if self.type == "string":
            return text
        if self.type == "boolean":
            return {"true": True, "false": False}[text] if text in ("true", "false") else _refuse(text)
        if self.type in _INTEGERS:
            return self._ranged(int(text)) if _WHOLE.fullmatch(text) else _refuse(text)
        if self.type in ("float", "double"):
            return self._real(text)
        return self._other(text)

    def of_json(self, value: Any) -> Any:
        """The value in decoded JSON (floats as Decimal); ValueError when it does not fit the column."""
        if value is None or not self.comparable:
            return value
        if isinstance(value, bool) != (self.type == "boolean"):
            return _refuse(value)
        if self.type == "boolean":
            return value
        if self.type in _INTEGERS:
            return self._ranged(value) if isinstance(value, int) else _refuse(value)
        if self.type in ("float", "double") or self.is_decimal:
            return self.parse(str(value))
        return self.parse(value) if isinstance(value, str) else _refuse(value)

    def rank(self, value: Any) -> Any:
        """What the value compares by."""
        return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value

    def as_json(self, value: Any) -> Any:
        """A value as what JSON can hold, in the form of the topic; `parse` of its text gives it back."""
        if isinstance(value, datetime):
            moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return moment.isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
        if isinstance(value, float) and not math.isfinite(value):
            return next(name for name, found in _NOT_FINITE.items() if self.rank(found) == self.rank(value))
        if isinstance(value, date):
            return value.isoformat()
        if isinstance(value, bytes):
            return binascii.b2a_base64(value, newline=False).decode()
        return value

    # In SQL, where the table is `t`

    @property
    def place(self) -> str:
        return f"t.{name(self.name)}"

    @property
    def ordered(self) -> str:
        """The column as it is compared and sorted."""
        return f'{self.place} COLLATE "C"' if self.type == "string" else self.place

    def bound(self, value: Any) -> Sql:
        """A value to compare the column with."""
        return bound(value, "numeric" if self.is_decimal else _POSTGRES[self.type])

    @property
    def shown(self) -> str:
        """The column as it becomes JSON in the form of the topic, under its own name."""
        form = _FORMS.get(self.type, "{}").format(self.place)
        return f"{form} AS {name(self.name)}"

    def _ranged(self, value: int) -> int:
        half = 1 << (_INTEGERS[self.type] - 1)
        return value if -half <= value < half else _refuse(value)

    def _real(self, text: str) -> float:
        if text in _NOT_FINITE:
            return _NOT_FINITE[text]
        value = float(text) if _NUMBER.fullmatch(text) else _refuse(text)
        if self.type == "float":
            try:
                value = struct.unpack("f", struct.pack("f", value))[0]
            except OverflowError:
                _refuse(text)
        return value if math.isfinite(value) else _refuse(text)

    def _other(self, text: str) -> Any:
        if self.is_decimal:
            try:
                return Decimal(text) if _NUMBER.fullmatch(text) else _refuse(text)
            except InvalidOperation:
                return _refuse(text)
        if self.type == "date":
            return date.fromisoformat(text) if _DATE.fullmatch(text) else _refuse(text)
        if self.type == "binary":
            return b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
        if self.type in ("timestamp", "timestamp_ntz"):
            moment = datetime.fromisoformat(text)
            return moment if (moment.tzinfo is not None) == (self.type == "timestamp") else _refuse(text)
        return _refuse(text)


def _refuse(value: object) -> Any:
    raise ValueError(f"{value!r} is not a value of the column")
