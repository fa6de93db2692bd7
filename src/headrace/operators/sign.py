"""The sign of a row, in the column `change`: it tells a table of changes from a stream, whose rows have none."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType

from headrace.call import calling
from headrace.errors import DeclarationError, Location
from headrace.kernel import bridge
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


def refuse_lost(rows: DataFrame, what: str, where: Location) -> None:
    """Without its sign a row that goes would be taken for one that comes."""
    if bridge.sign_lost(rows):
        raise DeclarationError(
            "HR-059",
            f"{what} is made of the rows of a table, and their `{CHANGE}`, which says whether a row comes or goes, was"
            " left out.",
            where=where,
            found=", ".join(rows.columns),
            fix=f'name it in the select, such as `.select("…", "{CHANGE}")`; to take only what was put, as a stream'
            f" that never hears of what goes, say so: `.where(\"{CHANGE} = '+'\")`",
        )


def refuse_moving(rows: DataFrame, what: str, where: Location) -> None:
    """What a row that goes takes back must be what it brought when it came."""
    found = bridge.moving(rows) if is_table(rows) else None
    if found is not None:
        raise DeclarationError(
            "HR-060",
            f"{what} computes something of a table's rows that is not the same when a row goes as when it came, so it"
            " could not be taken back.",
            where=where,
            found=found,
            fix="use columns of the row instead of the clock or chance; or do it in a view behind the last operator",
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
