"""`join`: rows of two sides that are equal in some columns.

    hr.join(orders, products, on={"product": "id"}, how="left")

**Tables.** Both sides are tables of changes (table.py), and so is the result: when a row of either side comes, goes or
changes, the results that it is part of do. One row may meet many, on both sides. `how` says whose rows stay without a
partner: `inner` nobody's, `left`, `right`, or `full` those of both; the other side's columns are null then.

**Columns.** `on` is a column that both sides have, several, or a mapping of the left side's to the right side's. The
result has the columns of the left side and those of the right side, without the right side's of `on` that have the name
of their partner; where a row of the right side stands alone, they hold its values. Any other name that both have is an
error. A null in `on` is equal to nothing, not even to null.

**Convergence.** The rows put there and not taken back are the join of the rows that both tables have.

**Modes.** Exact and batch. Spark's real-time mode takes no operator before a union, which the reading of tables is.

**State.** All rows of both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StringType

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.names import COLUMN_PREFIX
from headrace.operators import aggregate, table
from headrace.operators.window import CHANGE, check_word, ddl, quoted

How = Literal["inner", "left", "right", "full"]
On = str | Sequence[str] | Mapping[str, str]

_SIDE = f"{COLUMN_PREFIX}side"
_KEY = f"{COLUMN_PREFIX}key_"
_HOW = ("inner", "left", "right", "full")


def join(left: DataFrame, right: DataFrame, /, *, on: On, how: How = "inner") -> DataFrame:
    """The rows of both sides that are equal in `on`."""
    check_word("join", "how", how, _HOW)
    pairs = _pairs(left, right, on)
    _check_tables(left, right)
    sides = Sides(left, right, pairs)
    if not left.isStreaming and not right.isStreaming:
        return _batch(sides, how)
    whole = (how in ("left", "full"), how in ("right", "full"))
    return bridge.sharded(sides.together(), sides.spec("table_join", whole=whole))


class Sides:
    """Two DataFrames, and the columns in which they are to be equal."""

    def __init__(self, left: DataFrame, right: DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
        self.frames = (left, right)
        self.pairs = pairs
        self.own = tuple(table.columns(rows) for rows in self.frames)
        same = {b: a for a, b in pairs if a == b}
        self.added = [name for name in self.own[1] if name not in same]
        self._same = same
        _check_columns(self.own[0], self.added)

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        """The columns of the result, without `change`."""
        left, right = (rows.schema for rows in self.frames)
        return [*((n, left[n].dataType) for n in self.own[0]), *((n, right[n].dataType) for n in self.added)]

    def together(self) -> DataFrame:
        """The rows of both sides in one frame: the side, the key, the sign, and the row packed."""
        left, right = (
            bridge.packed(rows.select(*self._head(number), *map(_column, self.own[number])), self.own[number])
            for number, rows in enumerate(self.frames)
        )
        return left.unionByName(right)

    def _head(self, number: int) -> list[Column]:
        rows = self.frames[number]
        key = [_column(pair[number]).cast(self._key_type(i)).alias(f"{_KEY}{i}") for i, pair in enumerate(self.pairs)]
        sign = F.col(CHANGE) if table.is_table(rows) else F.lit("+")
        return [F.lit(number).alias(_SIDE), *key, sign.alias(table.SIGN)]

    def _key_type(self, pair: int) -> DataType:
        return self.frames[0].schema[self.pairs[pair][0]].dataType

    def spec(self, kind: str, *, whole: tuple[bool, bool]) -> dict[str, Any]:
        """What the kernel is told."""
        names = [name for name, _ in self.columns]
        places = [[names.index(self._same.get(name, name)) for name in own] for own in self.own]
        frames = zip(self.frames, self.own, strict=True)
        return {
            "operator": "join",
            "kind": kind,
            "by": [f"{_KEY}{i}" for i in range(len(self.pairs))],
            "time": None,
            "side": _SIDE,
            "sign": table.SIGN,
            "sides": [ddl([(name, rows.schema[name].dataType) for name in own]) for rows, own in frames],
            "places": places,
            "whole": list(whole),
            "columns": [_SIDE, *(f"{_KEY}{i}" for i in range(len(self.pairs))), table.SIGN, bridge.PACKED],
            "changes": True,
            "aggregates": [],
            "output": ddl([*self.columns, (CHANGE, StringType())]),
        }


def _batch(sides: Sides, how: How) -> DataFrame:
    """The batch twin: Spark's join of the rows that are there."""
    left, right = (table.held(rows).alias(name) for rows, name in zip(sides.frames, "lr", strict=True))
    equal = [F.col(f"l.{quoted(a)}") == F.col(f"r.{quoted(b)}") for a, b in sides.pairs]
    same = {a for a, b in sides.pairs if a == b}
    joined = left.join(right, equal, how)
    ours = [
        F.coalesce(F.col(f"l.{quoted(name)}"), F.col(f"r.{quoted(name)}")).alias(name)
        if name in same
        else F.col(f"l.{quoted(name)}")
        for name in sides.own[0]
    ]
    return joined.select(*ours, *(F.col(f"r.{quoted(name)}") for name in sides.added), F.lit("+").alias(CHANGE))


def _column(name: str) -> Column:
    return F.col(quoted(name))


# Checks


def _pairs(left: DataFrame, right: DataFrame, on: On) -> list[tuple[str, str]]:
    named = [on] if isinstance(on, str) else on
    pairs = list(named.items()) if isinstance(named, Mapping) else [(name, name) for name in named]
    if not pairs:
        raise DeclarationError(
            "HR-050", "`join` was not told in which columns the rows are equal.", where=calling().at("on"), found=on,
            fix='name a column that both sides have, such as on="card", or on={"product": "id"}',
        )  # fmt: skip
    aggregate.keys(left, [a for a, _ in pairs], "join", option="on")
    aggregate.keys(right, [b for _, b in pairs], "join", option="on")
    for a, b in pairs:
        types = left.schema[a].dataType, right.schema[b].dataType
        if types[0] != types[1]:
            raise DeclarationError(
                "HR-050", f"`join` cannot compare `{a}` with `{b}`: they are of different types.",
                where=calling().at("on"), found=f"{a} {types[0].simpleString()}, {b} {types[1].simpleString()}",
                fix=f'cast one of them first: `.withColumn("{b}", F.col("{b}").cast("{types[0].simpleString()}"))`',
            )  # fmt: skip
    return pairs


def _check_columns(left: Sequence[str], added: Sequence[str]) -> None:
    known = {name.lower() for name in left}
    twice = [name for name in added if name.lower() in known]
    if twice:
        raise DeclarationError(
            "HR-050", f"Both sides of `join` have a column {', '.join(f'`{name}`' for name in twice)}.",
            where=calling().where, found=f"left: {', '.join(left)}; right: {', '.join(added)}",
            fix=f'rename it on one side, for instance with `withColumnRenamed("{twice[0]}", "…")`, or leave it out',
        )  # fmt: skip


def _check_tables(left: DataFrame, right: DataFrame) -> None:
    for side, rows in (("left", left), ("right", right)):
        if not table.is_table(rows):
            raise DeclarationError(
                "HR-050", f"The {side} side of `join` is a stream, and this version joins tables only.",
                where=calling().where, found=", ".join(rows.columns),
                fix="join tables, or what has a column `change`: `hr.window(…, emit='early')`, `hr.top(…)`",
            )  # fmt: skip
