"""`aggregate`: aggregates of the rows of each group of a table, kept right while rows come, change and go.

    hr.aggregate(orders, by="customer", orders=hr.count(), spent=hr.sum("price"), dearest=hr.max("price"))
    hr.aggregate(hr.join(orders, products, on={"product": "id"}), by=["maker"], revenue=hr.sum("amount * price"))

**Meaning.** The rows that the table has (table.py) in groups that are equal in `by`; without columns in `by` they are
one group, and a null in a `by` column is a value like any other. A group is there while it has a row: when the last one
goes, so does its result. Of a stream, whose rows only come, it is the group-by over all rows so far.

**Result.** A table of changes with the `by` columns, which tell its rows apart, the aggregates and `change`. It can be
joined, ranked and aggregated again.

**Aggregates.** `count`, `sum`, `avg`, `min`, `max`, `min_by`, `max_by` and `count_distinct`, as in aggregate.py. What a
row that goes has added is taken out again without a trace: sums of whole numbers and decimals are exact, on the way
also where the result would not fit, and the least and greatest values are found among those that are still there. The
sum of the doubles of a table is that of the real numbers, rounded once, so it does not depend on the order of the rows,
nor on rows that are gone. The batch twin is Spark's own sum, which is rounded at every step and so may differ where
large numbers cancel out, else in the last digits. `avg` is the sum divided by the count. Infinite values and NaN count
while they are there. The others need an order of the rows that tables do not have (`first`, `last`, `collect`) or
cannot take a row out (the sketches), and are refused.

**Skew.** In exact mode the rows of a batch are gathered by group before they leave the task that reads them, so a group
that most rows belong to costs little more than others, except for `min`, `max`, `min_by`, `max_by` and `count_distinct`
over tables, whose values all come to the one task of the group. With `skew="split"` each group is cut into as many
parts as there are tasks, by a hash of the row, and what is told of the parts is put together; the answer is the same
(of doubles to the last digits, since each part is rounded). It costs a second shuffle. `count_distinct` of one column
only can be split, and `ties` cannot.

**Convergence.** The rows put there and not taken back are the aggregates of the rows that the table has.

**State.** Of each group its numbers; for `min`, `max`, `min_by`, `max_by` and `count_distinct` over a table also every
value of the group with how often it is there, in pages, so that a change costs one page however large the group is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, MapType, StringType, VariantType

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.kernel.operator import Meaning, Operator, Routing
from headrace.names import CHANGE, COLUMN_PREFIX
from headrace.operators import sign, table
from headrace.operators.aggregate import (
    INPUT_PREFIX,
    Aggregate,
    Bound,
    batch,
    bind,
    bound_to,
    refuse_options,
)
from headrace.operators.columns import ddl, quoted
from headrace.operators.given import given
from headrace.operators.keys import key_columns
from headrace.operators.window import check_word

_SIGN = f"{INPUT_PREFIX}sign"
_PART = f"{COLUMN_PREFIX}part"
_REVERSIBLE = ("count", "sum", "avg", "min", "max", "min_by", "max_by", "count_distinct")
_INSTEAD = {
    "first": 'say what is first: `hr.min_by("{column}", "…")`',
    "last": 'say what is last: `hr.max_by("{column}", "…")`',
    "collect": 'use `hr.max_by("{column}", "…", ties=…)`, or `hr.top`',
    "approx_distinct": 'use `hr.count_distinct("{column}")`, which is exact',
    "approx_top_k": "aggregate by `{column}` and rank the counts with `hr.top`",
    "count_min": 'aggregate by `{column}`, or use `hr.count(where="{column} = …")`',
}


@dataclass(frozen=True, kw_only=True)
class TableAggregate(Operator):
    """`sign` is the column that says whether a row comes or goes, where rows may be taken back."""

    name: ClassVar[str] = "aggregate"
    kind: ClassVar[str] = "aggregate"

    sign: Routing[str | None]
    taken_back: Meaning[bool]


def aggregate(
    rows: DataFrame,
    /,
    *,
    by: str | Sequence[str],
    skew: Literal["split"] | None = None,
    **aggregates: Aggregate,
) -> DataFrame:
    """The aggregates of each group of `by`, as a table."""
    given("aggregate", rows)
    refuse_options("aggregate", by=by, skew=skew)
    check_word("aggregate", "skew", skew, (None, "split"))
    sign.refuse_other(rows, "aggregate")
    _check_kinds(rows, aggregates)
    names = key_columns(rows, by, "aggregate")
    bound, prepared = bind(rows, aggregates, "aggregate", [*names, CHANGE])
    if skew == "split":
        _check_split(aggregates)
        if rows.isStreaming:
            return _split(rows, names, bound)
    return grouped(rows, prepared, names, bound)


def grouped(
    rows: DataFrame, prepared: DataFrame, by: Sequence[str], bound: Sequence[Bound], operator: str = "aggregate"
) -> DataFrame:
    """The groups of rows that `prepared` holds with the inputs of the aggregates."""
    signed = sign.is_table(rows)
    sign.refuse_moving(prepared, f"`{operator}`", calling().where)
    own = [F.col(quoted(name)) for name in by]
    inputs = [F.col(quoted(name)) for name in prepared.columns if name.startswith(INPUT_PREFIX)]
    if not rows.isStreaming:
        return _batch(prepared.select(*own, *inputs, *([CHANGE] if signed else [])), by, bound, signed=signed)
    signs = [F.col(CHANGE).alias(_SIGN)] if signed else []
    return bridge.sharded(prepared.select(*own, *signs, *inputs), _operator(rows, by, bound, signed=signed))


def _split(rows: DataFrame, by: Sequence[str], bound: Sequence[Bound]) -> DataFrame:
    """Each group in parts first, then the parts together."""
    parts: dict[str, Aggregate] = {}
    together: dict[str, Aggregate] = {}
    answers: list[Column] = []
    for number, one in enumerate(bound):
        mine, whole, answer = _in_parts(one, f"{_PART}_{number}")
        parts |= mine
        together |= whole
        answers.append(answer.cast(one.type).alias(one.name))
    shards = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    part = F.pmod(F.xxhash64(*_basis(rows, bound)), F.lit(shards)).alias(_PART)
    some = _of(rows.select("*", part), [*by, _PART], parts)
    own = [F.col(quoted(name)) for name in by]
    return _of(some, by, together).select(*own, *answers, F.col(CHANGE))


def _of(rows: DataFrame, by: Sequence[str], aggregates: Mapping[str, Aggregate]) -> DataFrame:
    bound, prepared = bound_to(rows, aggregates, "aggregate")
    return grouped(rows, prepared, by, bound)


def _in_parts(one: Bound, name: str) -> tuple[dict[str, Aggregate], dict[str, Aggregate], Column]:
    """The aggregates of a part, those of the parts together, and the answer they give."""
    kind, column, where = one.aggregate.kind, one.aggregate.column, one.aggregate.where
    if kind in ("min", "max"):
        return {name: one.aggregate}, {name: Aggregate(kind, name)}, F.col(name)
    if kind in ("min_by", "max_by"):
        by = f"{name}_by"
        extreme = Aggregate(kind.removesuffix("_by"), one.aggregate.by, where=where)
        return {name: one.aggregate, by: extreme}, {name: Aggregate(kind, name, by)}, F.col(name)
    if kind == "avg":
        count = f"{name}_count"
        mine = {name: Aggregate("sum", f"cast({column} as double)", where=where)}
        mine[count] = Aggregate("count", column, where=where)
        return mine, {n: Aggregate("sum", n) for n in (name, count)}, F.try_divide(F.col(name), F.col(count))
    if kind == "sum" and isinstance(one.type, LongType):  # a part may be too large for it where the whole is not
        mine = {name: Aggregate("sum", f"cast({column} as decimal(28, 0))", where=where)}
        return mine, {name: Aggregate("sum", name)}, F.col(name)
    return {name: one.aggregate}, {name: Aggregate("sum", name)}, F.col(name)


def _basis(rows: DataFrame, bound: Sequence[Bound]) -> list[Column]:
    """What says to which part a row belongs: a value that is counted once must always be in the same."""
    for one in bound:
        if one.aggregate.kind == "count_distinct":
            return [F.expr(one.aggregate.column or "")]
    fields = (field for field in rows.schema.fields if field.name != CHANGE)
    return [F.col(quoted(f.name)) for f in fields if not isinstance(f.dataType, MapType | VariantType)]


def _operator(rows: DataFrame, by: Sequence[str], bound: Sequence[Bound], *, signed: bool) -> TableAggregate:
    output = [*((name, rows.schema[name].dataType) for name in by), *((one.name, one.type) for one in bound)]
    return TableAggregate(
        by=list(by),
        columns=[*by, *([_SIGN] if signed else [])],
        aggregates=[replace(one, taken_back=signed) for one in bound],
        output=ddl([*output, (CHANGE, StringType())]),
        unique=list(by),
        changes=True,
        sign=_SIGN if signed else None,
        taken_back=signed,
    )


def _batch(rows: DataFrame, by: Sequence[str], bound: Sequence[Bound], *, signed: bool) -> DataFrame:
    """The batch twin: a group-by over the rows that are there."""
    there = table.held(rows) if signed else rows
    own = [F.col(quoted(name)) for name in by]
    # A constant to group by: without rows there is no group, with and without keys.
    groups = there.groupBy(*own, F.lit(0).alias(_SIGN))
    if not bound:
        return groups.count().select(*own, F.lit("+").alias(CHANGE))
    answers = groups.agg(*(batch(one, F.lit(None)) for one in bound))
    return answers.select(*own, *(F.col(quoted(one.name)) for one in bound), F.lit("+").alias(CHANGE))


def _check_split(aggregates: Mapping[str, Aggregate]) -> None:
    counted = {one.column for one in aggregates.values() if one.kind == "count_distinct"}
    for name, one in aggregates.items():
        if "ties" in one.options or (one.kind == "count_distinct" and len(counted) > 1):
            raise DeclarationError(
                "HR-055", f"`aggregate` cannot split its groups and compute `{name}`.", where=calling().at(name),
                found=f"{one.kind} of {one.column}",
                fix='leave out `skew="split"`, or compute it in an `aggregate` of its own and join',
            )  # fmt: skip


def _check_kinds(rows: DataFrame, aggregates: dict[str, Aggregate]) -> None:
    for name, one in aggregates.items():
        if isinstance(one, Aggregate) and one.kind not in _REVERSIBLE:
            why = f"it does not have `{one.kind}`"
            instead = _INSTEAD.get(one.kind, "use one of those: " + ", ".join(_REVERSIBLE)).format(column=one.column)
            if sign.is_table(rows):
                why = f"the rows of a table go again, and `{one.kind}` cannot take them out"
            else:
                instead += "; or use `hr.window` with `hr.global_()`, which has it"
            raise DeclarationError(
                "HR-055", f"`aggregate` cannot compute `{name}`: {why}.", where=calling().at(name),
                found=f"{one.kind} of {one.column}", fix=instead,
            )  # fmt: skip
