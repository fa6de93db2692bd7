"""`window`: aggregates over groups of rows that are near in event time.

    hr.window(pageviews, hr.tumbling("1 minute"), by="url", views=hr.count())
    hr.window(bids, hr.hopping("10 minutes", "1 minute"), by="auction", emit="early", lateness="1 hour", n=hr.count())
    hr.window(clicks, hr.session("30 minutes"), by=["user", "device"], clicks=hr.count(), left=hr.last("url"))
    hr.window(orders, hr.tumbling("1 day", timezone="Europe/Berlin"), by=[], revenue=hr.sum("price"))
    hr.window(orders, hr.global_(every="10 seconds"), by="customer", orders=hr.count())

**Meaning.** A row belongs to every window that holds its event time:

- `tumbling(size)`: [offset + n × size, offset + (n + 1) × size), counted from 1970-01-01T00:00Z. With a `timezone` the
  size is whole days of that zone's calendar, from midnight to midnight, so that a day may have 23, 24 or 25 hours; the
  days are counted from 1970-01-01 of that zone. Where a zone goes back over midnight, the first midnight counts.
- `hopping(size, every)`: [offset + n × every, offset + n × every + size); a row is in about size / every of them.
- `session(gap)`: rows of a key of which each is at most `gap` after the one before. `window_start` is the time of the
  first and `window_end` the time of the last plus `gap`. A late row may join two sessions into one.
- `global_(every)`: one group a key for ever. `every` says after how many rows, or how much time, the stream tells.

Without columns in `by` there is one group; a null in a `by` column is a value like any other.

**Result.** The `by` columns, `window_start` and `window_end` (not for `global_`), the aggregates, and where rows may be
corrected (`emit="early"`, a `lateness`, `global_`) the column `change`: `-` takes a row back, `+` puts one there. In
batch every row is final, and `change` is always `+`. The event time of the result is `window_end`; its watermark waits
for `lateness` longer than that of the input.

**Emit.** `final`: a window once, when the watermark passes its end; then corrections until `lateness` is over. `early`:
on every change as well.

**Late.** A row all of whose windows ended `lateness` or more before the watermark goes to `<name>.late`, or with
`late="drop"` is counted and dropped. One that is in time for some of its windows counts in those only. A row that would
prolong a session which ended `lateness` or more before the watermark is late too: what was given of that session stays,
and no other begins inside it. A row without an event time goes to `<name>.late`, and is not in the batch answer.

**Convergence.** When all rows that are not late have come, the rows put there and not taken back are the batch answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import ClassVar, Literal
from zoneinfo import ZoneInfo

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, StringType, TimestampType
from pyspark.sql.window import Window as Ranges

from headrace import duration
from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator, Option, Routing
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import aggregate, sign
from headrace.operators.aggregate import Aggregate, Bound
from headrace.operators.columns import ddl, quoted
from headrace.operators.event_time import DEFAULT_IDLE_MS, EventTime, mark, marked, time_column
from headrace.operators.given import given
from headrace.operators.keys import key_columns

START, END = "window_start", "window_end"

_DAY_MS = 86_400_000
_MOST_WINDOWS = 10_000
_TIME = f"{COLUMN_PREFIX}time"
_START = f"{COLUMN_PREFIX}start"
_END = f"{COLUMN_PREFIX}end"


@dataclass(frozen=True)
class Window:
    """Which windows there are; what a kind does not use is 0 or None."""

    kind: Literal["tumbling", "hopping", "session", "global"]
    size_ms: int = 0
    every_ms: int = 0
    offset_ms: int = 0
    timezone: str | None = None
    gap_ms: int = 0
    every_rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Windowed(Operator):
    """Aggregates over windows of one kind; `early` says that results are given on every change."""

    name: ClassVar[str] = "window"

    early: Routing[bool]
    emit: Meaning[str]
    lateness_ms: Option[int]
    drop_late: Routing[bool]


@dataclass(frozen=True, kw_only=True)
class Tumbling(Windowed):
    """One begins where the one before ends. With a `timezone` size and offset are whole days of it."""

    kind: ClassVar[str] = "tumbling"

    size_ms: Option[int]
    every_ms: Meaning[int]
    offset_ms: Option[int]
    timezone: Option[str | None]


@dataclass(frozen=True, kw_only=True)
class Hopping(Windowed):
    """One begins `every_ms`."""

    kind: ClassVar[str] = "hopping"

    size_ms: Option[int]
    every_ms: Option[int]
    offset_ms: Option[int]


@dataclass(frozen=True, kw_only=True)
class Session(Windowed):
    """One ends when a key has been quiet for longer than the gap."""

    kind: ClassVar[str] = "session"

    gap_ms: Option[int]


@dataclass(frozen=True, kw_only=True)
class Global(Windowed):
    """One for ever, told after so many rows or so much time; the other of the two is 0."""

    kind: ClassVar[str] = "global"

    every_rows: Option[int]
    every_ms: Option[int]


_OPERATORS: dict[str, type[Windowed]] = {kind.kind: kind for kind in (Tumbling, Hopping, Session, Global)}


# What the user writes


def tumbling(size: str | timedelta, *, offset: str | timedelta = "0 seconds", timezone: str | None = None) -> Window:
    """Windows of `size` side by side; with a `timezone`, whole days of its calendar."""
    size_ms, offset_ms = length(size, "tumbling", "size"), length(offset, "tumbling", "offset", least=0)
    if timezone is not None:
        _check_zone(timezone)
        for option, milliseconds in (("size", size_ms), ("offset", offset_ms)):
            if milliseconds % _DAY_MS:
                raise DeclarationError(
                    "HR-039", f"`tumbling` with a time zone counts in days, and its `{option}` is not whole days.",
                    where=calling().at(option), found=duration.describe(milliseconds),
                    fix="use whole days, or leave `timezone` out",
                )  # fmt: skip
    return Window("tumbling", size_ms=size_ms, every_ms=size_ms, offset_ms=offset_ms % size_ms, timezone=timezone)


def hopping(
    size: str | timedelta,
    every: str | timedelta,
    *,
    offset: str | timedelta = "0 seconds",
    timezone: str | None = None,
) -> Window:
    """Windows of `size`, of which one begins `every` so often."""
    size_ms, every_ms = length(size, "hopping", "size"), length(every, "hopping", "every")
    offset_ms = length(offset, "hopping", "offset", least=0)
    if timezone is not None:
        raise DeclarationError(
            "HR-039", "`hopping` cannot follow the calendar of a time zone.", where=calling().at("timezone"),
            found=timezone, fix="leave `timezone` out, or use `hr.tumbling` with whole days",
        )  # fmt: skip
    if every_ms > size_ms:
        raise DeclarationError(
            "HR-038", "The windows of `hopping` would leave gaps: a row between two would be in none.",
            where=calling().at("every"),
            found=f"size {duration.describe(size_ms)}, every {duration.describe(every_ms)}",
            fix="make `every` as long as `size` or shorter",
        )  # fmt: skip
    if size_ms > every_ms * _MOST_WINDOWS:
        raise DeclarationError(
            "HR-038", f"Each row would be in more than {_MOST_WINDOWS:,} windows of `hopping`.",
            where=calling().at("every"),
            found=f"size {duration.describe(size_ms)}, every {duration.describe(every_ms)}",
            fix="make `every` longer, or use `hr.sliding`, which looks back from each row",
        )  # fmt: skip
    return Window("hopping", size_ms=size_ms, every_ms=every_ms, offset_ms=offset_ms % every_ms)


def session(gap: str | timedelta) -> Window:
    """Windows that end when a key has been quiet for longer than `gap`."""
    return Window("session", gap_ms=length(gap, "session", "gap"))


def global_(*, every: int | str | timedelta = 1) -> Window:
    """One window for ever; the stream tells its state after `every` so many rows of a key, or so much time."""
    if isinstance(every, int):
        if isinstance(every, bool) or every < 1:
            raise DeclarationError(
                "HR-038", "`global_` cannot use its `every`.", where=calling().at("every"), found=every,
                fix="give it a number of rows from 1, or a duration such as `10 seconds`",
            )  # fmt: skip
        return Window("global", every_rows=every)
    return Window("global", every_ms=length(every, "global_", "every"))


def window(
    rows: DataFrame,
    windows: Window,
    /,
    *,
    by: str | Sequence[str],
    emit: Literal["early", "final"] = "final",
    lateness: str | timedelta = "0 seconds",
    late: Literal["keep", "drop"] = "keep",
    at: str | None = None,
    **aggregates: Aggregate,
) -> DataFrame:
    """The aggregates of each group of `by` in each of the windows; the event time is `at`, or the marked column."""
    given("window", rows)
    aggregate.refuse_options("window", by=by, emit=emit, lateness=lateness, late=late, at=at)
    _check_window(windows)
    check_word("window", "emit", emit, ("early", "final"))
    check_word("window", "late", late, ("keep", "drop"))
    lateness_ms = length(lateness, "window", "lateness", least=0)
    if windows.kind == "global" and lateness_ms:
        raise DeclarationError(
            "HR-040", "A global window never ends, so nothing is late for it.", where=calling().at("lateness"),
            found=lateness, fix="leave `lateness` out",
        )  # fmt: skip
    sign.refuse_table(rows, "window")
    keys = key_columns(rows, by, "window")
    time = time_column(rows, at, "window")
    changes = _has_changes(windows, emit, lateness_ms)
    added = ([] if windows.kind == "global" else [START, END]) + ([CHANGE] if changes else [])
    _check_added(keys, added)
    bound, prepared = aggregate.bind(rows, aggregates, "window", [*keys, *added])
    if rows.isStreaming:
        operator = window_operator(rows, windows, keys, time, bound, emit=emit, lateness_ms=lateness_ms, late=late)
        result = bridge.sharded(prepared, operator)
    else:
        result = _batch(prepared, windows, keys, time, bound, changes=changes)
    return result if windows.kind == "global" else mark(result, _event_time(rows, time, lateness_ms))


def window_operator(
    rows: DataFrame,
    windows: Window,
    keys: Sequence[str],
    time: str,
    bound: Sequence[Bound],
    *,
    emit: str,
    lateness_ms: int,
    late: str,
) -> Windowed:
    """What the kernel is told, and what the state means."""
    changes = _has_changes(windows, emit, lateness_ms)
    limits: list[tuple[str, DataType]] = [(START, TimestampType()), (END, TimestampType())]
    output: list[tuple[str, DataType]] = [
        *((key, rows.schema[key].dataType) for key in keys),
        *(() if windows.kind == "global" else limits),
        *((one.name, one.type) for one in bound),
        *([(CHANGE, StringType())] if changes else []),
    ]
    operator = _OPERATORS[windows.kind]
    own = {field.name for field in fields(operator)}
    return operator(
        **{name: value for name, value in asdict(windows).items() if name in own},
        by=list(keys),
        time=time,
        columns=rows.columns,
        aggregates=bound,
        output=ddl(output),
        unique=[*keys, *(() if windows.kind == "global" else (START,))],
        changes=changes,
        early=emit == "early",
        emit=emit,
        lateness_ms=lateness_ms,
        drop_late=late == "drop",
    )


def _batch(
    rows: DataFrame, windows: Window, keys: Sequence[str], time: str, bound: Sequence[Bound], *, changes: bool
) -> DataFrame:
    """The batch twin: each row once for each of its windows, then a group-by."""
    columns = [F.col(quoted(key)) for key in keys]
    timed = rows.where(F.col(quoted(time)).isNotNull()).withColumn(_TIME, F.unix_micros(F.col(quoted(time))))
    placed = _placed(timed, windows, columns)
    grouped = placed.groupBy(*columns, F.col(_START), F.col(_END))
    limits = [F.timestamp_micros(_START).alias(START), F.timestamp_micros(_END).alias(END)]
    return grouped.agg(*(aggregate.batch(one, F.col(_TIME)) for one in bound)).select(
        *columns,
        *([] if windows.kind == "global" else limits),
        *(F.col(quoted(one.name)) for one in bound),
        *([F.lit("+").alias(CHANGE)] if changes else []),
    )


def _placed(rows: DataFrame, windows: Window, keys: Sequence[Column]) -> DataFrame:
    """Each row once for each of its windows, with the start and the end of that one in microseconds."""
    at, size, every, offset = F.col(_TIME), windows.size_ms * 1000, windows.every_ms * 1000, windows.offset_ms * 1000
    match windows.kind:
        case "tumbling" if windows.timezone is not None:
            days, zone = windows.size_ms // _DAY_MS, windows.timezone
            day = _local_day(at, zone)
            day = F.when(at >= _midnight(day + 1, zone), day + 1).otherwise(day)
            first = day - F.pmod(day - windows.offset_ms // _DAY_MS, F.lit(days))
            return rows.withColumns({_START: _midnight(first, zone), _END: _midnight(first + days, zone)})
        case "tumbling":
            start = at - F.pmod(at - offset, F.lit(size))
            return rows.withColumns({_START: start, _END: start + size})
        case "hopping":
            latest = at - F.pmod(at - offset, F.lit(every))
            steps = F.sequence(F.lit(0), F.lit((size - 1) // every))
            starts = F.filter(F.transform(steps, lambda n: latest - n * F.lit(every)), lambda one: one > at - size)
            return rows.withColumn(_START, F.explode(starts)).withColumn(_END, F.col(_START) + size)
        case "session":
            # A session starts at the latest time so far that came more than the gap after the time before it.
            gap, order = windows.gap_ms * 1000, Ranges.partitionBy(*keys).orderBy(at)
            opens = F.coalesce(at - F.lag(at).over(order) > gap, F.lit(True))
            opened = rows.withColumn(_START, F.when(opens, at)).withColumn(_START, F.max(_START).over(order))
            return opened.withColumn(_END, F.max(at).over(Ranges.partitionBy(*keys, F.col(_START))) + gap)
        case "global":
            # A constant to group by: without rows there is no group, with and without keys.
            return rows.withColumns({_START: F.lit(0), _END: F.lit(0)})


def _local_day(at: Column, zone: str) -> Column:
    """The number of the calendar day in the zone, from 1970-01-01."""
    local = F.unix_micros(F.from_utc_timestamp(F.timestamp_micros(at), zone))
    return F.call_function("div", local - F.pmod(local, F.lit(_DAY_MS * 1000)), F.lit(_DAY_MS * 1000))


def _midnight(day: Column, zone: str) -> Column:
    """When a calendar day begins in the zone, in microseconds."""
    return F.unix_micros(F.to_utc_timestamp(F.timestamp_micros(day * F.lit(_DAY_MS * 1000)), zone))


# What several operators need


def length(value: str | timedelta, operator: str, option: str, *, least: int = 1) -> int:
    """The milliseconds of an option that is a duration, of at least `least`."""
    try:
        milliseconds, problem = duration.parse(value), "it must be longer than nothing"
    except ValueError as error:
        milliseconds, problem = -1, str(error)
    if milliseconds < least:
        raise DeclarationError(
            "HR-005", f"`{operator}` cannot use its `{option}`: {problem}.", where=calling().at(option), found=value,
            fix="write a number and a unit, such as `10 minutes`",
        )  # fmt: skip
    return milliseconds


def check_word(operator: str, option: str, word: object, words: tuple[str | None, ...]) -> None:
    """The option must be one of the words; None among them leaves it out."""
    if not isinstance(word, str | None) or word not in words:
        raise DeclarationError(
            "HR-040", f"`{operator}` does not know this `{option}`.", where=calling().at(option), found=word,
            fix="use " + " or ".join("nothing" if known is None else f"`{known}`" for known in words),
        )  # fmt: skip


# Checks


def _check_window(windows: object) -> None:
    if not isinstance(windows, Window):
        raise DeclarationError(
            "HR-041", "`window` was not told which windows to make.", where=calling().where,
            found=f"{type(windows).__name__} {windows}",
            fix='pass `hr.tumbling("1 minute")`, `hr.hopping(…)`, `hr.session(…)` or `hr.global_(…)` after the rows',
        )  # fmt: skip


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, TypeError, KeyError):
        raise DeclarationError(
            "HR-039", "`tumbling` does not know this time zone.", where=calling().at("timezone"), found=name,
            fix="use a name of the IANA list, such as `Europe/Berlin`",
        ) from None  # fmt: skip


def _check_added(keys: Sequence[str], added: Sequence[str]) -> None:
    for key in keys:
        if key.lower() in added:
            raise DeclarationError(
                "HR-036", f"`window` cannot group by `{key}`: its result has a column of its own with that name.",
                where=calling().at("by"), found=", ".join(keys),
                fix=f'rename the column first, for instance with `withColumnRenamed("{key}", "…")`',
            )  # fmt: skip


def _has_changes(windows: Window, emit: str, lateness_ms: int) -> bool:
    """Whether rows of the result may be taken back."""
    return emit == "early" or lateness_ms > 0 or windows.kind == "global"


def _event_time(rows: DataFrame, time: str, lateness_ms: int) -> EventTime:
    found = marked(rows.schema)
    if found is None or found.column != time:
        return EventTime(END, lateness_ms, DEFAULT_IDLE_MS)
    return EventTime(END, found.delay_ms + lateness_ms, found.idle_ms)
