"""DataFrames that stand for others while a declared function is called, so that ordinary PySpark can be translated.

    with StandIns() as stand_ins:
        rows = stand_ins.actual(function(*map(stand_ins.of, frames)))

The function is given placeholders of the frames. What it does with them is a plan of Spark's, and `actual` makes of it
the rows that are kept up to date; in batch they are Spark's own answer. An operator of Headrace that is called on the
way (`taking`) gets the actual rows of its arguments, and the function is given a placeholder of its result. So both
kinds of steps can follow one another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.compiler.translation import Translation
from headrace.kernel import bridge
from headrace.names import CHANGE

P = ParamSpec("P")
R = TypeVar("R")

_CURRENT: ContextVar[StandIns | None] = ContextVar("headrace_stand_ins", default=None)


class StandIns:
    """Those of one call of a function; `translated` says whether any of it had to be translated."""

    def __init__(self) -> None:
        self.translated = False
        self._frames: dict[str, DataFrame] = {}
        self._given: dict[int, tuple[DataFrame, DataFrame]] = {}

    def of(self, rows: DataFrame) -> DataFrame:
        """A placeholder of rows."""
        name = f"in{len(self._frames)}"
        self._frames[name] = rows
        given = bridge.placeholder(rows.sparkSession, name, rows.schema, streaming=True)
        self._given[id(given)] = (given, rows)
        return given

    def actual(self, rows: DataFrame) -> DataFrame:
        """The rows that a DataFrame stands for."""
        if id(rows) in self._given:
            return self._given[id(rows)][1]
        used = {name: self._frames[name] for name in bridge.placeholders(rows)}
        if not used:
            return rows
        if bridge.is_plain(rows):
            return bridge.resolved(rows, used)
        self.translated = True
        if any(frame.isStreaming for frame in used.values()):
            return Translation(bridge.UserPlan(rows), used).result()
        return bridge.resolved(rows, used).drop(CHANGE).withColumn(CHANGE, F.lit("+"))

    def __enter__(self) -> Self:
        self._token: Token[StandIns | None] = _CURRENT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CURRENT.reset(self._token)


def taking(operator: Callable[P, R]) -> Callable[P, R]:
    """An operator that takes placeholders, too, and gives one of its result then."""

    @wraps(operator)
    def taken(*args: P.args, **kwargs: P.kwargs) -> R:
        stand_ins = _CURRENT.get()
        if stand_ins is None:
            return operator(*args, **kwargs)

        def actual(one: Any) -> Any:
            return stand_ins.actual(one) if isinstance(one, DataFrame) else one

        call: Any = operator
        result: Any = call(*map(actual, args), **{name: actual(one) for name, one in kwargs.items()})
        return cast("R", stand_ins.of(result)) if isinstance(result, DataFrame) else result

    return taken
