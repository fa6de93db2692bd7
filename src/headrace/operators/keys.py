"""The columns by which an operator tells rows apart: named in an option, there, and of a type with exact values."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.names import CHANGE
from headrace.operators import sign

_NO_KEYS = (FloatType, DoubleType, MapType, ArrayType, StructType, VariantType)


def key_columns(
    rows: DataFrame,
    by: str | Sequence[str],
    operator: str,
    *,
    option: str = "by",
    empty: bool = True,
    side: str = "its input",
    use: str = "make groups by",
) -> list[str]:
    """The columns by which rows are told apart; where there may be none, that is one group of all rows.

    An error says what the operator would `use` them for, and which `side` of it they are of.
    """
    names = _named(by, operator, option, empty=empty)
    fields = {field.name: field for field in rows.schema.fields}
    for name in names:
        if name not in fields:
            raise DeclarationError(
                "HR-030", f"`{operator}` names the column `{name}`, which {side} does not have.",
                where=calling().at(option), found=", ".join(fields), fix="name one of the columns found",
            )  # fmt: skip
        if name == CHANGE and sign.is_table(rows):
            raise DeclarationError(
                "HR-032", f"`{operator}` cannot {use} `{name}`: it says what becomes of a row, and is no part of it.",
                where=calling().at(option), found=", ".join(names), fix="name other columns of the table",
            )  # fmt: skip
        if not is_key(fields[name].dataType):
            raise DeclarationError(
                "HR-032", f"`{operator}` cannot {use} `{name}`.", where=calling().at(option),
                found=f"{name} {fields[name].dataType.simpleString()}",
                fix="use columns of exact, plain types: a whole number, or a string compared byte by byte",
            )  # fmt: skip
        if names.count(name) > 1:
            raise DeclarationError(
                "HR-032", f"`{operator}` names `{name}` twice.", where=calling().at(option), found=", ".join(names),
                fix="name it once",
            )  # fmt: skip
    return names


def _named(by: object, operator: str, option: str, *, empty: bool) -> list[str]:
    """The names in an option: one, or a list of them."""
    names = [by] if isinstance(by, str) else by
    if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names) and (names or empty):
        return [*names]
    raise DeclarationError(
        "HR-032", f"`{option}` of `{operator}` is not the name of a column, or a list of names.",
        where=calling().at(option), found=f"{option}={by!r}",
        fix=f'write `{option}="card"`, or `{option}=["card", "shop"]`'
        + (f"; `{option}=[]` is one group of all rows" if empty else ""),
    )  # fmt: skip


def is_key(found: DataType) -> bool:
    """Whether values of the type are equal where their bytes are."""
    return is_bytewise(found) and not isinstance(found, _NO_KEYS)


def is_bytewise(found: DataType) -> bool:
    """Whether values are compared byte by byte; texts with another collation are not."""
    return not isinstance(found, StringType) or found.isUTF8BinaryCollation()
