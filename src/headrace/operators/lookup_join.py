"""`join` of a stream with a table: each row of the stream with the table's rows that are equal in some columns.

    hr.join(payments, cards, on="card", how="left")
    hr.join(sales, rates, on="country", as_of="at")

**Meaning.** Each row of the stream comes out once, with what the table holds when it comes: once for every row of the
table that is equal in `on`. With `how="left"` a row without a partner comes out with nulls, with `inner` it does not.
What the table becomes later changes nothing. In exact mode the table's changes of a batch come before its rows.

**As of.** With `as_of`, a timestamp of the stream, a row meets what was valid at that time: the tax rate at the time of
the sale. It may be the event time or any other; what follows is by the watermark, which follows the event time. The
table is one as the function was given it, whose `hr.history` is taken, or it has a `valid_from` and a `valid_to` of its
own. Versions are kept for `retention` after their end. A change of the table that comes after the row it is about is
not seen by it, unless the rows are corrected: with `correct=True` the result is a table of changes, and until the
watermark has passed the row's event time or its `as_of` by `retention`, its answer is taken back (`-`) and put there
anew (`+`) when a version that was valid then comes, goes or changes.

**Waiting.** With `wait`, a row that has no partner yet waits for one until the watermark has passed its event time by
so much: for a table that is read at the same time, or whose rows come a little later than the events about them. Rows
that have waited come out late, as a window behind the join sees it: give that one a `lateness`.

**Time.** `at` is the event-time column of the stream where none is marked, as behind a join of two streams, or another
than the marked one is meant. Rows of such a join come late by as much as its interval is long: `wait` and `retention`
count from that time, so make them longer by that.

**Live.** Rows of the stream and changes of the table come from different tasks, in no certain order. A change that puts
a row in the place of another is one: a row of the stream sees the one or the other, never both or none. Where a
function leaves one half of it out, or it goes to another key, the other half is seen up to a second later.

**Convergence.** With `correct=True`: when everything has come within `retention`, the rows put there and not taken back
are the batch answer, whatever the order. Without: if the table had come first.

**State.** The rows of the table; with `as_of` the versions of the last `retention`; with `wait` or `correct` rows of
the stream for that long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import TimestampType

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel.operator import Meaning, Option, Routing
from headrace.names import CHANGE
from headrace.operators import history, table
from headrace.operators.columns import quoted
from headrace.operators.event_time import (
    carried,
    conversion,
    mark,
    marked,
    named,
    require_watermark,
    time_column,
    times_said,
)
from headrace.operators.history import FROM, TO
from headrace.operators.sides import Join, Sides
from headrace.operators.window import length


@dataclass(frozen=True, kw_only=True)
class LookupJoin(Join):
    """That of a stream and a table, whose rows are `timeless`. `valid` says where the bounds of a version are among the
    table's columns, and `as_of_place` where `as_of` is among the stream's; -1 is nowhere."""

    kind: ClassVar[str] = "lookup_join"

    wait_ms: Option[int]
    retention_ms: Option[int]
    slice_ms: Option[int]
    valid: Option[Sequence[int]]
    as_of_place: Routing[int]
    correct: Option[bool]
    timeless: Option[bool]
    as_of: Meaning[str | None]


def lookup_join(
    sides: Sides,
    *,
    at: str | None,
    how: str,
    as_of: str | None,
    retention: str | timedelta,
    correct: bool,
    wait: str | timedelta | None,
) -> DataFrame:
    """The rows of a stream with those of a table."""
    if how not in ("inner", "left"):
        raise DeclarationError(
            "HR-040", f"`join` of a stream and a table cannot be `{how}`: rows of the table alone never come out.",
            where=calling().at("how"), found=how,
            fix="use `inner`, or `left` to keep rows of the stream without a partner; or make both sides tables",
        )  # fmt: skip
    stream, rows = sides.frames
    valid = _valid(sides, as_of)
    if correct and (as_of is None or wait is not None):
        raise DeclarationError(
            "HR-050", "`join` corrects what it said `as_of` a time, and then it does not wait.",
            where=calling().at("correct"), found=f"as_of={as_of!r}, wait={wait!r}",
            fix='pass `as_of="…"` and no `wait`; to follow every change of both sides, make both tables',
        )  # fmt: skip
    wait_ms = length(wait, "join", "wait") if wait is not None else 0
    retention_ms = length(retention, "join", "retention")
    found = marked(stream.schema)
    if as_of is not None or wait_ms or found is not None or at is not None:
        sides.times = time_column(stream, at, "join"), None
        require_watermark(stream, at, "join")
    elif said := times_said(stream.schema):
        sides.times = said[0], None  # it asks for no time, but who comes behind it hears of it
    if not stream.isStreaming and not rows.isStreaming:
        answer = _batch(sides, how, as_of)
        return answer.withColumn(CHANGE, F.lit("+")) if correct else answer
    slice_ms = sides.slice_ms(wait_ms if as_of is None else max(retention_ms, wait_ms))
    result = sides.run(
        LookupJoin,
        whole=(how == "left", False),
        changes=correct,
        wait_ms=wait_ms,
        retention_ms=retention_ms,
        slice_ms=slice_ms,
        valid=valid,
        as_of_place=-1 if as_of is None else sides.own[0].index(as_of),
        correct=correct,
        timeless=True,
        at=sides.times[0],
        as_of=as_of,
    )
    if correct:
        return result
    result = carried(result, stream)
    return result if found is None else mark(result, found)


def versions(rows: DataFrame) -> DataFrame:
    """The rows of a table with the times in which they were valid; as they are when they have those, or no history."""
    has_times = {FROM, TO} <= set(rows.columns) or table.timed_records(rows) is None
    return rows if has_times else history.versions(rows, asked="`join` with `as_of`")


def _batch(sides: Sides, how: str, as_of: str | None) -> DataFrame:
    """The batch twin: Spark's join with the rows that the table has, or had at the time."""
    stream, rows = sides.frames
    conditions = []
    if as_of is not None:
        start, end, at = F.col(f"r.{FROM}"), F.col(f"r.{TO}"), F.col(f"l.{quoted(as_of)}")
        conditions = [at.isNotNull() & (start.isNull() | (start <= at)) & (end.isNull() | (at < end))]
    return sides.joined(stream, table.held(rows), how, *conditions)


def _valid(sides: Sides, as_of: str | None) -> list[int]:
    """Where the bounds of a version's validity stand among the table's columns."""
    if as_of is None:
        return [-1, -1]
    stream, rows = sides.frames
    named(stream, as_of, "join", "as_of", side="its left side")
    _check_time(stream, as_of, "`join` cannot answer `as_of` `{}`, which is not a timestamp.")
    if not {FROM, TO} <= set(sides.own[1]):
        raise DeclarationError(
            "HR-050", "`join` needs versions to answer `as_of` a time, and its right side has none.",
            where=calling().at("as_of"), found=", ".join(sides.own[1]),
            fix=f"join with a table as the function was given it, with `hr.history(table)`, or with one that has"
            f" `{FROM}` and `{TO}`",
        )  # fmt: skip
    for name in (FROM, TO):
        _check_time(rows, name, "`{}` of the right side of `join` says when a row was valid, and is not a timestamp.")
    return [sides.own[1].index(FROM), sides.own[1].index(TO)]


def _check_time(rows: DataFrame, name: str, what: str) -> None:
    found = rows.schema[name].dataType
    if not isinstance(found, TimestampType):
        raise DeclarationError(
            "HR-050", what.format(name), where=calling().at("as_of"), found=f"{name} {found.simpleString()}",
            fix=conversion(name, found),
        )  # fmt: skip
