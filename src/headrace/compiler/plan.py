"""A user's query as the compiler sees it: nodes and the expressions in them, as the kernel describes them.

Columns and expressions are numbers. The compiler calls the column of an attribute `c` and its number (`column`), and
hands the numbers of expressions back to the kernel, which knows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


def column(number: int) -> str:
    """The name of an attribute's column."""
    return f"c{number}"


@dataclass(frozen=True)
class Value:
    """An expression; `attribute` is the number of the column that it is, if it is one. `type` and `sql` are SQL."""

    expression: int
    type: str
    sql: str
    attribute: int | None = None


@dataclass(frozen=True)
class Output(Value):
    """A column that is made of an expression."""

    number: int = -1
    name: str = ""


@dataclass(frozen=True)
class Order(Value):
    """A column that rows are ordered by."""

    ascending: bool = True
    nulls_first: bool = True


@dataclass(frozen=True)
class Group(Value):
    """A column that groups are made by. A struct has `fields`, each of which is a column for the operator."""

    number: int = -1
    session: bool = False
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a group, by the name of Spark's class for it."""

    number: int
    function: str
    type: str
    sql: str
    distinct: bool
    filter: int | None
    inputs: tuple[Value, ...]


@dataclass(frozen=True)
class Scalar:
    """A subquery that is one value, in the column `number`; `columns` are those of its plan."""

    number: int
    correlated: bool
    single: bool
    plan: Node
    columns: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """`id` is what the kernel knows it by, and `text` what Spark calls it."""

    id: int
    text: str
    scalars: tuple[Scalar, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        """What it reads, without its subqueries."""
        return ()


@dataclass(frozen=True)
class Input(Node):
    """What the user's query reads: columns of this name have these numbers."""

    name: str
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Above(Node):
    child: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.child,)


@dataclass(frozen=True)
class Project(_Above):
    columns: tuple[Output, ...]


@dataclass(frozen=True)
class Filter(_Above):
    """`places` is how many rows of a partition the condition leaves of a ranking below, if it says that."""

    condition: int
    sql: str
    places: int | None


@dataclass(frozen=True)
class Several(_Above):
    """What makes several rows of each one: `explode` and its like, and the sets of a rollup."""

    columns: tuple[int, ...]


@dataclass(frozen=True)
class Distinct(_Above):
    columns: tuple[int, ...]


@dataclass(frozen=True)
class First(_Above):
    """One row for each value of the keys."""

    columns: tuple[int, ...]
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Limit(_Above):
    """The first rows; `columns` are those of the child, of which `projected` are made behind the ranking, if any."""

    most: int
    skip: int
    columns: tuple[int, ...]
    order: tuple[Order, ...]
    projected: tuple[Output, ...] | None


@dataclass(frozen=True)
class Function:
    """A function over a window."""

    number: int
    function: str
    sql: str


@dataclass(frozen=True)
class Window(_Above):
    """Functions over the rows of each partition in their order; `columns` are those of the child."""

    columns: tuple[int, ...]
    partition: tuple[Value, ...]
    order: tuple[Order, ...]
    functions: tuple[Function, ...]


@dataclass(frozen=True)
class Grouped(_Above):
    """Groups, their aggregates, and the columns that are made of both."""

    groups: tuple[Group, ...]
    aggregates: tuple[Aggregate, ...]
    columns: tuple[Output, ...]


@dataclass(frozen=True)
class Union(Node):
    """Each part with its columns, which become those of the union in their order."""

    parts: tuple[tuple[Node, tuple[int, ...]], ...]
    columns: tuple[int, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return tuple(part for part, _ in self.parts)


@dataclass(frozen=True)
class Join(Node):
    """`how` is SQL's word for it; `rest` is the condition beside the equal keys, `exists` the column that says whether
    a row has a partner."""

    left: Node
    right: Node
    how: str
    left_columns: tuple[int, ...]
    right_columns: tuple[int, ...]
    left_keys: tuple[Value, ...]
    right_keys: tuple[Value, ...]
    rest: int | None
    exists: int | None
    sql: str | None

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Unknown(Node):
    """What the compiler has no word for."""

    name: str


@dataclass(frozen=True)
class Plan:
    """`columns` are those of the result: names and numbers. `moving` is what is another one each time, as SQL."""

    root: Node
    columns: tuple[tuple[str, int], ...]
    moving: str | None


def read(text: str) -> Plan:
    """The plan that the kernel describes."""
    told = json.loads(text)
    return Plan(_node(told["plan"]), _named(told["columns"]), told["moving"])


def nodes(of: Node) -> Iterator[Node]:
    """A node and all below it, those of subqueries too."""
    yield of
    for child in (*of.children, *(scalar.plan for scalar in of.scalars)):
        yield from nodes(child)


def _node(told: Mapping[str, Any]) -> Node:  # noqa: PLR0911, PLR0912
    scalars: dict[int, Scalar] = {}
    for one in told.get("scalars", ()):
        plan, columns = _node(one["plan"]), tuple(one["columns"])
        scalars[one["number"]] = Scalar(one["number"], one["correlated"], one["single"], plan, columns)
    base = (told["id"], told["text"], tuple(scalars.values()))
    match told["node"]:
        case "input":
            return Input(*base, told["name"], _named(told["columns"]))
        case "project":
            return Project(*base, _node(told["child"]), _outputs(told["columns"]))
        case "filter":
            return Filter(*base, _node(told["child"]), told["condition"], told["sql"], told.get("places"))
        case "generate" | "expand":
            return Several(*base, _node(told["child"]), tuple(told["columns"]))
        case "distinct":
            return Distinct(*base, _node(told["child"]), tuple(told["columns"]))
        case "first":
            return First(*base, _node(told["child"]), tuple(told["columns"]), tuple(told["keys"]))
        case "limit":
            behind = told["projected"]
            return Limit(
                *base,
                _node(told["child"]),
                told["most"],
                told["skip"],
                tuple(told["columns"]),
                _orders(told["order"]),
                None if behind is None else _outputs(behind),
            )
        case "window":
            functions = (Function(one["number"], one["function"], one["sql"]) for one in told["functions"])
            return Window(
                *base,
                _node(told["child"]),
                tuple(told["columns"]),
                _values(told["partition"]),
                _orders(told["order"]),
                tuple(functions),
            )
        case "aggregate":
            groups = (
                Group(*_value(one), one["number"], one["session"], tuple(one.get("fields", ())))
                for one in told["groups"]
            )
            aggregates = (
                Aggregate(
                    one["number"],
                    one["function"],
                    one["type"],
                    one["sql"],
                    one["distinct"],
                    one["filter"],
                    _values(one["inputs"]),
                )
                for one in told["aggregates"]
            )
            return Grouped(*base, _node(told["child"]), tuple(groups), tuple(aggregates), _outputs(told["columns"]))
        case "union":
            parts = ((_node(part["plan"]), tuple(part["columns"])) for part in told["children"])
            return Union(*base, tuple(parts), tuple(told["columns"]))
        case "join":
            return Join(
                *base,
                _node(told["left"]),
                _node(told["right"]),
                told["how"],
                tuple(told["left_columns"]),
                tuple(told["right_columns"]),
                _values(told["left_keys"]),
                _values(told["right_keys"]),
                told["rest"],
                told.get("exists"),
                told["sql"],
            )
        case _:
            return Unknown(*base, told["name"])


def _value(told: Mapping[str, Any]) -> tuple[int, str, str, int | None]:
    return told["expression"], told["type"], told["sql"], told["attribute"]


def _values(told: list[Mapping[str, Any]]) -> tuple[Value, ...]:
    return tuple(Value(*_value(one)) for one in told)


def _outputs(told: list[Mapping[str, Any]]) -> tuple[Output, ...]:
    return tuple(Output(*_value(one), one["number"], one["name"]) for one in told)


def _orders(told: list[Mapping[str, Any]]) -> tuple[Order, ...]:
    return tuple(Order(*_value(one), one["ascending"], one["nulls_first"]) for one in told)


def _named(told: list[Mapping[str, Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((one["name"], one["number"]) for one in told)
