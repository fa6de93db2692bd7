"""What an operator is given: DataFrames, as a declared function gets them, those of a table with their sign."""

from __future__ import annotations

import reprlib

from pyspark.sql import DataFrame

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.operators import sign


def given(operator: str, *rows: object) -> None:
    """The rows of an operator are DataFrames, which a declaration is not, and those of a table say what goes."""
    for number, one in enumerate(rows, start=1):
        if not isinstance(one, DataFrame):
            raise DeclarationError(
                "HR-058", f"`{operator}` takes DataFrames, and argument {number} is not one.", where=calling().where,
                found=_named(one),
                fix="write a function whose parameters are the declared names, such as `@app.stream` above "
                f"`def result(payments, cards)`, and `hr.{operator}` in it: it is called with their DataFrames",
            )  # fmt: skip
        sign.refuse_lost(one, f"The input of `{operator}`", calling().where)


def _named(one: object) -> str:
    """The type of it, with the name that it was declared by, or its text where it has none."""
    name = getattr(one, "__name__", None) or getattr(one, "name", None)
    return f"{type(one).__name__} {name if isinstance(name, str) else reprlib.repr(one)}"
