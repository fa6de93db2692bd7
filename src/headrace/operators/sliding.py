"""`sliding`: every row with aggregates over what went before it.

    recent = hr.sliding(payments, by="card", within="1 minute", n=hr.count(), spent=hr.sum("amount"))
    alerts = recent.where("n > 5 or spent > 1000")

**Meaning.** Each row of the input comes out with all its columns and the aggregates over the rows of the same
`by` whose event time is in (t - within, t], t being its own. Rows of the same time all count for each other. Without
columns in `by` there is one group; a null in a `by` column is a value like any other.

**Emit.** `early`: each row at once, answered from the rows that have come before it; a row that comes out of order
changes the answers of those after it, and they are corrected: the column `change` says `-` where an answer is taken
back and `+` where one is put there. `final`: each row once, when the watermark has passed it, and corrections for rows
that come within `lateness` after that. `arrival`: each row once, at once, and never corrected: the answer is what was
known when it came.

**Convergence.** When all rows that are not late have come, the rows put there and not taken back are the batch answer;
with `arrival` only if the rows of a key came in the order of their event time, each time's in one batch.

**Late.** A row whose time the watermark passed by more than `lateness` goes to `<name>.late`, or with `late="drop"` is
counted and dropped. A row without an event time goes there too, and is not in the batch answer.

**State.** The rows of the last `within` and `lateness` behind the watermark.

**Limits.** In batch the rows of one key go through one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType
from pyspark.sql.window import Window as Ranges

from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator, Option, Routing
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import aggregate, sign
from headrace.operators.aggregate import Aggregate, Bound
from headrace.operators.columns import ddl, quoted
from headrace.operators.event_time import mark, marked, time_column
from headrace.operators.given import given
from headrace.operators.keys import key_columns
from headrace.operators.window import check_word, length

_TIME = f"{COLUMN_PREFIX}time"


@dataclass(frozen=True, kw_only=True)
class Sliding(Operator):
    """`early` says that rows come out at once; `holds` are the columns of the rows that are kept."""

    name: ClassVar[str] = "sliding"
    kind: ClassVar[str] = "sliding"

    within_ms: Option[int]
    early: Routing[bool]
    emit: Meaning[str]
    lateness_ms: Option[int]
    drop_late: Routing[bool]
    holds: Meaning[str]


def sliding(
    rows: DataFrame,
    /,
    *,
    by: str | Sequence[str],
    within: str | timedelta,
    emit: Literal["early", "final", "arrival"] = "early",
    lateness: str | timedelta = "0 seconds",
    late: Literal["keep", "drop"] = "keep",
    at: str | None = None,
    **aggregates: Aggregate,
) -> DataFrame:
    """Each row with aggregates over the rows of its group `within` before it (`at`, or the marked event time)."""
    given("sliding", rows)
    aggregate.refuse_options("sliding", by=by, within=within, emit=emit, lateness=lateness, late=late, at=at)
    check_word("sliding", "emit", emit, ("early", "final", "arrival"))
    check_word("sliding", "late", late, ("keep", "drop"))
    lateness_ms = length(lateness, "sliding", "lateness", least=0)
    changes = emit == "early" or (emit == "final" and lateness_ms > 0)
    sign.refuse_table(rows, "sliding")
    sign.refuse_other(rows, "sliding")
    keys = key_columns(rows, by, "sliding")
    within_ms = length(within, "sliding", "within")
    time = time_column(rows, at, "sliding")
    bound, prepared = aggregate.bind(rows, aggregates, "sliding", [*rows.columns, *([CHANGE] if changes else [])])
    if not rows.isStreaming:
        answer = _batch(prepared, keys, time, within_ms, bound)
        return answer.withColumn(CHANGE, F.lit("+")) if changes else answer
    operator = sliding_operator(rows, keys, time, within_ms, bound, emit=emit, lateness_ms=lateness_ms, late=late)
    result = bridge.sharded(prepared, operator)
    found = marked(rows.schema)
    return result if found is None else mark(result, found)


def sliding_operator(
    rows: DataFrame,
    keys: Sequence[str],
    time: str,
    within_ms: int,
    bound: Sequence[Bound],
    *,
    emit: str,
    lateness_ms: int,
    late: str,
) -> Sliding:
    """What the kernel is told, and what the state means."""
    changes = emit == "early" or (emit == "final" and lateness_ms > 0)
    columns = [(field.name, field.dataType) for field in rows.schema.fields]
    change = [(CHANGE, StringType())] if changes else []
    return Sliding(
        by=list(keys),
        time=time,
        columns=rows.columns,
        aggregates=bound,
        output=ddl([*columns, *((one.name, one.type) for one in bound), *change]),
        changes=changes,
        within_ms=within_ms,
        early=emit != "final",
        emit=emit,
        lateness_ms=lateness_ms,
        drop_late=late == "drop",
        holds=ddl(columns),
    )


def _batch(rows: DataFrame, keys: Sequence[str], time: str, within_ms: int, bound: Sequence[Bound]) -> DataFrame:
    """The batch twin: a RANGE window over microseconds, which takes rows of the same time together."""
    timed = rows.where(F.col(quoted(time)).isNotNull()).withColumn(_TIME, F.unix_micros(F.col(quoted(time))))
    before = Ranges.partitionBy(*(F.col(quoted(key)) for key in keys)).orderBy(F.col(_TIME))
    before = before.rangeBetween(1 - within_ms * 1000, Ranges.currentRow)
    columns = [F.col(quoted(name)) for name in rows.columns if not name.startswith(aggregate.INPUT_PREFIX)]
    return timed.select(*columns, *(aggregate.batch(one, F.col(_TIME), before) for one in bound))
