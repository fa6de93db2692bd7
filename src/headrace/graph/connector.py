"""Where a table comes from when it is not simply a topic.

A connector is a definition: nothing is opened when it is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.graph.mistakes import report

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}\.[A-Za-z_][A-Za-z0-9_$]{0,62}")


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL table, captured from the write-ahead log; `table` is `schema.table` as PostgreSQL spells it."""

    table: str


Connector = Postgres


def postgres(table: str) -> Postgres:
    """`app.table("cards", hr.postgres("public.cards"), key="card")`."""
    if not isinstance(table, str) or not _TABLE.fullmatch(table):
        guess = f"public.{table}" if isinstance(table, str) else ""
        report(
            DeclarationError(
                "HR-012",
                "`hr.postgres` needs the schema and the table, with a dot between them.",
                where=calling().where,
                found=f"hr.postgres({_quoted(table) if isinstance(table, str) else repr(table)})",
                fix=f"write `hr.postgres({_quoted(guess if _TABLE.fullmatch(guess) else 'public.cards')})`",
            )
        )
    return Postgres(table)


def _quoted(text: str) -> str:
    return f'"{text}"'
