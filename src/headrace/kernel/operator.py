"""What an operator is: its name, its options, and what its state means, said in one class.

An operator is a frozen dataclass in its file of operators/. Each field says whether the kernel is told, and whether the
state depends on it:

- `Option`: the kernel is told, and state that was made with another value does not fit;
- `Routing`: the kernel is told, and the state does not depend on it;
- `Meaning`: it says what the state means, and the kernel need not know.

The kernel has a record with the same options in the class that works in the shards (java/…/operators), and refuses an
operator, an option or a form that it does not know. tests/kernel/test_operators.py holds both sides against each other.
What its state means is written beside a checkpoint, and a declaration that means something else is refused (HR-307).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, TypeVar, get_type_hints

from pyspark.sql.types import StructType


class Role(NamedTuple):
    """What a field of an operator is for."""

    told: bool
    state: bool


_T = TypeVar("_T")
Option = Annotated[_T, Role(told=True, state=True)]
Routing = Annotated[_T, Role(told=True, state=False)]
Meaning = Annotated[_T, Role(told=False, state=True)]


class Aggregated(Protocol):
    """An aggregate over the rows of an operator."""

    def told(self) -> dict[str, Any]:
        """What the kernel is told."""
        ...

    def described(self) -> str:
        """What is kept of it, as it was declared and with the types."""
        ...


@dataclass(frozen=True, kw_only=True)
class Operator:
    """What every operator has. `name` is the user's, `kind` the kernel's; `form` is the number of the form in which the
    kernel writes the state."""

    name: ClassVar[str]
    kind: ClassVar[str]
    form: ClassVar[int] = 3

    by: Routing[Sequence[str]]  # the state means them with their types
    time: Option[str | None] = None
    columns: Routing[Sequence[str]]
    aggregates: Routing[Sequence[Aggregated]] = ()  # the state means them as they are described
    output: Routing[str]
    unique: Routing[Sequence[str] | None] = None
    changes: Routing[bool]

    def told(self, *, view: bool) -> dict[str, Any]:
        """What the kernel is told; `view` says that what comes of it is written as a view."""
        layout = {name for name, _ in _roles(Operator)}
        told = {name: getattr(self, name) for name, role in _roles(type(self)) if role.told}
        return {
            "kind": self.kind,
            "form": self.form,
            "layout": {
                **{name: value for name, value in told.items() if name in layout},
                "aggregates": [one.told() for one in self.aggregates],
                "view": view,
            },
            "options": {name: value for name, value in told.items() if name not in layout},
        }

    def means(self, schema: StructType) -> dict[str, Any]:
        """What the state over rows of this schema means; what is nothing is left out."""
        named = {name: getattr(self, name) for name, role in _roles(type(self)) if role.state}
        return {
            "kind": self.kind,
            **{name: value for name, value in named.items() if value},
            "by": [f"{name} {schema[name].dataType.simpleString()}" for name in self.by],
            "aggregates": [one.described() for one in self.aggregates],
            "form": self.form,
        }


def layout_types() -> Mapping[str, Any]:
    """The types of what the kernel is told of every operator."""
    return {name: kind for name, kind in _types(Operator).items() if _role(kind).told} | {"view": bool}


def option_types(operator: type[Operator]) -> Mapping[str, Any]:
    """The types of the options that the kernel is told of this one."""
    layout = _types(Operator)
    return {name: kind for name, kind in _types(operator).items() if _role(kind).told and name not in layout}


@cache
def _roles(operator: type[Operator]) -> tuple[tuple[str, Role], ...]:
    return tuple((name, _role(kind)) for name, kind in _types(operator).items())


@cache
def _types(operator: type[Operator]) -> dict[str, Any]:
    hints = get_type_hints(operator, include_extras=True)
    return {field.name: hints[field.name] for field in fields(operator)}


def _role(kind: Any) -> Role:
    return kind.__metadata__[0]
