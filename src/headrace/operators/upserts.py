"""`to_upserts`: the changes of a table as rows that are put and deleted by key, which is how a view is written.

**Meaning.** What becomes of the row of a key is one change: `+` with the row that is there now, which takes the place
of the one before, or `-` when there is none any more. So nobody who reads the view sees a row vanish that is only
replaced, and it does not matter from which tasks, and in which order, the row that goes and the row that comes arrive.

**Work.** Where the key has the columns by which the last operator tells its rows apart (those of `by` of an aggregate,
with the start of its window where it has one, the key of a table, `within` and `place` of a ranking), a row and the one
that takes its place come one right after the other, and whoever writes them leaves the old one out: nothing is kept.
Otherwise, as after a join, the changes are brought together by the key.

**Live.** Changes that come from different tasks arrive one by one in live mode. Where the row that goes is heard of
before the one that takes its place, the view is without it for that moment.

**Ties.** A key under which several rows are there does not fit a view; one of them is, always the same.

**State.** Where changes are brought together: the rows of the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

from headrace.call import calling
from headrace.errors import Location
from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator, Routing
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import sign, table
from headrace.operators.columns import ddl, quoted

_KEY = f"{COLUMN_PREFIX}key_"


@dataclass(frozen=True, kw_only=True)
class Upserts(Operator):
    """`sign` is the column that says whether a row comes or goes, `on` the key of the view, and `holds` are its
    columns."""

    name: ClassVar[str] = "upserts"
    kind: ClassVar[str] = "upserts"

    sign: Routing[str]
    on: Meaning[Sequence[str]]
    holds: Meaning[str]


def to_upserts(rows: DataFrame, key: Sequence[str], where: Location | None = None) -> DataFrame:
    """Rows that are put (`+`) and deleted (`-`) by key, with the same columns; in batch every row is there, and put."""
    if not sign.is_table(rows) or not rows.isStreaming or bridge.unique(rows, key):
        return rows
    sign.refuse_moving(rows, "The view", where or calling().where)
    own = [*sign.columns(rows), CHANGE]
    names = [f"{_KEY}{number}" for number in range(len(key))]
    head = [F.col(quoted(column)).alias(name) for column, name in zip(key, names, strict=True)]
    columns = [F.col(quoted(name)) for name in sign.columns(rows)]
    signed = rows.select(*head, F.col(CHANGE).alias(table.SIGN), *columns, F.lit("+").alias(CHANGE))
    fields = [(name, rows.schema[name].dataType) for name in sign.columns(rows)]
    operator = Upserts(
        by=names,
        columns=[*names, table.SIGN, bridge.PACKED],
        output=ddl([*fields, (CHANGE, StringType())]),
        changes=True,
        sign=table.SIGN,
        on=list(key),
        holds=ddl(fields),
    )
    return bridge.sharded(bridge.packed(signed, own), operator).select(*map(quoted, rows.columns))
