"""`join`: rows of two sides that are equal in some columns.

    hr.join(orders, products, on={"product": "id"}, how="left")               # tables
    hr.join(clicks, impressions, on="ad", within=("-1 hour", "0"))            # streams: interval_join.py
    hr.join(payments, cards, on="card")                                       # a stream and a table: lookup_join.py

**Tables.** Both sides are tables of changes (table.py), and so is the result: when a row of either side comes, goes or
changes, the results that it is part of do. One row may meet many, on both sides. `how` says whose rows stay without a
partner: `inner` nobody's, `left`, `right`, or `full` those of both; the other side's columns are null then.

**Columns.** `on` is a column that both sides have, several, or a mapping of the left side's to the right side's. The
result has the columns of the left side and those of the right side, without the right side's of `on` that have the name
of their partner; where a row of the right side stands alone, they hold its values. Any other name that both have is an
error. A null in `on` is equal to nothing, not even to null.

**Convergence.** The rows put there and not taken back are the join of the rows that both tables have.

**State.** All rows of both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.names import CHANGE
from headrace.operators import sign, table
from headrace.operators.given import given
from headrace.operators.interval_join import Within, interval_join
from headrace.operators.lookup_join import lookup_join, versions
from headrace.operators.sides import Join, On, Sides
from headrace.operators.window import check_word, length

How = Literal["inner", "left", "right", "full"]
At = str | tuple[str | None, str | None]
_RETENTION = "7 days"
_LATENESS = "0 seconds"


@dataclass(frozen=True, kw_only=True)
class TableJoin(Join):
    """That of two tables, which has no options of its own."""

    kind: ClassVar[str] = "table_join"


def join(
    left: DataFrame,
    right: DataFrame,
    /,
    *,
    on: On | None = None,
    how: How = "inner",
    at: At | None = None,
    within: Within | None = None,
    lateness: str | timedelta = _LATENESS,
    late: Literal["keep", "drop"] = "keep",
    as_of: str | None = None,
    retention: str | timedelta = _RETENTION,
    correct: bool = False,
    wait: str | timedelta | None = None,
) -> DataFrame:
    """The rows of both sides that are equal in `on`: of two tables, of two streams (`within`, `lateness`, `late`), or
    of a stream and a table (`as_of`, `retention`, `correct`, `wait`). The event time is the marked column or `at`: that
    of the left side, or a pair of those of both sides, such as `at=("clicked_at", "bought_at")`."""
    given("join", left, right)
    check_word("join", "how", how, ("inner", "left", "right", "full"))
    check_word("join", "late", late, ("keep", "drop"))
    if not isinstance(correct, bool):
        raise DeclarationError(
            "HR-040", "`correct` of `join` is neither true nor false.", where=calling().at("correct"),
            found=f"correct={correct!r}", fix="use `True` or `False`",
        )  # fmt: skip
    timed = {"within": within is not None, "lateness": lateness != _LATENESS, "late": late != "keep"}
    looked_up = {"as_of": as_of is not None, "retention": retention != _RETENTION, "correct": correct}
    looked_up["wait"] = wait is not None
    times = _times(at)
    told = right if as_of is None else versions(right)
    sides = Sides(left, told, on, versions=told is not right)
    kinds = sign.is_table(left), sign.is_table(right)
    if kinds == (True, True):
        _refuse("two tables", timed | looked_up | {"at": at is not None})
        return _tables(sides, how)
    if kinds == (False, True):
        _refuse("a stream and a table", timed)
        if as_of is None:
            _refuse("a stream and a table without `as_of`", {"retention": looked_up["retention"]}, fix="leave it out")
        if times[1] is not None:
            raise DeclarationError(
                "HR-050", "`join` of a stream and a table takes `at` of the stream only: rows of a table have no time.",
                where=calling().at("at"), found=at, fix="name the column of the left side alone",
            )  # fmt: skip
        return lookup_join(sides, at=times[0], how=how, as_of=as_of, retention=retention, correct=correct, wait=wait)
    if kinds == (True, False):
        raise DeclarationError(
            "HR-050", "The left side of `join` is a table and the right side is a stream.", where=calling().where,
            found=f"left: {', '.join(left.columns)}; right: {', '.join(right.columns)}",
            fix="put the stream on the left: `hr.join(stream, table, on=…)`",
        )  # fmt: skip
    _refuse("two streams", looked_up)
    if within is None:
        raise DeclarationError(
            "HR-050", "`join` of two streams needs an interval: without one all rows would be kept for ever.",
            where=calling().where, found="no `within`",
            fix='say how far apart their times may be, such as within=("-1 hour", "0"), or make one side a table',
        )  # fmt: skip
    lateness_ms = length(lateness, "join", "lateness", least=0)
    return interval_join(sides, at=times, within=within, how=how, lateness_ms=lateness_ms, late=late)


def _tables(sides: Sides, how: str) -> DataFrame:
    if any(rows.isStreaming for rows in sides.frames):
        return sides.run(TableJoin, whole=(how in ("left", "full"), how in ("right", "full")), changes=True)
    left, right = map(table.held, sides.frames)
    return sides.joined(left, right, how).withColumn(CHANGE, F.lit("+"))


def _times(at: Any) -> tuple[str | None, str | None]:
    """The columns that `at` names on the left side and on the right side."""
    pair = at if isinstance(at, tuple | list) else (at, None)
    if [name is None or isinstance(name, str) for name in pair] != [True, True]:
        raise DeclarationError(
            "HR-050", "`join` cannot use its `at`: it is neither a column nor a pair of columns.",
            where=calling().at("at"), found=at,
            fix='name the event time of the left side, such as at="clicked", or of both, at=("clicked", "bought")',
        )  # fmt: skip
    return pair[0], pair[1]


def _refuse(
    what: str, used: dict[str, bool], *, fix: str = "leave it out; a table has a column `change`, a stream has not"
) -> None:
    for option in (option for option, is_used in used.items() if is_used):
        raise DeclarationError(
            "HR-050", f"`join` of {what} does not take `{option}`.", where=calling().at(option), found=option, fix=fix,
        )  # fmt: skip
