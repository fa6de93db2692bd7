"""`history`: every version that a row of a table has had, with the time from which and until which it was valid.

    @app.view(key=["card", "version"])
    def card_history(cards):
        return hr.history(cards)

**Meaning.** A slowly changing dimension of type 2. A version begins when a row is put, and is valid until the next
change of its key: `valid_from` is the time of the first, `valid_to` that of the second and null while there is none,
`version` counts from 1 within the key. A deletion closes the last version and begins none; a row that is put as it is
begins none either.

**Time.** Of a captured table the time of a change is when the database committed it (Debezium's `source.ts_ms`, else
the envelope's `ts_ms`); of a plain topic it is the time of the record.

**Order.** Versions are ordered by the time of their changes, not by their arrival: a change that comes late takes its
place among the others, and the versions that it changes, with their numbers, are corrected. Of several changes of a key
at one time the last in the log counts.

**Result.** The columns of the table, `valid_from`, `valid_to`, `version` and `change`: a table of changes whose key is
that of the input and `version`. Who asks for the row at a time takes the version with
`valid_from <= t and (valid_to is null or t < valid_to)`.

**Input.** A declared table or a view, as the function is given it: what a `select` makes of it has no times any more.

**Convergence.** The rows put there and not taken back are the batch answer, in whatever order the changes came.

**State.** All changes of the table, for ever. A key whose row changes without end grows without end; what was told of
it is computed again at every change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, LongType, StringType, TimestampType
from pyspark.sql.window import Window as Ranges

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import sign, table
from headrace.operators.columns import ddl, quoted
from headrace.operators.given import given

FROM, TO, VERSION = "valid_from", "valid_to", "version"
_TEXT = f"{COLUMN_PREFIX}text"
_BEFORE = f"{COLUMN_PREFIX}before"
_NUMBER = f"{COLUMN_PREFIX}number"
# JSON has milliseconds unless it is told otherwise.
_WHOLE_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, kw_only=True)
class History(Operator):
    """`holds` are the columns of the table."""

    name: ClassVar[str] = "history"
    kind: ClassVar[str] = "history"

    holds: Meaning[str]


def history(rows: DataFrame, /) -> DataFrame:
    """The versions of the rows of a table."""
    given("history", rows)
    return versions(rows)


def versions(rows: DataFrame, *, asked: str = "`history`") -> DataFrame:
    """The same for another operator: an error says who `asked`."""
    found = table.timed_records(rows)
    if found is None:
        raise DeclarationError(
            "HR-057", "`history` was not given a table with the times of its changes.", where=calling().where,
            found=", ".join(rows.columns),
            fix="give it a declared table or view as the function is given it, and select columns afterwards",
        )  # fmt: skip
    records, key = found
    own = sign.columns(rows)
    taken = [name for name in own if name.lower() in (FROM, TO, VERSION)]
    if taken:
        raise DeclarationError(
            "HR-036", f"{asked} adds a column `{taken[0]}`, and the table has one.", where=calling().where,
            found=", ".join(own),
            fix="declare the table without the column, and it is not read; `as_of` takes a table that has both "
            f"`{FROM}` and `{TO}` as it is",
        )  # fmt: skip
    return _stream(records, key, own) if rows.isStreaming else _batch(records, key, own)


def _stream(records: DataFrame, key: Sequence[str], own: Sequence[str]) -> DataFrame:
    output: list[tuple[str, DataType]] = [(name, records.schema[name].dataType) for name in own]
    output += [(FROM, TimestampType()), (TO, TimestampType()), (VERSION, LongType()), (CHANGE, StringType())]
    operator = History(
        by=list(key),
        columns=list(own),
        output=ddl(output),
        unique=[*key, VERSION],
        changes=True,
        holds=ddl([(name, records.schema[name].dataType) for name in own]),
    )
    return bridge.sharded(records, operator)


def _batch(records: DataFrame, key: Sequence[str], own: Sequence[str]) -> DataFrame:
    """The batch twin: changes in the order of their times, without those that change nothing, numbered."""
    columns = [F.col(quoted(name)) for name in own]
    each = [F.col(quoted(name)) for name in key]
    put, at = F.col(table.SIGN) == "+", F.col(table.TIME)
    last = Ranges.partitionBy(*each, at).orderBy(F.col(table.OFFSET).desc())
    order = Ranges.partitionBy(*each).orderBy(at)
    text = F.when(put, F.to_json(F.struct(*columns), _WHOLE_TIMES))
    counted = records.withColumn(_NUMBER, F.row_number().over(last)).where(F.col(_NUMBER) == 1)
    after = counted.withColumn(_TEXT, text).withColumn(_BEFORE, F.lag(_TEXT).over(order))
    told = after.where(~F.col(_TEXT).eqNullSafe(F.col(_BEFORE)))
    closed = told.withColumn(TO, F.lead(at).over(order)).where(put)
    numbered = closed.withColumn(VERSION, F.row_number().over(order).cast("bigint"))
    return numbered.select(*columns, at.alias(FROM), F.col(TO), F.col(VERSION), F.lit("+").alias(CHANGE))
