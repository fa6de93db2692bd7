"""The sign of a row, in the column `change`: it tells a table of changes from a stream, whose rows have none."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.names import CHANGE


def is_table(rows: DataFrame) -> bool:
    """Whether the rows are changes of a table."""
    return is_signed(rows.schema)


def is_signed(schema: StructType) -> bool:
    """The same, by the columns."""
    return any(field.name == CHANGE and isinstance(field.dataType, StringType) for field in schema.fields)


def columns(rows: DataFrame) -> list[str]:
    """The columns without the sign."""
    return [name for name in rows.columns if name != CHANGE] if is_table(rows) else list(rows.columns)


def refuse_table(rows: DataFrame, operator: str) -> None:
    """What reckons with each row that comes would count one that is taken back as another that came."""
    if is_table(rows):
        raise DeclarationError(
            "HR-047",
            f"`{operator}` takes a stream, whose rows stay, and its input is a table of changes.",
            where=calling().where,
            found=", ".join(rows.columns),
            fix="use `hr.aggregate`, `hr.top` or `hr.join`, which take back what goes; or let what comes before give"
            ' only what is final: `emit="final"` without `lateness`, and no `correct=True`',
        )


def refuse_other(rows: DataFrame, operator: str) -> None:
    """A column that has the name of the sign, and is none, would be lost beside it."""
    for name in rows.columns:
        if name.lower() == CHANGE and not is_table(rows):
            raise DeclarationError(
                "HR-036",
                f"The input of `{operator}` has a column `{name}`, which is the name of the sign of a row.",
                where=calling().where,
                found=f"{name} {rows.schema[name].dataType.simpleString()}",
                fix=f'rename the column first, for instance with `withColumnRenamed("{name}", "…")`',
            )
