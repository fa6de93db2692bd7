"""Which tables the server publishes: one publication an app, named like its slot.

Capture makes it and adds tables to it, if the role may; where somebody else looks after it, the error shows the SQL. A
partitioned table is published as itself and not as its partitions.

A change that was made before its table was published is not in the stream, even when its transaction commits later. So
when a table was added, `settled` tells when every transaction has ended that might have made one: only then is the
table read, and nothing falls between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from headrace.capture.database import text_of, translated
from headrace.capture.table import Captured
from headrace.errors import CaptureError

Connection = psycopg.Connection[tuple[Any, ...]]

_THERE = """
SELECT p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.pubviaroot
FROM pg_publication p WHERE p.pubname = %s
"""
_TABLES = "SELECT schemaname || '.' || tablename, rowfilter FROM pg_publication_tables WHERE pubname = %s"
_TABLES_BEFORE_15 = "SELECT schemaname || '.' || tablename, NULL FROM pg_publication_tables WHERE pubname = %s"


def ensure(connection: Connection, name: str, tables: Sequence[Captured]) -> None:
    """Publish the tables."""
    with translated("looking at the publication"):
        there = connection.execute(_THERE, (name,)).fetchone()
    if there is None:
        of = sql.SQL("FOR TABLE {}").format(sql.SQL(", ").join(table.identifier for table in tables))
        _change(
            connection,
            sql.SQL("CREATE PUBLICATION {} {} WITH (publish_via_partition_root = true)").format(
                sql.Identifier(name), of if tables else sql.SQL("")
            ),
            f"the publication `{name}` cannot be made",
        )
        return
    _, complete, by_root = there
    if not (complete and by_root):
        raise _unfit(
            name,
            "it does not publish every change, and partitioned tables as themselves",
            f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate', "
            "publish_via_partition_root = true);",
        )
    filtered = published(connection, name)
    if any(filtered.get(table.table) for table in tables):
        found = next(table.table for table in tables if filtered.get(table.table))
        raise _unfit(name, f"it leaves out rows of `{found}`", f"ALTER PUBLICATION {name} SET TABLE {found};")
    missing = [table for table in tables if table.table not in filtered]
    if missing:
        _change(
            connection,
            sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(
                sql.Identifier(name), sql.SQL(", ").join(table.identifier for table in missing)
            ),
            f"tables cannot be added to the publication `{name}`",
        )


def published(connection: Connection, name: str) -> dict[str, str | None]:
    """The tables of a publication, each with the condition that its rows must meet."""
    asked = _TABLES if connection.info.server_version >= 150000 else _TABLES_BEFORE_15
    with translated("looking at the publication"):
        return dict(connection.execute(asked, (name,)).fetchall())


def remove(connection: Connection, name: str, tables: Sequence[str]) -> None:
    """Publish these tables no more."""
    for table in tables:
        identifier = sql.Identifier(*table.split(".", 1))
        _change(
            connection,
            sql.SQL("ALTER PUBLICATION {} DROP TABLE {}").format(sql.Identifier(name), identifier),
            f"`{table}` cannot be taken out of the publication `{name}`",
        )


def horizon(connection: Connection) -> int:
    """The first transaction that has not begun."""
    with translated("asking for transactions"):
        row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
    return int(row[0]) if row else 0


def settled(connection: Connection, before: int) -> bool:
    """Whether every transaction that had begun at a horizon has ended."""
    with translated("asking for transactions"):
        row = connection.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
    return row is not None and int(row[0]) >= before


def _change(connection: Connection, statement: sql.Composed, what: str) -> None:
    with translated(what):
        try:
            connection.execute(statement)
        except psycopg.errors.DuplicateObject:
            return  # somebody else was faster
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction) as error:
            raise CaptureError(
                "HR-603",
                f"The role may not change what is published: {what}.",
                found=text_of(error),
                fix=f"let the owner of the tables run: `{statement.as_string(connection)};`",
            ) from None


def _unfit(name: str, why: str, statement: str) -> CaptureError:
    return CaptureError(
        "HR-619",
        f"The publication `{name}` cannot be used: {why}.",
        found=why,
        fix=f"let its owner run: `{statement}`",
    )
