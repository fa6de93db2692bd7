"""A piece of SQL with the values that it binds. Text is of this package, names are quoted, values are never text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sql:
    """Text with a `%s` for each of `values`, in their order."""

    text: str
    values: tuple[Any, ...] = ()

    def __add__(self, other: Sql) -> Sql:
        return Sql(self.text + other.text, self.values + other.values)

    @classmethod
    def join(cls, between: str, parts: Iterable[Sql]) -> Sql:
        """The parts with `between` in between."""
        every = list(parts)
        return cls(between.join(part.text for part in every), tuple(v for part in every for v in part.values))


def name(*parts: str) -> str:
    """A name (of a schema, a table, a column) as an identifier of SQL."""
    return ".".join('"' + part.replace('"', '""').replace("%", "%%") + '"' for part in parts)


def bound(value: Any, kind: str) -> Sql:
    """A value that is sent beside the text; `kind` is its type in PostgreSQL."""
    return Sql(f"%s::{kind}", (value,))
