"""`union`: the rows of several inputs together.

    hr.union(web_orders, shop_orders)

**Meaning.** Every row of each input, as often as the inputs have it. The inputs have the same columns with the same
types, in whatever order; the result has that of the first. Where one is a table of changes (table.py), the result is
one too, and the rows of a stream only come.

**Event time.** It is the result's where it is one column of all inputs; it waits for the input whose watermark waits
longest, and for the slowest of them.

**State.** None.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.names import CHANGE
from headrace.operators import sign
from headrace.operators.columns import quoted
from headrace.operators.event_time import EventTime, mark, marked, unmarked
from headrace.operators.given import given


def union(first: DataFrame, /, *others: DataFrame) -> DataFrame:
    """The rows of all inputs."""
    frames = [first, *others]
    given("union", *frames)
    _check(frames)
    columns = [quoted(name) for name in sign.columns(first)]
    changing = any(map(sign.is_table, frames))
    times = [marked(rows.schema) for rows in frames]
    result = None
    for rows in frames:
        signs = [F.col(CHANGE) if sign.is_table(rows) else F.lit("+").alias(CHANGE)] if changing else []
        part = unmarked(rows).select(*columns, *signs)
        result = part if result is None else result.union(part)
    assert result is not None
    time = _together([one for one in times if one is not None]) if None not in times else None
    return result if time is None else mark(result, time)


def _together(times: Sequence[EventTime]) -> EventTime | None:
    """The event time of rows from all of them."""
    if len({time.column for time in times}) > 1:
        return None
    longest = max(times, key=lambda time: time.delay_ms)
    return longest._replace(idle_ms=max(time.idle_ms for time in times))


def _check(frames: Sequence[DataFrame]) -> None:
    if len(frames) < 2:
        raise DeclarationError(
            "HR-056", "`union` was given one input.", where=calling().where, found=", ".join(frames[0].columns),
            fix="give it two or more: `hr.union(a, b)`",
        )  # fmt: skip
    for rows in frames:
        sign.refuse_other(rows, "union")
    wanted = _types(frames[0])
    for number, rows in enumerate(frames[1:], start=2):
        found = _types(rows)
        if found == wanted:
            continue
        missing = [name for name in wanted if name not in found]
        more = [name for name in found if name not in wanted]
        other = [name for name in wanted if name in found and found[name] != wanted[name]]
        problems = [
            *([f"lacks {', '.join(f'`{name}`' for name in missing)}"] if missing else []),
            *([f"has {', '.join(f'`{name}`' for name in more)} besides"] if more else []),
            *(f"has `{n}` as {found[n]} and not {wanted[n]}" for n in other),
        ]
        raise DeclarationError(
            "HR-056", f"Input {number} of `union` differs from the first: it {'; it '.join(problems)}.",
            where=calling().where, found=", ".join(f"{name} {kind}" for name, kind in found.items()),
            fix="select, rename or cast the columns, so that all inputs have the same",
        )  # fmt: skip


def _types(rows: DataFrame) -> dict[str, str]:
    """The type of each column; whether it may be null does not matter."""
    return {name: rows.schema[name].dataType.simpleString() for name in sign.columns(rows)}
