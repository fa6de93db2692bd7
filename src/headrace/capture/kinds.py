"""How the values of each type of the database are written: PostgreSQL's own types by heart, all others looked up once.

A domain is the type below it, an array is an array of its elements, and a type that has been dropped since is text.

The type of a schema's column holds every value that the database's column can have, exactly: a `numeric` is a decimal
where its precision is declared and no more than 38 digits, and else a string with all its digits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg

from headrace.capture import value
from headrace.capture.database import translated
from headrace.capture.value import Kind

MOST_DIGITS = 38
NUMERIC = 1700

_LOOK = "SELECT typtype::text, typcategory::text, typbasetype, typelem, typtypmod, typndims FROM pg_type WHERE oid = %s"


class _Type(NamedTuple):
    """A type that is not one of PostgreSQL's own: what it is made of, and how a domain limits that."""

    type: str
    category: str
    base: int
    element: int
    modifier: int
    dimensions: int

    @property
    def is_array(self) -> bool:
        return self.category == "A" and bool(self.element)


class Kinds:
    """The kinds of a database's types, by their numbers."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        self._known = dict(value.KINDS)
        self._types: dict[int, _Type | None] = {}

    def of(self, number: int) -> Kind:
        """The kind of a type."""
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self._kind(number)
        return known

    def type_of(self, number: int, modifier: int, dimensions: int) -> str:
        """The type, in a schema, of a column of this type, modifier and number of dimensions."""
        if number == NUMERIC:
            return _decimal(modifier)
        if number in value.KINDS:
            return value.KINDS[number].type
        found = self._look(number)
        if found is not None and found.type == "d":
            return self.type_of(found.base, found.modifier, found.dimensions)
        if found is not None and found.is_array:
            within = self.type_of(found.element, modifier, 0)
            return f"{'array<' * max(1, dimensions)}{within}{'>' * max(1, dimensions)}"
        return value.TEXT.type

    def _kind(self, number: int) -> Kind:
        found = self._look(number)
        if found is not None and found.type == "d":
            return self.of(found.base)
        if found is not None and found.is_array:
            return value.array_of(self.of(found.element))
        return value.TEXT

    def _look(self, number: int) -> _Type | None:
        if number not in self._types:
            with translated("looking up a type"):
                found = self._connection.execute(_LOOK, (number,)).fetchone()
            self._types[number] = None if found is None else _Type(*found)
        return self._types[number]


def _decimal(modifier: int) -> str:
    """The type of a `numeric(precision, scale)`; PostgreSQL allows scales below 0 and above the precision."""
    if modifier < 0:
        return value.TEXT.type
    precision = (modifier - 4) >> 16 & 0xFFFF
    scale = ((modifier - 4 & 0x7FF) ^ 0x400) - 0x400
    digits, fraction = max(precision - min(scale, 0), scale), max(scale, 0)
    return f"decimal({digits},{fraction})" if digits <= MOST_DIGITS else value.TEXT.type
