"""Tables as rows that change: `+` puts a row there, `-` takes one back, in the column `change`.

A DataFrame with that column is a table of changes; its rows are those put there and not taken back. Tables that a
function is given have it, and so has what the operators on tables give. In batch every row is there, and `change` is
always `+`.

`normalize` makes one of records that put and delete rows by key, as a topic holds them: what was there under the key is
taken back before what comes. State: the rows of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType
from pyspark.sql.window import Window as Ranges

from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import sign
from headrace.operators.columns import ddl, quoted

SIGN = f"{COLUMN_PREFIX}in_0"
OFFSET = f"{COLUMN_PREFIX}in_1"
TIME = f"{COLUMN_PREFIX}in_2"
_COUNT = f"{COLUMN_PREFIX}count"
_RECORDS: WeakKeyDictionary[DataFrame, tuple[Callable[[str | None], DataFrame], tuple[str, ...]]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Normalize(Operator):
    """`holds` are the columns of the table."""

    name: ClassVar[str] = "table"
    kind: ClassVar[str] = "normalize"

    holds: Meaning[str]


def held(rows: DataFrame) -> DataFrame:
    """Batch: the rows that were put there and not taken back, without `change`."""
    own = [F.col(quoted(name)) for name in sign.columns(rows)]
    times = F.when(F.col(CHANGE) == "-", -1).otherwise(1)
    counted = rows.groupBy(*own).agg(F.sum(times).alias(_COUNT)).where(F.col(_COUNT) > 0)
    return counted.select(*own, F.explode(F.sequence(F.lit(1), F.col(_COUNT))).alias(_COUNT)).drop(_COUNT)


def of_view(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Batch: what the function of a view gives, as the table that its readers are given: of several rows of a key one,
    and none where the key is null."""
    there = held(rows) if sign.is_table(rows) else rows
    whole = there.dropna(subset=[quoted(name) for name in key])
    return whole.dropDuplicates(list(key)).withColumn(CHANGE, F.lit("+"))


def of_records(records: Callable[[str | None], DataFrame], key: Sequence[str]) -> DataFrame:
    """The table that records with the columns of `normalize` make; with the name of a column they have the time of the
    change there, too, and can be had again."""
    rows = normalize(records(None), key)
    _RECORDS[rows] = (records, tuple(key))
    return rows


def timed_records(rows: DataFrame) -> tuple[DataFrame, tuple[str, ...]] | None:
    """The records of a table with the time of each, and its key; None when the rows are not a table as it was given."""
    known = _RECORDS.get(rows)
    return None if known is None else (known[0](TIME), known[1])


def normalize(records: DataFrame, key: Sequence[str]) -> DataFrame:
    """The changes of a table from decoded records: its columns, `SIGN` (`-` deletes the key's row) and `OFFSET`."""
    own = [name for name in records.columns if name not in (SIGN, OFFSET)]
    if not records.isStreaming:
        latest = Ranges.partitionBy(*(F.col(quoted(name)) for name in key)).orderBy(F.col(OFFSET).desc())
        last = records.withColumn(_COUNT, F.row_number().over(latest)).where(F.col(_COUNT) == 1)
        return last.where(F.col(SIGN) == "+").select(*map(F.col, map(quoted, own)), F.lit("+").alias(CHANGE))
    fields = [(name, records.schema[name].dataType) for name in own]
    operator = Normalize(
        by=list(key),
        columns=own,
        output=ddl([*fields, (CHANGE, StringType())]),
        unique=list(key),
        changes=True,
        holds=ddl(fields),
    )
    return bridge.sharded(records, operator)
