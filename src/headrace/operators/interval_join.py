"""`join` of two streams: rows that are equal in some columns, and not too far apart in time.

    hr.join(clicks, impressions, on="ad", within=("-1 hour", "0"))

**Meaning.** A row of the left side meets every row of the right side that is equal in `on` and whose event time less
the left row's is `within` the two bounds, which are included: above, an impression of the hour before the click. One
row may meet many, on both sides. A row with a null in `on` meets nobody.

**Emit.** A pair comes out at once when the second of the two has come, and once. `how` says whose rows come out alone,
with nulls for the other side: `left`, `right` or `full`; each once, when the watermark has passed the end of its
interval and `lateness`, so that no partner can come any more.

**Late.** A row whose time the watermark passed by more than `lateness` goes to `<name>.late`, or with `late="drop"` is
counted and dropped; so does a row without an event time.

**Convergence.** When all rows that are not late have come and the watermark has passed the last interval, the result is
the batch answer.

**The result** is a stream without a marked event time: a row may be as old as the interval is long. A window over it,
or another join, takes `at=`, and a `lateness` of that length.

**Time.** `at` is the event-time column of the left side, or a pair of those of both sides, in which None means the
marked one. It is for rows in which none is marked, as those of another join, and to go by another column than the
marked one. Rows of an earlier join come late by as long as they waited for their partner: by its left column up to its
upper bound, by its right column up to what its lower bound is below 0, by both its own `lateness` more. The second join
needs a `lateness` of that length, or they are late for it; so is a row in which the column is null.

    seen = hr.join(clicks, shows, on="ad", within=("-1 hour", "10 minutes"))
    hr.join(seen, buys, on="click", at="clicked_at", within=("0", "1 day"), lateness="10 minutes")
    hr.join(seen, buys, on="click", at="shown_at", within=("0", "1 day"), lateness="1 hour")

**State.** The rows of each side until their interval and `lateness` have passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace import duration
from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel.operator import Option, Routing
from headrace.operators.columns import quoted
from headrace.operators.event_time import delayed, require_watermark, time_column, unmarked
from headrace.operators.sides import Join, Sides

Bound = str | timedelta
Within = tuple[Bound, Bound]


@dataclass(frozen=True, kw_only=True)
class IntervalJoin(Join):
    """That of two streams; rows are kept in slices of time."""

    kind: ClassVar[str] = "interval_join"

    lower_ms: Option[int]
    upper_ms: Option[int]
    slice_ms: Option[int]
    lateness_ms: Option[int]
    drop_late: Routing[bool]


def interval_join(
    sides: Sides, *, at: tuple[str | None, str | None], within: Any, how: str, lateness_ms: int, late: str
) -> DataFrame:
    """The pairs of two streams whose times are `within` the bounds, and the rows that have no partner."""
    lower_ms, upper_ms = _bounds(within)
    left, right = sides.frames
    sides.times = times = _times(sides, at)
    if left.isStreaming or right.isStreaming:
        whole = how in ("left", "full"), how in ("right", "full")
        slice_ms = sides.slice_ms(upper_ms - lower_ms + lateness_ms)
        bounds = {"lower_ms": lower_ms, "upper_ms": upper_ms, "lateness_ms": lateness_ms, "slice_ms": slice_ms}
        pairs = sides.run(IntervalJoin, whole=whole, changes=False, drop_late=late == "drop", **bounds)
    else:
        left, right = (
            unmarked(rows).where(F.col(quoted(time)).isNotNull())
            for rows, time in zip((left, right), times, strict=True)
        )
        micros = [F.unix_micros(F.col(f"{side}.{quoted(time)}")) for side, time in zip("lr", times, strict=True)]
        near = (micros[1] - micros[0]).between(lower_ms * 1000, upper_ms * 1000)
        pairs = sides.joined(left, right, how, near)
    for column in times:
        if (time := sides.time(column)) is not None:
            pairs = delayed(pairs, time)
    return pairs


def _times(sides: Sides, at: tuple[str | None, str | None]) -> tuple[str, str]:
    left, right = sides.frames
    first = time_column(left, at[0], "join")
    named = f'"{at[0]}"' if at[0] is not None else "None"
    second = time_column(right, at[1], "join", option=f'at=({named}, "column")')
    for rows, column in zip((left, right), at, strict=True):
        require_watermark(rows, column, "join")
    return first, second


def _bounds(within: Any) -> tuple[int, int]:
    found, problem = (0, 0), "it is not a pair of durations"
    if isinstance(within, tuple | list) and [isinstance(bound, Bound) for bound in within] == [True, True]:
        try:
            found = _milliseconds(within[0]), _milliseconds(within[1])
            problem = "its first bound is after its second" if found[0] > found[1] else None
        except ValueError as error:
            problem = str(error)
    if problem:
        raise DeclarationError(
            "HR-050", f"`join` cannot use its `within`: {problem}.", where=calling().at("within"), found=within,
            fix='write how far the right row may be before and after the left one, such as ("-1 hour", "0")',
        )  # fmt: skip
    return found


def _milliseconds(bound: Bound) -> int:
    """Of a duration that may be negative; nothing needs no unit."""
    if isinstance(bound, timedelta):
        return -duration.parse(-bound) if bound < timedelta(0) else duration.parse(bound)
    text = bound.strip()
    if text.lstrip("+-") == "0":
        return 0
    return -duration.parse(text[1:]) if text.startswith("-") else duration.parse(text.removeprefix("+"))
