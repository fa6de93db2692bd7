"""The columns of a captured table: those that the database has, and whether those that an app declares can be read.

What the records hold follows from the types in the database (value.py). A column that is declared and not there would
be null in every row, and one of another type would make a dead letter of every record, so both are errors.
"""

from __future__ import annotations

from headrace.capture import table
from headrace.capture.database import connect
from headrace.capture.kinds import Kinds
from headrace.capture.table import Captured, Found
from headrace.capture.value import FLOAT, WHOLE
from headrace.errors import CaptureError
from headrace.log.schema import Field, Schema

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_READABLE = {
    WHOLE: _NUMBERS,
    FLOAT: ("float", "double", "decimal"),
    "boolean": ("boolean",),
    "decimal": ("decimal", "string"),
    "binary": ("binary", "string"),
    "date": ("date", "string"),
    "timestamp": ("timestamp_ntz", "string"),
    "timestamp with time zone": ("timestamp", "string"),
}
"""The types that can be declared for what is written in a form; everything else is text."""
_OF_TEXT = ("string", "binary", "decimal", "date", "timestamp", "timestamp_ntz")


def ask(url: str, captured: Captured) -> Schema:
    """The columns of a table as the database has them, the key NOT NULL; CaptureError, or Away."""
    connection = connect(url, "columns")
    with connection:
        found = table.find(connection, captured)
        key = table.key(captured, found)
        return schema(found, Kinds(connection)).require(*key)


def schema(found: Found, kinds: Kinds) -> Schema:
    """The columns of a table, of types that hold all their values."""
    return Schema(
        tuple(
            Field(column.name, kinds.type_of(column.type, column.modifier, column.dimensions))
            for column in found.columns
        )
    )


def check(captured: Captured, found: Found, kinds: Kinds) -> None:
    """CaptureError HR-622 when the app declares columns that the records cannot give."""
    there = {column.name: column for column in found.columns}
    is_ = schema(found, kinds)
    wrong: list[str] = []
    right: list[str] = []
    for field in captured.columns:
        column, fits = there.get(field.name), is_.field(field.name)
        if column is None or fits is None:
            wrong.append(f"`{field.name}` is not there")
        elif not _readable(kinds.of(column.type).form, field.type):
            wrong.append(f"`{field.name}` is declared {field.type}")
            right.append(f"{field.name} {fits.type}")
    if wrong:
        raise CaptureError(
            "HR-622",
            f"The records of `{captured.table}` cannot give the columns that `{captured.name}` declares.",
            where=captured.where,
            found=f"{', '.join(wrong)}; the table has {is_.ddl}",
            fix=(f"declare `{', '.join(right)}`" if right else "leave out what is not there")
            + "; or leave the whole schema to the database",
        )


def _readable(form: str, declared: str) -> bool:
    head, _, rest = declared.partition("<")
    if form.startswith("array of "):
        return head == "array" and _readable(form if rest.startswith("array<") else form[9:], rest.removesuffix(">"))
    return head.partition("(")[0] in _READABLE.get(form, _OF_TEXT)
