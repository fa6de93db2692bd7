"""How the values of each type of the database are written: PostgreSQL's own types by heart, all others looked up once.

A domain is the type below it, an array is an array of its elements, and a type that has been dropped since is text.
"""

from __future__ import annotations

from typing import Any

import psycopg

from headrace.capture import value
from headrace.capture.database import translated
from headrace.capture.value import Kind

_LOOK = "SELECT typtype, typcategory, typbasetype, typelem FROM pg_type WHERE oid = %s"


class Kinds:
    """The kinds of a database's types, by their numbers."""

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection
        self._known = dict(value.KINDS)

    def of(self, number: int) -> Kind:
        """The kind of a type."""
        known = self._known.get(number)
        if known is None:
            known = self._known[number] = self._look(number)
        return known

    def _look(self, number: int) -> Kind:
        with translated("looking up a type"):
            found = self._connection.execute(_LOOK, (number,)).fetchone()
        if found is None:
            return value.TEXT
        type_, category, base, element = found
        if type_ == "d":
            return self.of(base)
        if category == "A" and element:
            return value.array_of(self.of(element))
        return value.TEXT
