"""Which column of a DataFrame is its event time, and how long its watermark waits.

The mark travels as metadata of the column, so it survives `select`, `where` and `withColumn` of other columns, in
streaming and in static DataFrames alike. The engine sets it for every declared stream; in a notebook or a test
`event_time` sets it by hand. Operators that need a time (`window`, `sliding`, `dedupe`, `join`) also take `at=`: a
column that is taken as the event time by this one operator. What is late is still said by the watermark of the stream.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, StructField, TimestampNTZType, TimestampType

from headrace import duration
from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.operators.columns import cast, plain, quoted
from headrace.operators.given import given

_MARK = "headrace.event_time"
_DELAY = "headrace.delay_ms"
_IDLE = "headrace.idle_ms"
_SHARE = "headrace.share"
_LEAST = "headrace.least_ms"
DEFAULT_IDLE_MS = 30_000


class EventTime(NamedTuple):
    """The event-time column of rows, how late a row may be, and after how long a quiet partition is not waited for.

    With a `share` above 0 the delay is as long as that share of the rows was late, from `least_ms` to `delay_ms`.
    """

    column: str
    delay_ms: int
    idle_ms: int
    share: float = 0.0
    least_ms: int = 0


def event_time(rows: DataFrame, column: str, *, delay: str | timedelta = "0 seconds") -> DataFrame:
    """Mark the event-time column; in a streaming DataFrame the watermark follows it at a distance of `delay`."""
    given("event_time", rows)
    require(rows, column, "event_time", "column")
    try:
        delay_ms = duration.parse(delay)
    except ValueError as error:
        raise DeclarationError(
            "HR-005", f"`event_time` cannot use its `delay`: {error}.", where=calling().at("delay"), found=delay,
            fix="write a number and a unit, such as `5 seconds`",
        ) from None  # fmt: skip
    if rows.isStreaming and bridge.followed(rows):
        found = marked(rows.schema)
        raise DeclarationError(
            "HR-046",
            f"`event_time` is to mark `{column}`, but these rows have an event time already, and a stream has one.",
            where=calling().where,
            found=found.column if found else "the event time of the stream that they are made of",
            fix=f'declare `event_time="{column}"` on the stream, or pass `at="{column}"` to the `window`, `sliding`,'
            " `dedupe` or `join` that is to go by it",
        )
    rows = mark(rows, EventTime(column, delay_ms, DEFAULT_IDLE_MS))
    return rows.withWatermark(quoted(column), f"{delay_ms} milliseconds") if rows.isStreaming else rows


def mark(rows: DataFrame, time: EventTime) -> DataFrame:
    """The mark alone, for a column that is known to be right."""
    for name in (field.name for field in rows.schema.fields if _MARK in field.metadata and field.name != time.column):
        rows = _noted(rows, name, {})
    return _noted(rows, time.column, {_MARK: True, **_waits(time)})


def delayed(rows: DataFrame, time: EventTime) -> DataFrame:
    """A column that is not the event time, and of which an operator that takes it with `at=` waits as long as that."""
    return _noted(rows, time.column, _waits(time))


def carried(result: DataFrame, rows: DataFrame) -> DataFrame:
    """The result with what is said of `delayed` columns of the rows, which it has, too."""
    for name in times_said(rows.schema):
        said = {key: value for key, value in rows.schema[name].metadata.items() if key.startswith("headrace.")}
        result = _noted(result, name, said)
    return result


def times_said(schema: Any) -> list[str]:
    """The columns that are `delayed`."""
    return [one.name for one in schema.fields if _DELAY in one.metadata and not one.metadata.get(_MARK)]


def _waits(time: EventTime) -> dict[str, Any]:
    return {_DELAY: time.delay_ms, _IDLE: time.idle_ms, _SHARE: time.share, _LEAST: time.least_ms}


def unmarked(rows: DataFrame) -> DataFrame:
    """The rows without the mark; the watermark stays as it is."""
    found = marked(rows.schema)
    return rows if found is None else _noted(rows, found.column, {})


def _noted(rows: DataFrame, name: str, note: dict[str, Any]) -> DataFrame:
    """The rows with this note on a column. `withMetadata` would take `a.b` for the part `b` of a column `a`."""
    if plain(name) == name:
        return rows.withMetadata(name, note)
    columns = ((one, F.col(quoted(one))) for one in rows.columns)
    return rows.select(*(column.alias(one, metadata=note) if one == name else column for one, column in columns))


def marked(schema: Any) -> EventTime | None:
    """The event time of a schema, if a column is marked."""
    return next((_said(field) for field in schema.fields if field.metadata.get(_MARK)), None)


def taken(schema: Any, column: str) -> EventTime | None:
    """A column as the event time: it waits as long as is said of it, or else of the marked one."""
    own = schema[column]
    time = _said(own) if _DELAY in own.metadata else marked(schema)
    return None if time is None else time._replace(column=column)


def _said(field: StructField) -> EventTime:
    delay, idle, share, least = (field.metadata[name] for name in (_DELAY, _IDLE, _SHARE, _LEAST))
    return EventTime(field.name, int(delay), int(idle), float(share), int(least))


def time_column(rows: DataFrame, at: str | None, operator: str, *, option: str = 'at="column"') -> str:
    """The column that `operator` takes as the event time: `at`, or the marked one. `option` is how to name one."""
    if at is not None:
        require(rows, at, operator, "at")
        return at
    found = marked(rows.schema)
    if found is None:
        raise DeclarationError(
            "HR-031",
            f"`{operator}` needs an event time, and no column of its input is marked as one.",
            where=calling().where,
            found=", ".join(rows.columns),
            fix=f"declare `event_time=` on the stream, or pass `{option}` to `{operator}`",
        )
    return found.column


def require_watermark(rows: DataFrame, at: str | None, operator: str) -> None:
    """Rows of a stream that are taken by `at` must have a watermark: that of the other side does not wait for them."""
    if at is not None and rows.isStreaming and not bridge.followed(rows):
        raise DeclarationError(
            "HR-031",
            f"`{operator}` takes `{at}` as the event time, but no watermark follows these rows.",
            where=calling().at("at"),
            found="a stream without an event time, such as the topic of a join of two streams",
            fix=f'declare `event_time=` on the stream, or mark the rows: `hr.event_time(rows, "{at}", delay="…")`',
        )


def require(rows: DataFrame, column: object, operator: str, option: str) -> None:
    """The column that an option names must be there and be a timestamp."""
    named(rows, column, operator, option)
    found = rows.schema[str(column)].dataType
    if not isinstance(found, TimestampType):
        raise DeclarationError(
            "HR-007",
            f"`{operator}` takes `{column}` as the event time, but it is not a timestamp.",
            where=calling().at(option),
            found=f"{column} {found.simpleString()}",
            fix=conversion(str(column), found),
        )


def named(rows: DataFrame, column: object, operator: str, option: str, *, side: str = "its input") -> None:
    """The option must name a column."""
    if not isinstance(column, str):
        raise DeclarationError(
            "HR-030", f"`{option}` of `{operator}` is not the name of a column.", where=calling().at(option),
            found=f"{option}={column!r}", fix='write the name of one column, such as `"at"`',
        )  # fmt: skip
    if column not in rows.columns:
        raise DeclarationError(
            "HR-030", f"`{operator}` names the column `{column}`, which {side} does not have.",
            where=calling().at(option), found=", ".join(rows.columns), fix="name one of the columns found",
        )  # fmt: skip


def conversion(name: str, found: DataType) -> str:
    """How a column of another type becomes a timestamp."""
    if isinstance(found, DateType | StringType | TimestampNTZType):
        return f"convert it first: `{cast(name, 'timestamp')}`"
    if isinstance(found, IntegralType):
        millis = f'`.withColumn("{name}", F.timestamp_millis("{plain(name)}"))`'
        return f"convert it first, where it counts milliseconds since 1970: {millis}"
    return "name a column that is a timestamp"
