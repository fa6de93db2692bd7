"""The two sides of a join: which columns are compared, which come out, and how both go to the kernel as one stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StringType

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator, Option, Routing
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import sign, table
from headrace.operators.columns import cast, ddl, quoted
from headrace.operators.common_type import common_type
from headrace.operators.event_time import EventTime, mark, taken
from headrace.operators.keys import key_columns

On = str | Sequence[str] | Mapping[str, str]

_SIDE = f"{COLUMN_PREFIX}side"
_NAMES = (f"{COLUMN_PREFIX}left_", f"{COLUMN_PREFIX}right_")
_KEY = f"{COLUMN_PREFIX}key_"
_TIME = f"{COLUMN_PREFIX}time"
_SLICES = 8
_LEAST_SLICE_MS = 1_000


@dataclass(frozen=True, kw_only=True)
class Join(Operator):
    """What every join has: the column that says of which `side` a row is, and the one that says whether it comes or
    goes; the columns of the `sides`, the `places` that they have in a result, and whether rows of a side come out
    without a partner. `on` are the columns that are compared, and `at` is the event time as it was declared."""

    name: ClassVar[str] = "join"

    side: Routing[str]
    sign: Routing[str]
    sides: Option[Sequence[str]]
    places: Routing[Sequence[Sequence[int]]]
    whole: Option[Sequence[bool]]
    on: Meaning[Mapping[str, str]]
    at: Meaning[Sequence[str | None] | str | None]


class Sides:
    """Two DataFrames, the columns in which they are to be equal, and the time of each, if that matters."""

    def __init__(self, left: DataFrame, right: DataFrame, on: On | None, *, versions: bool = False) -> None:
        """`versions` says that the right side is the history of what the user gave."""
        self.frames = (left, right)
        for rows in self.frames:
            sign.refuse_other(rows, "join")
        self.pairs = _pairs(on)
        _check_keys(left, right, self.pairs)
        _check_types(left, right, self.pairs, versions=versions)
        self.own = tuple(sign.columns(rows) for rows in self.frames)
        self._same = {b: a for a, b in self.pairs if a == b}
        self.added = [name for name in self.own[1] if name not in self._same]
        self.times: tuple[str | None, str | None] = (None, None)
        _check_columns(self.own[0], self.added)

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        """The columns of the result, without `change`."""
        left, right = (rows.schema for rows in self.frames)
        return [*((n, left[n].dataType) for n in self.own[0]), *((n, right[n].dataType) for n in self.added)]

    @staticmethod
    def slice_ms(kept_ms: int) -> int:
        """How long the slices of time are in which the kernel keeps rows that it keeps for so long."""
        return max(_LEAST_SLICE_MS, kept_ms // _SLICES)

    def run(self, kind: type[Join], *, whole: tuple[bool, bool], changes: bool, **options: Any) -> DataFrame:
        """The streaming plan: the operator of this `kind`, with these options of its own, over the rows of both sides.
        Those of a side that is `whole` come out without a partner, too."""
        for frame in self.frames:
            sign.refuse_moving(frame, "`join`", calling().where)
        rows, *beside = self._messages()
        time = self.time(_TIME)
        operator = self._operator(kind, whole, changes, options)
        return bridge.sharded(rows if time is None else mark(rows, time), operator, *beside)

    def time(self, column: str) -> EventTime | None:
        """The event time of rows of both sides, in a column: it waits as long as the longer of the two."""
        found = [taken(rows.schema, time) for rows, time in zip(self.frames, self.times, strict=True) if time]
        known = [time for time in found if time is not None]
        if not known:
            return None
        slowest = max(known, key=lambda time: time.delay_ms)
        return slowest._replace(column=column, idle_ms=max(time.idle_ms for time in known))

    def _messages(self) -> list[DataFrame]:
        """The rows of both sides, in one frame where they are read in one pass: the side, the key, the sign, the time,
        and the row packed."""
        rows = bridge.one_pass(*self.frames, _SIDE, _NAMES)
        if rows is not None:
            return [self._merged(rows)]
        return [
            bridge.packed(
                rows.select(F.lit(number).alias(_SIDE), *self._head(number, _column), *map(_column, self.own[number])),
                self.own[number],
            )
            for number, rows in enumerate(self.frames)
        ]

    def _merged(self, rows: DataFrame) -> DataFrame:
        """Of sides that were read in one pass: each has columns of its own, which are null in rows of the other."""
        packed = []
        heads = []
        for number, frame in enumerate(self.frames):
            places = {name: f"{_NAMES[number]}{i}" for i, name in enumerate(frame.columns)}
            heads.append(self._head(number, lambda name, places=places: F.col(places[name])))
            packed.append(bridge.pack(rows, [places[name] for name in self.own[number]]))
        is_left = F.col(_SIDE) == 0
        names = [*(f"{_KEY}{i}" for i in range(len(self.pairs))), table.SIGN, _TIME, bridge.PACKED]
        columns = zip(names, [*heads[0], packed[0]], [*heads[1], packed[1]], strict=True)
        return rows.select(
            _SIDE, *(F.when(is_left, left).otherwise(right).alias(name) for name, left, right in columns)
        )

    def _head(self, number: int, column: Callable[[str], Column]) -> list[Column]:
        """The key, the sign and the time of the rows of a side, whose columns are found by their names."""
        time = self.times[number]
        key = [column(pair[number]).cast(self._key_type(i)).alias(f"{_KEY}{i}") for i, pair in enumerate(self.pairs)]
        plus = column(CHANGE) if sign.is_table(self.frames[number]) else F.lit("+")
        at = column(time) if time else F.lit(None).cast("timestamp")
        return [*key, plus.alias(table.SIGN), at.alias(_TIME)]

    def _key_type(self, pair: int) -> DataType:
        return self.frames[0].schema[self.pairs[pair][0]].dataType

    def _operator(self, kind: type[Join], whole: tuple[bool, bool], changes: bool, options: dict[str, Any]) -> Join:
        names = [name for name, _ in self.columns]
        places = [[names.index(self._same.get(name, name)) for name in own] for own in self.own]
        frames = zip(self.frames, self.own, strict=True)
        keys = [f"{_KEY}{i}" for i in range(len(self.pairs))]
        every: dict[str, Any] = {
            "by": keys,
            "time": _TIME if any(self.times) else None,
            "columns": [_SIDE, *keys, table.SIGN, _TIME, bridge.PACKED],
            "output": ddl([*self.columns, *([(CHANGE, StringType())] if changes else [])]),
            "changes": changes,
            "side": _SIDE,
            "sign": table.SIGN,
            "sides": [ddl([(name, rows.schema[name].dataType) for name in own]) for rows, own in frames],
            "places": places,
            "whole": list(whole),
            "on": dict(self.pairs),
            "at": list(self.times),
        }
        return kind(**(every | options))

    def joined(self, left: DataFrame, right: DataFrame, how: str, *conditions: Column) -> DataFrame:
        """The batch twin: Spark's join of rows of the sides; `conditions` name their columns with `l.` and `r.`"""
        equal = [F.col(f"l.{quoted(a)}") == F.col(f"r.{quoted(b)}") for a, b in self.pairs]
        joined = left.alias("l").join(right.alias("r"), [*equal, *conditions], how)
        ours = [
            F.coalesce(F.col(f"l.{quoted(name)}"), F.col(f"r.{quoted(name)}")).alias(name)
            if name in self._same
            else F.col(f"l.{quoted(name)}")
            for name in self.own[0]
        ]
        return joined.select(*ours, *(F.col(f"r.{quoted(name)}") for name in self.added))


def _column(name: str) -> Column:
    return F.col(quoted(name))


# Checks


def _pairs(on: object) -> list[tuple[str, str]]:
    """The columns of `on`, of the left and the right side."""
    pairs: list[Any] = [None]
    if isinstance(on, str):
        pairs = [(on, on)]
    elif isinstance(on, Mapping):
        pairs = list(on.items())
    elif isinstance(on, list | tuple):
        pairs = [(name, name) for name in on]
    if on is None or not pairs:
        raise DeclarationError(
            "HR-050", "`join` was not told in which columns the rows are equal.", where=calling().at("on"), found=on,
            fix='name a column that both sides have, such as on="card", or on={"product": "id"}',
        )  # fmt: skip
    if not all(isinstance(pair, tuple) and all(isinstance(name, str) for name in pair) for pair in pairs):
        raise DeclarationError(
            "HR-050", "`on` of `join` does not name columns.", where=calling().at("on"), found=f"on={on!r}",
            fix=_as_mapping(on) or 'write their names, such as on="card", or on={"product": "id"} where they differ',
        )  # fmt: skip
    return pairs


def _as_mapping(on: object) -> str | None:
    """What was meant by pairs of names."""
    pairs = [tuple(pair) for pair in on if isinstance(pair, list | tuple)] if isinstance(on, list | tuple) else []
    if not pairs or any([isinstance(name, str) for name in pair] != [True, True] for pair in pairs):
        return None
    meant = ", ".join(f'"{left}": "{right}"' for left, right in pairs)
    return f"write the names of the left and the right side as a mapping: on={{{meant}}}"


def _check_keys(left: DataFrame, right: DataFrame, pairs: Sequence[tuple[str, str]]) -> None:
    for number, (rows, side) in enumerate(((left, "left"), (right, "right"))):
        names = [pair[number] for pair in pairs]
        key_columns(rows, names, "join", option="on", side=f"its {side} side", use="compare rows by")


def _check_types(left: DataFrame, right: DataFrame, pairs: Sequence[tuple[str, str]], *, versions: bool) -> None:
    for a, b in pairs:
        types = left.schema[a].dataType, right.schema[b].dataType
        if types[0] != types[1]:
            raise DeclarationError(
                "HR-050", f"`join` cannot compare `{a}` with `{b}`: they are of different types.",
                where=calling().at("on"), found=f"{a} {types[0].simpleString()}, {b} {types[1].simpleString()}",
                fix=_casts((a, b), types, versions=versions),
            )  # fmt: skip


def _casts(names: tuple[str, str], types: tuple[DataType, DataType], *, versions: bool) -> str:
    """What makes the types equal: both become one that holds the values of both, where there is one."""
    wanted = common_type(*types) or types[1 if versions else 0]
    casts = [cast(name, wanted.simpleString()) for name in names]
    sides = [f"the left side: `{casts[0]}`", f"the right side: `{'hr.history(…)' if versions else ''}{casts[1]}`"]
    sides = [side for side, found in zip(sides, types, strict=True) if found != wanted]
    return f"cast {' and '.join(sides)}, before they are joined"


def _check_columns(left: Sequence[str], added: Sequence[str]) -> None:
    known = {name.lower() for name in left}
    twice = [name for name in added if name.lower() in known]
    if twice:
        it, dropped = "it" if len(twice) == 1 else "them", ", ".join(f'"{name}"' for name in twice)
        raise DeclarationError(
            "HR-050", f"Both sides of `join` have a column {', '.join(f'`{name}`' for name in twice)}.",
            where=calling().where, found=f"left: {', '.join(left)}; right: {', '.join(added)}",
            fix=f'rename {it} on the left side, for instance `.withColumnRenamed("{twice[0]}", "…")`, or leave {it} '
            f"out there: `.drop({dropped})`",
        )  # fmt: skip
