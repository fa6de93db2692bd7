"""Columns as SQL writes them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


def ddl(fields: Sequence[tuple[str, DataType]]) -> str:
    """Columns as Spark's DDL."""
    return ", ".join(f"{quoted(name)} {_type(data_type)}" for name, data_type in fields)


def cast(name: str, wanted: str) -> str:
    """How a column becomes a `wanted`, as a user writes it in Python."""
    return f'.withColumn("{name}", F.col("{plain(name)}").cast("{wanted}"))'


def plain(name: str) -> str:
    """A name as `F.col` takes it: in quotes where it is not a plain word."""
    return name if name.isidentifier() else quoted(name)


def _type(data_type: DataType) -> str:
    """A type as DDL: Spark's own words do not quote the names inside a struct."""
    match data_type:
        case StructType():
            return f"struct<{', '.join(f'{quoted(one.name)}: {_type(one.dataType)}' for one in data_type.fields)}>"
        case ArrayType():
            return f"array<{_type(data_type.elementType)}>"
        case MapType():
            return f"map<{_type(data_type.keyType)}, {_type(data_type.valueType)}>"
        case _:
            return data_type.simpleString()
