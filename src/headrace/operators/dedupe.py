"""`dedupe`: each event once.

    unique = hr.dedupe(transactions, by="id", within="10 minutes")

**Meaning.** Two rows are repeats of one event when their `by` columns are equal and their event times are less than
`within` apart. Of repeats the first one kept wins, the others are counted and dropped; a key that comes back `within`
or more after a kept row is a new event. A row in which a `by` column is null has no identity and is always kept.

**Convergence.** Where repeats are copies (equal rows, as a retried send makes them), the result is the same whatever
the order, the batches and the crashes, and equals the batch twin. Repeats that differ are kept by arrival in a stream
and by event time, then by their text, in batch; the two agree when the rows arrive in that order.

**Late.** A row may come as much as `within` behind the watermark and still be recognised. One that is later goes to
`<name>.late`: whether it is a repeat is not known any more. A row without an event time goes there too.

**State.** 24 bytes a kept row, packed into 4,096 buckets, dropped when the watermark has passed its time plus
`within` (at the latest a quarter of `within` later). Keys are compared by the first 128 bits of their SHA-256.

**Crash.** The decisions depend on rows, state and Spark's recorded watermark only, so a batch that is run again keeps
the same rows.

**Limits.** In batch the rows of one key are gathered in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.kernel import bridge
from headrace.operators import sign
from headrace.operators.columns import quoted
from headrace.operators.event_time import time_column
from headrace.operators.given import given
from headrace.operators.keys import key_columns
from headrace.operators.window import length


def dedupe(rows: DataFrame, *, by: str | Sequence[str], within: str | timedelta, at: str | None = None) -> DataFrame:
    """Rows without repeats: equal in `by` and less than `within` apart in event time (`at`, or the marked column)."""
    given("dedupe", rows)
    sign.refuse_table(rows, "dedupe")
    names = key_columns(rows, by, "dedupe", empty=False, use="tell events apart by")
    within_ms = length(within, "dedupe", "within")
    time = time_column(rows, at, "dedupe")
    return bridge.dedupe(rows, names, time, within_ms) if rows.isStreaming else _batch(rows, names, time, within_ms)


def _batch(rows: DataFrame, names: list[str], time: str, within_ms: int) -> DataFrame:
    """The batch twin: the rows of a key by time; each is kept that is `within` or more after the last one kept."""
    columns = [F.col(quoted(name)) for name in rows.columns]
    timed = rows.where(F.col(quoted(time)).isNotNull())
    identified = _all(F.col(quoted(key)).isNotNull() for key in names)
    entry = F.struct(
        F.unix_micros(quoted(time)).alias("time"),
        F.to_json(F.struct(*columns)).alias("text"),
        F.struct(*columns).alias("row"),
    )

    def earlier(a: Column, b: Column) -> Column:
        before = (a.time < b.time) | ((a.time == b.time) & (a.text < b.text))
        return F.when(before, -1).when((a.time == b.time) & (a.text == b.text), 0).otherwise(1)

    def keep(kept: Column, row: Column) -> Column:
        repeat = (F.size(kept) > 0) & (row.time - F.element_at(kept, -1).time < within_ms * 1000)
        return F.when(repeat, kept).otherwise(F.concat(kept, F.array(row)))

    # A row without identity is a group of its own.
    alone = F.when(identified, F.lit(None)).otherwise(F.monotonically_increasing_id())
    grouped = timed.groupBy(*(F.col(quoted(key)) for key in names), alone)
    ordered = grouped.agg(F.array_sort(F.collect_list(entry), earlier).alias("entries"))
    first = F.aggregate(F.slice("entries", 2, F.size("entries")), F.slice("entries", 1, 1), keep)
    result = ordered.select(F.explode(first).alias("kept")).select("kept.row.*")
    return result.select(
        *(F.col(quoted(field.name)).alias(field.name, metadata=field.metadata) for field in rows.schema.fields)
    )


def _all(conditions: Iterable[Column]) -> Column:
    return reduce(lambda one, other: one & other, conditions)
