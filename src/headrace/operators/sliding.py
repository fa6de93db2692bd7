"""`sliding`: every row with aggregates over what went before it.

    recent = hr.sliding(payments, by="card", within="1 minute", n=hr.count(), spent=hr.sum("amount"))
    alerts = recent.where("n > 5 or spent > 1000")

**Meaning.** Each row of the input comes out once, with all its columns and the aggregates over the rows of the same
`by` whose event time is in (t - within, t], t being its own. Rows of the same time all count for each other. Without
columns in `by` there is one group; a null in a `by` column is a value like any other.

**Convergence.** A row is answered from the rows that have come before it. When rows of a key come in the order of their
event time, and those of the same time in one batch, the result is the batch answer.

**Late.** A row without an event time goes to `<name>.late`, and is not in the batch answer.

**Limits.** In batch the rows of one key go through one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window as Ranges

from headrace.kernel import bridge
from headrace.names import COLUMN_PREFIX
from headrace.operators import aggregate
from headrace.operators.aggregate import Aggregate, Bound
from headrace.operators.event_time import mark, marked, time_column
from headrace.operators.window import ddl, length, quoted

_TIME = f"{COLUMN_PREFIX}time"


def sliding(
    rows: DataFrame,
    /,
    *,
    by: str | Sequence[str],
    within: str | timedelta,
    at: str | None = None,
    **aggregates: Aggregate,
) -> DataFrame:
    """Each row with aggregates over the rows of its group `within` before it (`at`, or the marked event time)."""
    aggregate.refuse_options("sliding", by=by, within=within, at=at)
    keys = aggregate.keys(rows, by, "sliding")
    within_ms = length(within, "sliding", "within")
    time = time_column(rows, at, "sliding")
    bound, prepared = aggregate.bind(rows, aggregates, "sliding", rows.columns)
    if not rows.isStreaming:
        return _batch(prepared, keys, time, within_ms, bound)
    result = bridge.sharded(prepared, sliding_spec(rows, keys, time, within_ms, bound))
    found = marked(rows.schema)
    return result if found is None else mark(result, found)


def sliding_spec(
    rows: DataFrame, keys: Sequence[str], time: str, within_ms: int, bound: Sequence[Bound]
) -> dict[str, Any]:
    """What the kernel is told."""
    columns = [(field.name, field.dataType) for field in rows.schema.fields]
    return {
        "operator": "sliding",
        "kind": "sliding",
        "within_ms": within_ms,
        "by": list(keys),
        "time": time,
        "columns": rows.columns,
        "changes": False,
        "aggregates": [one.spec() for one in bound],
        "output": ddl([*columns, *((one.name, one.type) for one in bound)]),
    }


def _batch(rows: DataFrame, keys: Sequence[str], time: str, within_ms: int, bound: Sequence[Bound]) -> DataFrame:
    """The batch twin: a RANGE window over microseconds, which takes rows of the same time together."""
    timed = rows.where(F.col(quoted(time)).isNotNull()).withColumn(_TIME, F.unix_micros(F.col(quoted(time))))
    before = Ranges.partitionBy(*(F.col(quoted(key)) for key in keys)).orderBy(F.col(_TIME))
    before = before.rangeBetween(1 - within_ms * 1000, Ranges.currentRow)
    columns = [F.col(quoted(name)) for name in rows.columns if not name.startswith(aggregate.INPUT_PREFIX)]
    return timed.select(*columns, *(aggregate.batch(one, F.col(_TIME), before) for one in bound))
