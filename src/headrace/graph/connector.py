"""Where a table or stream comes from when it is not simply a topic.

A connector is a definition: nothing is opened when it is made. `system` is what it reads from, `of` what it reads
there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from headrace import names
from headrace.call import calling
from headrace.errors import DeclarationError
from headrace.graph.mistakes import report

_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}\.[A-Za-z_][A-Za-z0-9_$]{0,62}")


@dataclass(frozen=True)
class _Table:
    """A table of PostgreSQL; `table` is `schema.table` as PostgreSQL spells it."""

    table: str
    system: ClassVar[str] = "PostgreSQL"

    @property
    def of(self) -> str:
        """What it reads there."""
        return self.table


@dataclass(frozen=True)
class Postgres(_Table):
    """A PostgreSQL table, captured from the write-ahead log."""

    def __str__(self) -> str:
        return f"postgres {self.table}"


@dataclass(frozen=True)
class Outbox(_Table):
    """A PostgreSQL table of events that applications write in their own transactions."""

    def __str__(self) -> str:
        return f"the outbox {self.table}"


@dataclass(frozen=True)
class Debezium:
    """A topic that Debezium writes, from whichever database."""

    topic: str
    system: ClassVar[str] = "Debezium"

    @property
    def of(self) -> str:
        """What it reads there."""
        return self.topic

    def __str__(self) -> str:
        return f"debezium {self.topic}"


Connector = Postgres | Outbox | Debezium


def postgres(table: str) -> Postgres:
    """`app.table("cards", hr.postgres("public.cards"), key="card")`."""
    _check("postgres", table, "public.cards")
    return Postgres(table)


def outbox(table: str) -> Outbox:
    """`app.source("orders", hr.outbox("public.outbox"), schema=…)`: the rows whose `aggregatetype` is `orders`."""
    _check("outbox", table, "public.outbox")
    return Outbox(table)


def debezium(topic: str) -> Debezium:
    """`app.table("cards", hr.debezium("shop.public.cards"), key="card", schema=…)`."""
    if not isinstance(topic, str) or not names.is_topic(topic):
        report(
            DeclarationError(
                "HR-012",
                "`hr.debezium` needs the topic that Debezium writes.",
                where=calling().where,
                found=f"hr.debezium({_quoted(topic) if isinstance(topic, str) else repr(topic)})",
                fix=f"write `hr.debezium({_quoted('shop.public.cards')})`; a topic is letters, digits, `.`, `_`, `-`",
            )
        )
        return Debezium("debezium")
    return Debezium(topic)


def _check(which: str, table: object, example: str) -> None:
    if isinstance(table, str) and _TABLE.fullmatch(table):
        return
    guess = f"public.{table}" if isinstance(table, str) else ""
    report(
        DeclarationError(
            "HR-012",
            f"`hr.{which}` needs the schema and the table, with a dot between them.",
            where=calling().where,
            found=f"hr.{which}({_quoted(table) if isinstance(table, str) else repr(table)})",
            fix=f"write `hr.{which}({_quoted(guess if _TABLE.fullmatch(guess) else example)})`",
        )
    )


def _quoted(text: str) -> str:
    return f'"{text}"'
