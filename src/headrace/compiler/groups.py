"""Groups and their aggregates, by the aggregate of tables.

What Spark computes of an aggregate's result stays Spark's: the operator keeps the sums, counts, least and greatest
values, and a projection behind it makes the rest. A column that is no key for an operator (a double, an array, a
struct) makes groups as text, and is made of it again. A group over no columns is there while there is a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DecimalType, DoubleType, FloatType

from headrace.compiler import refusal
from headrace.compiler.plan import Aggregate, Grouped, column
from headrace.names import CHANGE
from headrace.operators import aggregate as kinds
from headrace.operators.aggregation import aggregate
from headrace.operators.distinct import distinct as distinct_rows
from headrace.operators.keys import is_key

if TYPE_CHECKING:
    from headrace.compiler.translation import Translation

_KINDS = {
    "Sum": kinds.sum,
    "Average": kinds.avg,
    "Min": kinds.min,
    "Max": kinds.max,
    "MinBy": kinds.min_by,
    "MaxBy": kinds.max_by,
}
# Times are told to the microsecond: values that differ in one are different.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}
_NAMES = ("count", "sum", "avg", "min", "max", "min_by", "max_by", "count(distinct …)")


def grouped(work: Translation, node: Grouped) -> DataFrame:
    """The rows of an aggregate."""
    rows, _ = aggregated(work, node)
    return work.select(rows, {column(one.number): one.expression for one in node.columns})


def distinct(work: Translation, rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """The different rows of these columns."""
    work.steps.append("distinct")
    plain, restore = _as_keys(rows, names)
    return restore(distinct_rows(plain, by=list(names))).select(*names, CHANGE)


def aggregated(work: Translation, node: Grouped) -> tuple[DataFrame, dict[str, Any]]:
    """The groups and the aggregates as columns, and what the aggregates of no rows are, where that is not null."""
    for group in node.groups:
        if group.session:
            raise refusal.refused(
                "`session_window` is one of its groups",
                group.sql,
                "use `hr.window(rows, hr.session(…), …)`, whose windows merge and close",
            )
    rows = work.with_scalars(work.rows(node.child), node.scalars)
    inputs = {column(one.number): one.expression for one in node.groups}
    given: dict[int, list[str]] = {}
    conditions: dict[int, str] = {}
    for one in node.aggregates:
        given[one.number] = [work.fresh("i") for _ in one.inputs]
        inputs |= {name: value.expression for name, value in zip(given[one.number], one.inputs, strict=True)}
        if one.filter is not None:
            conditions[one.number] = work.fresh("f")
            inputs[conditions[one.number]] = one.filter
    prepared = work.select(rows, inputs)
    declared: dict[str, Any] = {}
    for one in node.aggregates:
        declared |= _kept(prepared, one, given[one.number], conditions.get(one.number))
    by = [column(one.number) for one in node.groups]
    plain, restore = _as_keys(prepared, by)
    if declared:
        work.steps.append("aggregate" if by else "aggregate of all rows")
        rows = restore(aggregate(plain, by=by, **declared))
    else:
        work.steps.append("distinct")
        rows = restore(distinct_rows(plain.select(*by, CHANGE), by=by))
    results = {column(one.number): _result(rows, one) for one in node.aggregates}
    absent = {column(one.number): 0 for one in node.aggregates if one.function == "Count"}
    return rows.select(*by, *(value.alias(name) for name, value in results.items()), CHANGE), absent


def _kept(rows: DataFrame, one: Aggregate, given: Sequence[str], condition: str | None) -> dict[str, kinds.Aggregate]:
    """What the operator keeps for an aggregate, of these columns of the rows."""
    name, function = column(one.number), one.function
    if one.distinct and function not in ("Count", "Min", "Max"):
        raise refusal.refused(
            f"`{function.lower()}(distinct …)` is not kept",
            one.sql,
            "aggregate the distinct values: `SELECT sum(x) FROM (SELECT DISTINCT …)`",
        )
    if function == "Count":
        return {name: _counted(given, distinct=one.distinct, condition=condition)}
    if function == "Average" and isinstance(rows.schema[given[0]].dataType, DecimalType):
        return {_sum(one): kinds.sum(given[0], where=condition), _count(one): kinds.count(given[0], where=condition)}
    if function not in _KINDS:
        raise refusal.refused(
            f"the aggregate `{function}` is not kept while rows come and go",
            one.sql,
            f"use one of {', '.join(_NAMES)}; or a window of `hr.window`, which has more",
        )
    return {name: _KINDS[function](*given, where=condition)}


def _counted(given: Sequence[str], *, distinct: bool, condition: str | None) -> kinds.Aggregate:
    """A count of one column, or of the rows in which none of several is null."""
    counting = kinds.count_distinct if distinct else kinds.count
    if len(given) == 1:
        return counting(given[0], where=condition)
    options = ", ".join(f"'{name}', '{value}'" for name, value in _JSON.items())
    whole = f"to_json(struct({', '.join(given)}), map({options}))" if distinct else "1"
    return counting(f"if({' or '.join(f'{name} is null' for name in given)}, null, {whole})", where=condition)


def _result(rows: DataFrame, one: Aggregate) -> Column:
    """An aggregate in the type that Spark gives it. The mean of decimals is divided as Spark does."""
    if _sum(one) in rows.columns:
        n = F.col(_count(one))
        return F.when(n > 0, F.col(_sum(one)) / n.cast("decimal(20,0)")).cast(one.type)
    return F.col(column(one.number)).cast(one.type)


def _sum(one: Aggregate) -> str:
    return f"{column(one.number)}_sum"


def _count(one: Aggregate) -> str:
    return f"{column(one.number)}_count"


# Keys


def text(rows: DataFrame, name: str) -> Column:
    """A column that is no key for an operator, as text that is equal where its values are."""
    kind = rows.schema[name].dataType
    if isinstance(kind, DoubleType | FloatType):
        return (F.col(name) + F.lit(0).cast(kind)).cast("string")
    return F.when(F.col(name).isNotNull(), as_json([name]))


def as_json(names: Sequence[str]) -> Column:
    """Columns as one text: it is equal where all of them are, nulls too."""
    return F.to_json(F.struct(*names), _JSON)


def _as_keys(rows: DataFrame, names: Sequence[str]) -> tuple[DataFrame, Any]:
    """The rows with columns by which an operator can tell groups apart, and how they become what they were."""
    other = {name: rows.schema[name].dataType for name in names if not is_key(rows.schema[name].dataType)}

    def restored(result: DataFrame) -> DataFrame:
        made = {}
        for name, kind in other.items():
            if isinstance(kind, DoubleType | FloatType):
                made[name] = F.col(name).cast(kind)
            else:
                made[name] = F.from_json(name, f"{name} {kind.simpleString()}", _JSON)[name]
        return result.withColumns(made) if made else result

    return rows.withColumns({name: text(rows, name) for name in other}) if other else rows, restored
