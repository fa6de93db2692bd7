"""Joins of every kind, by the join of tables.

**Inner and outer** joins by equal keys are that operator. A condition beside the keys filters the pairs of an inner
join; an outer join with one is its pairs together with the rows that are in none of them.

**Semi, anti, existence.** The keys that the right side has, each once, are joined with the left side. With a condition
beside the keys it is the rows of the left side that are in a pair, each once.

**Without equal keys** every row of one side meets every row of the other, in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.compiler import groups
from headrace.compiler.plan import Grouped, Join, Scalar, Value, column
from headrace.names import CHANGE
from headrace.operators import sign
from headrace.operators.join import How, join
from headrace.operators.keys import is_key
from headrace.operators.union import union

if TYPE_CHECKING:
    from headrace.compiler.translation import Translation

_HOW: dict[str, How] = {
    "INNER": "inner",
    "CROSS": "inner",
    "LEFT OUTER": "left",
    "RIGHT OUTER": "right",
    "FULL OUTER": "full",
}
_ROW = "row"


@dataclass(frozen=True)
class _Sides:
    """The rows of both sides with the columns `on` in which they are to be equal, and the columns that each has of its
    own; `rest` is the condition beside that."""

    left: DataFrame
    right: DataFrame
    on: list[str]
    own: list[str]
    theirs: list[str]
    rest: int | None

    @property
    def turned(self) -> _Sides:
        """The same from the other side."""
        return _Sides(self.right, self.left, self.on, self.theirs, self.own, self.rest)


def joined(work: Translation, node: Join) -> DataFrame:
    """The rows of a join."""
    sides = _sides(work, node)
    if node.how in ("LEFT SEMI", "LEFT ANTI", "exists"):
        return _by_partner(work, node, sides)
    columns = [*sides.own, *sides.theirs, CHANGE]
    if sides.rest is None:
        work.steps.append(f"{node.how.lower()} join")
        return join(sides.left, sides.right, on=sides.on, how=_HOW[node.how]).select(*columns)
    parts = [_pairs(work, sides).select(*columns)]
    if node.how in ("LEFT OUTER", "FULL OUTER"):
        parts.append(_alone(work, sides, parts[0]))
    if node.how in ("RIGHT OUTER", "FULL OUTER"):
        parts.append(_alone(work, sides.turned, parts[0]))
    return parts[0] if len(parts) == 1 else union(*parts)


def with_value(work: Translation, rows: DataFrame, scalar: Scalar) -> DataFrame:
    """The rows, each with the one value of a subquery; it is null where the subquery has no row."""
    key, value = work.fresh("k"), column(scalar.number)
    left = rows.withColumn(key, F.lit(1))
    work.steps.append("left outer join (one value)")
    if isinstance(scalar.plan, Grouped) and not scalar.plan.groups:
        # Of no rows there is no group: what is computed of the aggregates is computed behind the join.
        raw, absent = groups.aggregated(work, scalar.plan)
        together = join(left, raw.withColumn(key, F.lit(1)), on=key, how="left")
        for name, default in absent.items():
            together = together.withColumn(name, F.coalesce(F.col(name), F.lit(default)))
        return work.select(together, {value: scalar.plan.columns[0].expression}, sign.columns(rows))
    (number,) = scalar.columns
    raw = work.rows(scalar.plan).select(F.col(column(number)).alias(value), F.lit(1).alias(key), CHANGE)
    return join(left, raw, on=key, how="left").drop(key)


def _sides(work: Translation, node: Join) -> _Sides:
    left, right = work.rows(node.left), work.rows(node.right)
    own, theirs = [column(n) for n in node.left_columns], [column(n) for n in node.right_columns]
    if not node.left_keys:
        name = work.fresh("k")
        left, right = left.withColumn(name, F.lit(1)), right.withColumn(name, F.lit(1))
        return _Sides(left, right, [name], own, theirs, node.rest)
    names = [work.fresh("k") for _ in node.left_keys]
    left, right = _keyed(work, left, node.left_keys, names), _keyed(work, right, node.right_keys, names)
    return _Sides(left, right, names, own, theirs, node.rest)


def _keyed(work: Translation, rows: DataFrame, keys: Sequence[Value], names: Sequence[str]) -> DataFrame:
    """The rows with their keys; what is no key for an operator is compared as text."""
    keyed = work.with_columns(rows, {name: key.expression for name, key in zip(names, keys, strict=True)})
    for name in names:
        if not is_key(keyed.schema[name].dataType):
            keyed = keyed.withColumn(name, groups.text(keyed, name))
    return keyed


def _pairs(work: Translation, sides: _Sides) -> DataFrame:
    """The pairs for which the condition is true."""
    work.steps.append("inner join")
    pairs = join(sides.left, sides.right, on=sides.on)
    return pairs if sides.rest is None else work.filter(pairs, sides.rest)


def _alone(work: Translation, sides: _Sides, pairs: DataFrame) -> DataFrame:
    """The rows of the left side that are in no pair, with the columns of the pairs."""
    rows = _without(work, _identified(sides.left, sides.own), _in_pairs(work, sides), [_ROW])
    missing = [field for field in pairs.schema.fields if field.name not in rows.columns]
    return rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in missing}).select(*pairs.columns)


def _by_partner(work: Translation, node: Join, sides: _Sides) -> DataFrame:
    """The rows of the left side that have a partner, that have none, or each with whether it has one."""
    if sides.rest is None:
        rows, there, on = sides.left, groups.distinct(work, sides.right.select(*sides.on, CHANGE), sides.on), sides.on
    else:
        rows, there, on = _identified(sides.left, sides.own), _in_pairs(work, sides), [_ROW]
    if node.how == "LEFT SEMI":
        work.steps.append("semi join")
        return join(rows, there, on=on).select(*sides.own, CHANGE)
    if node.how == "LEFT ANTI":
        return _without(work, rows, there, on).select(*sides.own, CHANGE)
    assert node.exists is not None
    work.steps.append("existence join")
    flag = work.fresh("k")
    marked = join(rows, there.withColumn(flag, F.lit(True)), on=on, how="left")
    return marked.select(*sides.own, F.col(flag).isNotNull().alias(column(node.exists)), CHANGE)


def _without(work: Translation, rows: DataFrame, there: DataFrame, on: list[str]) -> DataFrame:
    work.steps.append("anti join")
    flag = work.fresh("k")
    marked = join(rows, there.withColumn(flag, F.lit(True)), on=on, how="left")
    return marked.where(F.col(flag).isNull()).drop(flag)


def _in_pairs(work: Translation, sides: _Sides) -> DataFrame:
    """The rows of the left side that are in a pair, each once, as text."""
    pairs = _identified(_pairs(work, sides), sides.own).select(_ROW, CHANGE)
    return groups.distinct(work, pairs, [_ROW])


def _identified(rows: DataFrame, own: Sequence[str]) -> DataFrame:
    """The rows with all their columns as one text: a null in it is equal to a null."""
    return rows.select(*own, groups.as_json(own).alias(_ROW), CHANGE)
