"""Which rows are asked for: `column=value`, or `column.gte=value` with another comparison.

    column=v        equal; also column.eq
    column.ne=v     not equal (a null is neither)
    column.gt=v     greater; gte, lt, lte likewise
    column.in=a,b   one of several; a JSON array where a value has a comma
    column.prefix=v text that begins so
    column.null=true, column.null=false

Conditions are all to be met; a column may stand several times. The same filter chooses rows of the table, as SQL, and
rows of the topic. A column whose name is that of a parameter (`order`, `limit`, …) is written `order.eq`.
"""

from __future__ import annotations

import difflib
import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.errors import ServeError
from headrace.serve.column import Column
from headrace.serve.statement import Sql

MOST_CONDITIONS = 50
MOST_VALUES = 1000
_COMPARISONS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "eq": ("=", operator.eq),
    "ne": ("<>", operator.ne),
    "gt": (">", operator.gt),
    "gte": (">=", operator.ge),
    "lt": ("<", operator.lt),
    "lte": ("<=", operator.le),
}
OPERATORS = (*_COMPARISONS, "in", "prefix", "null")


@dataclass(frozen=True)
class Condition:
    """One comparison; `values` are of the column's type, for `null` one boolean."""

    column: Column
    operator: str
    values: tuple[Any, ...]

    def sql(self) -> Sql:
        column = self.column
        if self.operator == "null":
            return Sql(f"{column.place} IS {'' if self.values[0] else 'NOT '}NULL")
        if self.operator == "in":
            return Sql(f"{column.place} IN (") + Sql.join(", ", (column.bound(one) for one in self.values)) + Sql(")")
        if self.operator == "prefix":
            return Sql(f"starts_with({column.place}, ") + column.bound(self.values[0]) + Sql(")")
        sign = _COMPARISONS[self.operator][0]
        place = column.place if sign in ("=", "<>") else column.ordered
        return Sql(f"{place} {sign} ") + column.bound(self.values[0])

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of decoded JSON meets it."""
        found = row.get(self.column.name)
        if self.operator == "null":
            return (found is None) == self.values[0]
        if found is None:
            return False
        try:
            value = self.column.rank(self.column.of_json(found))
        except ValueError:
            return False
        wanted = [self.column.rank(one) for one in self.values]
        if self.operator == "in":
            return value in wanted
        if self.operator == "prefix":
            return value.startswith(wanted[0])
        return _COMPARISONS[self.operator][1](value, wanted[0])


@dataclass(frozen=True)
class Filter:
    """Conditions that are all to be met; none lets every row through."""

    conditions: tuple[Condition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def sql(self) -> Sql:
        """What stands after WHERE."""
        return Sql.join(" AND ", (one.sql() for one in self.conditions)) if self.conditions else Sql("true")

    def holds(self, row: Mapping[str, Any]) -> bool:
        return all(one.holds(row) for one in self.conditions)

    def of_columns(self, names: Iterable[str]) -> Filter:
        """Only the conditions on these columns."""
        chosen = frozenset(names)
        return Filter(tuple(one for one in self.conditions if one.column.name in chosen))


def parse(columns: Sequence[Column], pairs: Iterable[tuple[str, str]], parameters: Sequence[str]) -> Filter:
    """The filter in the pairs of a query that are no parameters; ServeError names what cannot be understood."""
    conditions = [_condition(columns, name, text, parameters) for name, text in pairs]
    if len(conditions) > MOST_CONDITIONS:
        raise ServeError(
            "HR-505",
            f"The query has more than {MOST_CONDITIONS} conditions.",
            found=f"{len(conditions)} conditions",
            fix="ask for one of several values with `.in`, or for less at a time",
        )
    return Filter(tuple(conditions))


def _condition(columns: Sequence[Column], name: str, text: str, parameters: Sequence[str]) -> Condition:
    by_name = {column.name: column for column in columns}
    column, sign = by_name.get(name), "eq"
    if column is None:
        base, _, sign = name.rpartition(".")
        column = by_name.get(base)
    if column is None:
        raise unknown_column(columns, name, parameters)
    if sign not in OPERATORS:
        raise ServeError(
            "HR-503",
            f"`{sign}` is not a comparison.",
            found=name[:200],
            fix=f"the comparisons are {', '.join(OPERATORS)}: {column.name}.gte=…",
        )
    if sign == "null":
        if text not in ("true", "false"):
            raise _wrong_value(column, text, "true or false")
        return Condition(column, sign, (text == "true",))
    if not column.comparable or (sign == "prefix" and column.type != "string"):
        raise ServeError(
            "HR-503",
            f"The column `{column.name}` of type {column.type} cannot be compared with `{sign}`.",
            found=name[:200],
            fix=f"{column.name}.null=true and {column.name}.null=false work with every column"
            + ("" if column.comparable else "; filter by its parts in your own code, or make them columns of the view"),
        )
    texts = _several(column, text) if sign == "in" else [text]
    return Condition(column, sign, tuple(value(column, one) for one in texts))


def value(column: Column, text: str) -> Any:
    """The value of a column that a text means; ServeError when it means none."""
    try:
        return column.parse(text)
    except ValueError:
        raise _wrong_value(column, text, column.expected) from None


def _several(column: Column, text: str) -> list[str]:
    found: list[str] = text.split(",")
    if text.startswith("["):
        try:
            every = json.loads(text)
        except (ValueError, RecursionError):
            every = None
        if not isinstance(every, list) or not all(isinstance(one, str | int | float) for one in every):
            raise _wrong_value(column, text, 'values with commas in between, or a JSON array such as ["a","b"]')
        found = [one if isinstance(one, str) else json.dumps(one) for one in every]
    if len(found) > MOST_VALUES:
        raise _wrong_value(column, text, f"at most {MOST_VALUES} values")
    return found or [""]


def unknown_column(columns: Sequence[Column], name: str, parameters: Sequence[str]) -> ServeError:
    """The error for a name that is no column."""
    names = [column.name for column in columns]
    close = difflib.get_close_matches(name.partition(".")[0], [*names, *parameters], n=1)
    meant = f"did you mean `{close[0]}`? " if close else ""
    also = f"; besides there are {', '.join(parameters)}" if parameters else ""
    return ServeError(
        "HR-503",
        "The view has no such column.",
        found=name[:200],
        fix=f"{meant}the columns are {', '.join(names)}{also}",
    )


def _wrong_value(column: Column, text: str, expected: str) -> ServeError:
    return ServeError(
        "HR-504",
        f"The column `{column.name}` has the type {column.type}, and this is no value of it.",
        found=text[:200],
        fix=f"write {expected}",
    )
