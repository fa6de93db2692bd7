"""Which column of a DataFrame is its event time, and how long its watermark waits.

The mark travels as metadata of the column, so it survives `select`, `where` and `withColumn` of other columns, in
streaming and in static DataFrames alike. The engine sets it for every declared stream; in a notebook or a test
`event_time` sets it by hand, and every operator also takes `at=`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.types import TimestampType

from headrace import duration
from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge

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
    require(rows, column, "event_time")
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
            fix=f'declare `event_time="{column}"` on the stream, or pass `at="{column}"` to the operator',
        )
    rows = mark(rows, EventTime(column, delay_ms, DEFAULT_IDLE_MS))
    return rows.withWatermark(column, f"{delay_ms} milliseconds") if rows.isStreaming else rows


def mark(rows: DataFrame, time: EventTime) -> DataFrame:
    """The mark alone, for a column that is known to be right."""
    for name in (field.name for field in rows.schema.fields if _MARK in field.metadata and field.name != time.column):
        rows = rows.withMetadata(name, {})
    return rows.withMetadata(time.column, {_MARK: True, **_waits(time)})


def delayed(rows: DataFrame, time: EventTime) -> DataFrame:
    """A column that is not the event time, and of which an operator that takes it with `at=` waits as long as that."""
    return rows.withMetadata(time.column, _waits(time))


def _waits(time: EventTime) -> dict[str, Any]:
    return {_DELAY: time.delay_ms, _IDLE: time.idle_ms, _SHARE: time.share, _LEAST: time.least_ms}


def unmarked(rows: DataFrame) -> DataFrame:
    """The rows without the mark; the watermark stays as it is."""
    found = marked(rows.schema)
    return rows if found is None else rows.withMetadata(found.column, {})


def marked(schema: Any) -> EventTime | None:
    """The event time of a schema, if a column is marked."""
    for field in schema.fields:
        if field.metadata.get(_MARK):
            delay, idle, share, least = (field.metadata[name] for name in (_DELAY, _IDLE, _SHARE, _LEAST))
            return EventTime(field.name, int(delay), int(idle), float(share), int(least))
    return None


def time_column(rows: DataFrame, at: str | None, operator: str) -> str:
    """The column that `operator` takes as the event time: `at`, or the marked one."""
    if at is not None:
        require(rows, at, operator)
        return at
    found = marked(rows.schema)
    if found is None:
        raise DeclarationError(
            "HR-031",
            f"`{operator}` needs an event time, and no column of its input is marked as one.",
            where=calling().where,
            found=", ".join(rows.columns),
            fix=f'declare `event_time=` on the stream, or pass `at="column"` to `{operator}`',
        )
    return found.column


def require(rows: DataFrame, column: str, operator: str) -> None:
    """The column must be there and be a timestamp."""
    fields = {field.name: field for field in rows.schema.fields}
    if column not in fields:
        raise DeclarationError(
            "HR-030",
            f"`{operator}` names the column `{column}`, which its input does not have.",
            where=calling().where,
            found=", ".join(fields),
            fix="name one of the columns found",
        )
    if not isinstance(fields[column].dataType, TimestampType):
        raise DeclarationError(
            "HR-007",
            f"`{operator}` takes `{column}` as the event time, but it is not a timestamp.",
            where=calling().where,
            found=fields[column].dataType.simpleString(),
            fix=f"convert it, for instance with `timestamp_millis({column})`",
        )
