"""`top`: the first n rows of each group by a score.

    hr.top(scores, 10, by="points", within="game")
    hr.top(hr.window(views, hr.tumbling("1 hour"), by="url", n=hr.count()), 20, by="n", within=["window_start"])

**Meaning.** Of the rows that are equal in `within`, the `n` with the greatest `by` (an SQL expression; null is the
least), each with its `place` from 1. Rows with the same score are ordered by their columns from left to right, so that
the answer does not depend on the order in which they came. Without columns in `within` there is one group.

**Changes.** The result is a table of changes: `change` is `+` where a row takes a place and `-` where it leaves it.
When the input is one too (it has a column `change`), rows that it takes back leave the ranking and others move up.

**Convergence.** The rows put there and not taken back are the batch answer, whatever the order of the input.

**Work.** Of a stream in exact mode only the rows of a batch that may be among the first of their group leave the task
that reads them. With `skew="split"`, or where `within` has no columns, rows are ranked in as many parts as there are
tasks first, and only the first n of each part meet in the one task of their group; so one large group does not bring
all its rows to one place. The answer is the same.

**State.** For ever: of an input without changes the first n rows of a group and part, of one with changes all its rows,
in pages, so that a change costs one page however large the group is.
Rank within windows, and over keys that come to an end, or restart with another name when the state has grown too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    VariantType,
)
from pyspark.sql.window import Window as Ranges

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator, Option, Routing
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import aggregate, expression, sign
from headrace.operators.columns import ddl, quoted
from headrace.operators.given import given
from headrace.operators.keys import key_columns
from headrace.operators.window import check_word

PLACE = "place"
_PART = f"{COLUMN_PREFIX}part"
_SCORE = f"{aggregate.INPUT_PREFIX}0"
_SIGN = f"{aggregate.INPUT_PREFIX}1"
_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class Top(Operator):
    """`taken_back` says that rows may go again, and `places` that each is given with its place. `score` is what rows
    are ranked by, and `holds` are the columns of those that are kept."""

    name: ClassVar[str] = "top"
    kind: ClassVar[str] = "top"

    n: Option[int]
    taken_back: Option[bool]
    places: Routing[bool]
    score: Meaning[str]
    holds: Meaning[str]


def top(
    rows: DataFrame,
    n: int,
    /,
    *,
    by: str,
    within: str | Sequence[str] = (),
    skew: Literal["split"] | None = None,
) -> DataFrame:
    """The `n` rows of each group of `within` with the greatest `by`, with their `place`."""
    given("top", rows)
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST:
        raise DeclarationError(
            "HR-042", "`top` cannot rank this many rows.", where=calling().where, found=n,
            fix=f"give it a number from 1 to {_MOST:,}",
        )  # fmt: skip
    check_word("top", "skew", skew, (None, "split"))
    sign.refuse_other(rows, "top")
    keys = key_columns(rows, within, "top", option="within")
    columns = sign.columns(rows)
    _check_columns(rows, columns)
    score, kind = expression.read(rows, by, "top", "by")
    if not _is_ordered(kind):
        raise DeclarationError(
            "HR-042", f"`top` cannot rank by `{by}`: values of its type have no exact order.", where=calling().at("by"),
            found=kind.simpleString(), fix="rank by a number, a text or a time",
        )  # fmt: skip
    signs = sign.is_table(rows)
    sign.refuse_moving(rows.select("*", score.alias(_SCORE)), "`top`", calling().where)
    if not rows.isStreaming:
        return _batch(rows, n, score, keys, columns, signs=signs)
    plain = rows.select(*(F.col(quoted(name)) for name in columns), *_inputs(score, signs=signs))
    if keys and skew is None:
        return bridge.sharded(plain, _operator(plain, n, keys, columns, by, signs=signs, places=True))
    shards = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    part = F.pmod(F.xxhash64(*(F.col(quoted(name)) for name in columns)), F.lit(shards)).alias(_PART)
    parted = plain.select(part, *plain.columns)
    some = bridge.sharded(
        parted, _operator(parted, n, [*keys, _PART], [_PART, *columns], by, signs=signs, places=False)
    )
    whole = some.select(*(F.col(quoted(name)) for name in columns), *_inputs(score, signs=True))
    return bridge.sharded(whole, _operator(whole, n, keys, columns, by, signs=True, places=True))


def _inputs(score: Column, *, signs: bool) -> list[Column]:
    return [score.alias(_SCORE), *([F.col(CHANGE).alias(_SIGN)] if signs else [])]


def _operator(
    rows: DataFrame, n: int, keys: Sequence[str], columns: Sequence[str], by: str, *, signs: bool, places: bool
) -> Top:
    own: list[tuple[str, DataType]] = [(name, rows.schema[name].dataType) for name in columns]
    place: list[tuple[str, DataType]] = [(PLACE, LongType())] if places else []
    return Top(
        by=list(keys),
        columns=list(columns),
        output=ddl([*own, *place, (CHANGE, StringType())]),
        unique=[*keys, PLACE] if places else None,
        changes=True,
        n=n,
        score=by,
        taken_back=signs,
        places=places,
        holds=ddl(own),
    )


def _batch(
    rows: DataFrame, n: int, score: Column, keys: Sequence[str], columns: Sequence[str], *, signs: bool
) -> DataFrame:
    """The batch twin: rows that were not taken back, numbered."""
    held = rows
    all_columns = [F.col(quoted(name)) for name in columns]
    if signs:
        times = F.when(F.col(CHANGE) == "-", -1).otherwise(1)
        counted = rows.groupBy(*all_columns).agg(F.sum(times).alias(_PART)).where(F.col(_PART) > 0)
        held = counted.select(*all_columns, F.explode(F.sequence(F.lit(1), F.col(_PART))).alias(_PART))
    order = Ranges.partitionBy(*(F.col(quoted(key)) for key in keys)).orderBy(score.desc(), F.struct(*all_columns))
    placed = held.withColumn(PLACE, F.row_number().over(order).cast("bigint")).where(F.col(PLACE) <= n)
    return placed.select(*all_columns, F.col(PLACE), F.lit("+").alias(CHANGE))


def _is_ordered(kind: DataType) -> bool:
    """Whether values have an order in which only equal ones have the same place."""
    match kind:
        case StructType():
            return all(_is_ordered(one.dataType) for one in kind.fields)
        case ArrayType():
            return _is_ordered(kind.elementType)
        case StringType():
            return kind.isUTF8BinaryCollation()
        case _:
            return not isinstance(kind, MapType | VariantType | CalendarIntervalType)


def _check_columns(rows: DataFrame, columns: Sequence[str]) -> None:
    for name in columns:
        kind = rows.schema[name].dataType
        if name.lower() == PLACE:
            raise DeclarationError(
                "HR-036", f"`top` adds a column `{PLACE}`, and its input has one.", where=calling().where,
                found=", ".join(columns), fix="rename the column of the input first",
            )  # fmt: skip
        if not _is_ordered(kind):
            raise DeclarationError(
                "HR-042", f"`top` cannot order rows by `{name}`.", where=calling().where, found=kind.simpleString(),
                fix="leave the column out, or turn it into plain text, with `to_json` or `collate(…, 'UTF8_BINARY')`",
            )  # fmt: skip
