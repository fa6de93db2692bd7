"""From a plan to rows that are kept up to date, node by node from the leaves up.

The rows of a node are a DataFrame with a column for each of its attributes (`plan.column`) and, where rows may go
again, the sign `change` beside them. What treats each row for itself is Spark's own projection or filter with the sign
carried along; what does more becomes an operator. A query of streams that treats each row for itself is a stream.

A scalar subquery is a table of one row that every row meets in a join, so every row is told anew when it changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.compiler import groups, joins, plan, rankings, refusal
from headrace.compiler.plan import (
    Distinct,
    Filter,
    First,
    Grouped,
    Input,
    Join,
    Limit,
    Node,
    Plan,
    Project,
    Scalar,
    Several,
    Union,
    Unknown,
    Window,
    column,
)
from headrace.kernel import bridge
from headrace.names import CHANGE
from headrace.operators import sign
from headrace.operators.columns import quoted
from headrace.operators.event_time import unmarked
from headrace.operators.union import union

STATELESS = (Input, Project, Filter, Several, Union)


class Translation:
    """Of one query over inputs. `is_table` says whether its rows may go again; `steps` are the operators that it has
    become, in their order."""

    def __init__(self, query: bridge.UserPlan, inputs: Mapping[str, DataFrame]) -> None:
        self.plan: Plan = plan.read(query.description())
        self.steps: list[str] = []
        self._query = query
        self._inputs = inputs
        self._numbers = count()
        used = [one for one in plan.nodes(self.plan.root) if isinstance(one, Input)]
        whole = all(isinstance(one, STATELESS) and not one.scalars for one in plan.nodes(self.plan.root))
        self.is_table = not whole or any(sign.is_table(inputs[one.name]) for one in used)

    def result(self) -> DataFrame:
        """The rows of the query, with the names that it gives its columns."""
        if self.plan.moving is not None and self.is_table:
            raise refusal.moving(self.plan.moving)
        rows = self.rows(self.plan.root)
        named = [F.col(column(number)).alias(name) for name, number in self.plan.columns if name != CHANGE]
        return rows.select(*named, *self.kept)

    @property
    def kept(self) -> list[str]:
        """What goes along with every row beside its columns."""
        return [CHANGE] if self.is_table else []

    def rows(self, node: Node) -> DataFrame:  # noqa: PLR0911, PLR0912
        """The rows of a node."""
        match node:
            case Input():
                return self._input(node)
            case Project():
                below = self.with_scalars(self.rows(node.child), node.scalars)
                return self.select(below, {column(one.number): one.expression for one in node.columns})
            case Filter():
                return self._filtered(node)
            case Several():
                return self._query.several(self.rows(node.child), node.id, self.kept)
            case Union():
                return self._union(node)
            case Distinct():
                return groups.distinct(self, self.rows(node.child), list(map(column, node.columns)))
            case Grouped():
                return groups.grouped(self, node)
            case Join():
                return joins.joined(self, node)
            case First():
                return rankings.one_of_each(self, node)
            case Limit():
                return rankings.limited(self, node)
            case Window():
                return rankings.over_windows(node)
            case Unknown():
                raise refusal.refused(
                    f"there is no operator for `{node.name}`", node.text, "leave it out, or compute it another way"
                )
            case _:
                raise AssertionError(node)

    # Steps that others take

    def fresh(self, of: str) -> str:
        """A column name that nobody else has."""
        return f"{of}{next(self._numbers)}"

    def select(self, rows: DataFrame, columns: Mapping[str, int], also: Sequence[str] = ()) -> DataFrame:
        """Expressions of the plan over rows, each under a name, and columns of the rows as they are."""
        return self._query.select(rows, columns, [*also, *self.kept])

    def with_columns(self, rows: DataFrame, columns: Mapping[str, int]) -> DataFrame:
        """The rows with more columns."""
        return self.select(rows, columns, sign.columns(rows))

    def filter(self, rows: DataFrame, condition: int) -> DataFrame:
        """The rows for which an expression of the plan is true."""
        return self._query.filter(rows, condition)

    def with_scalars(self, rows: DataFrame, scalars: Sequence[Scalar]) -> DataFrame:
        """The rows with the value of each subquery in a column."""
        for one in scalars:
            if one.correlated:
                raise refusal.refused(
                    "a subquery that is one value depends on the rows around it in a way that is no join",
                    one.plan.text,
                    "write it as a join with an aggregate",
                )
            if not one.single:
                raise refusal.refused(
                    "a subquery is used as one value and may have several rows",
                    one.plan.text,
                    "aggregate it, for instance with `max`",
                )
            rows = joins.with_value(self, rows, one)
        return rows

    # Nodes

    def _input(self, node: Input) -> DataFrame:
        rows = self._inputs[node.name]
        renamed = [F.col(quoted(name)).alias(column(number)) for name, number in node.columns]
        if not self.is_table:
            return rows.select(*renamed)
        signs = F.col(CHANGE) if sign.is_table(rows) else F.lit("+").alias(CHANGE)
        return unmarked(rows).select(*renamed, signs)

    def _filtered(self, node: Filter) -> DataFrame:
        if node.places is not None and isinstance(node.child, Window):
            return self.filter(rankings.ranked(self, node.child, node.places), node.condition)
        below = self.rows(node.child)
        if not node.scalars:
            return self.filter(below, node.condition)
        kept = self.filter(self.with_scalars(below, node.scalars), node.condition)
        return kept.select(*below.columns)

    def _union(self, node: Union) -> DataFrame:
        names = [column(number) for number in node.columns]
        parts = [
            self.rows(part).select(
                *(F.col(column(number)).alias(name) for number, name in zip(numbers, names, strict=True)), *self.kept
            )
            for part, numbers in node.parts
        ]
        return parts[0] if len(parts) == 1 else union(*parts)
