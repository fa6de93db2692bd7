"""The first rows of an order: `LIMIT`, `row_number() <= n` and one row of each key, by the ranking of tables.

Rows that are equal in the order are told apart by their columns from left to right, so that the answer does not depend
on the order in which they came. Spark takes any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from headrace.compiler import refusal
from headrace.compiler.plan import First, Limit, Order, Window, column
from headrace.names import CHANGE
from headrace.operators.top import PLACE, top

if TYPE_CHECKING:
    from headrace.compiler.translation import Translation

_MOST = 10_000


def limited(work: Translation, node: Limit) -> DataFrame:
    """The rows of a limit."""
    rows = work.with_scalars(work.rows(node.child), node.scalars)
    own = [column(number) for number in node.columns]
    if node.most + node.skip > _MOST or node.most < 1:
        raise refusal.refused(
            "it has a limit that is not kept", str(node.most + node.skip), f"take from 1 to {_MOST:,} rows"
        )
    first = _top(work, rows, own, node.most + node.skip, order=node.order)
    first = first.where(F.col(PLACE) > node.skip)
    if node.projected is None:
        return first.select(*own, CHANGE)
    return work.select(first, {column(one.number): one.expression for one in node.projected})


def one_of_each(work: Translation, node: First) -> DataFrame:
    """One row for each value of the keys: the first by its columns, where Spark takes any."""
    own = [column(number) for number in node.columns]
    keys = [column(number) for number in node.keys]
    return _top(work, work.rows(node.child), own, 1, within=keys).select(*own, CHANGE)


def ranked(work: Translation, node: Window, most: int) -> DataFrame:
    """The first rows of each partition with their number."""
    own = [column(number) for number in node.columns]
    rows = work.rows(node.child)
    names = {f"p{i}": one.expression for i, one in enumerate(node.partition)}
    partitioned = work.with_columns(rows, names)
    (place,) = node.functions
    first = _top(work, partitioned, [*own, *names], max(most, 1), within=list(names), order=node.order)
    return first.select(*own, F.col(PLACE).cast("int").alias(column(place.number)), CHANGE)


def over_windows(node: Window) -> DataFrame:
    """Refused: what is computed over windows of rows."""
    raise refusal.refused(
        "a function over a window of rows is not kept",
        "; ".join(one.sql for one in node.functions),
        "`row_number() OVER (…)` is, where a condition bounds it, such as `WHERE place <= 10`; for the rows before each"
        " row of a stream use `hr.sliding`",
    )


def _top(
    work: Translation,
    rows: DataFrame,
    own: Sequence[str],
    most: int,
    *,
    within: Sequence[str] = (),
    order: Sequence[Order] = (),
) -> DataFrame:
    """The first rows with their place."""
    names = [work.fresh("s") for _ in order]
    given = {name: one.expression for name, one in zip(names, order, strict=True)}
    ordered = work.with_columns(rows, given) if given else rows
    scores: list[Column] = []
    for name, one in zip(names, order, strict=True):
        nulls = F.when(F.col(name).isNull(), int(one.nulls_first)).otherwise(int(not one.nulls_first))
        scores.append(nulls.alias(f"{name}_null"))
        scores.append((_inverted(ordered, name, one) if one.ascending else F.col(name)).alias(f"{name}_value"))
    score = work.fresh("s")
    whole = F.struct(*scores) if scores else F.lit(0)
    work.steps.append(f"first {most}" + (" of each" if within else ""))
    return top(ordered.select(*own, whole.alias(score), CHANGE), most, by=score, within=list(within)).drop(score)


def _inverted(rows: DataFrame, name: str, order: Order) -> Column:  # noqa: PLR0911
    """A value that is greater where this one is less."""
    value = F.col(name)
    match rows.schema[name].dataType:
        case StringType() | BinaryType():
            digits = F.hex(F.encode(value, "utf-8") if isinstance(rows.schema[name].dataType, StringType) else value)
            return F.concat(F.translate(digits, "0123456789ABCDEF", "FEDCBA9876543210"), F.lit("G"))
        case DateType():
            return -F.unix_date(value)
        case TimestampType():
            return -F.unix_micros(value)
        case TimestampNTZType():
            return -F.unix_micros(value.cast("timestamp"))
        case IntegralType():
            return -value.cast("decimal(20,0)")
        case BooleanType():
            return ~value
        case DecimalType() | DoubleType() | FloatType():
            return -value
        case kind:
            raise refusal.refused(
                "it orders rows by a value whose order is not kept", f"{order.sql} {kind.simpleString()}",
                "order by a number, a text or a time",
            )  # fmt: skip
