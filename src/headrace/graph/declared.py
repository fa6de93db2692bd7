"""A declared function: what `@app.stream` and `@app.view` make of a function, and what a type checker knows of it.

It is called as the function is: with static DataFrames it gives the batch answer. A declaration knows nothing of Spark,
so `Frame` stands for a DataFrame: a function that returns something else is an error to a type checker. Parameters
without types and functions without a return type are taken as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from headrace.graph.node import Derived


class Frame(Protocol):
    """What a declared function returns: a PySpark DataFrame, by two of its properties."""

    @property
    def columns(self) -> list[str]: ...
    @property
    def isStreaming(self) -> bool: ...  # noqa: N802 - PySpark's name


P = ParamSpec("P")
R = TypeVar("R", bound=Frame)


class Declared(Generic[P, R]):
    """A declared function: still the plain function when called, with its `definition` beside it."""

    __name__: str

    def __init__(self, definition: Derived) -> None:
        self.definition = definition
        functools.update_wrapper(self, definition.function)
        self.__name__ = definition.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.definition.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.definition.kind} {self.definition.name} of {', '.join(self.definition.inputs)}>"


AnyDeclared = Declared[..., Any]


class Decorator(Protocol):
    """What `@app.stream(key=…)` and `@app.view(key=…)` put on a function."""

    def __call__(self, function: Callable[P, R], /) -> Declared[P, R]: ...
