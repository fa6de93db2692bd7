"""What is captured: tables and outboxes, as the app declares them and as the database has them.

The key of a topic must name one row. So the declared key is the primary key, or the columns of a unique index none of
which can be null; and what the database writes about a changed row (its replica identity) must hold those columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from headrace import names
from headrace.capture.database import translated
from headrace.errors import CaptureError, Location
from headrace.log.schema import Field

_CLASS = """
SELECT c.oid, c.relkind::text, c.relreplident::text, c.relpersistence::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""
_COLUMNS = """
SELECT attname::text, atttypid, atttypmod, attndims, attnotnull, atthasdef OR atthasmissing OR attidentity <> ''
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
_PARTITIONS = """
WITH RECURSIVE tree AS (
    SELECT inhrelid, xmin::text::bigint AS since FROM pg_inherits WHERE inhparent = %s
    UNION ALL SELECT i.inhrelid, i.xmin::text::bigint FROM pg_inherits i JOIN tree t ON i.inhparent = t.inhrelid)
SELECT inhrelid, since FROM tree ORDER BY inhrelid
"""
_FILLED = """
SELECT c.oid, has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(c.relnamespace, 'USAGE')
FROM pg_class c WHERE c.oid = ANY(%s::oid[]) AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0 ORDER BY c.oid
"""
_INDICES = """
SELECT x.relname::text, i.indisprimary, i.indisreplident, ARRAY(
    SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
    WHERE k.place <= i.indnkeyatts ORDER BY k.place)
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
WHERE i.indrelid = %s AND i.indisunique AND i.indimmediate AND i.indisvalid
    AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indisprimary DESC, x.relname
"""


@dataclass(frozen=True)
class Captured:
    """A table as declared. `columns` are those that the app declares; an outbox has `streams` instead of a key: the
    topic of each aggregate."""

    name: str
    table: str
    topic: str
    key: tuple[str, ...]
    partitions: int
    columns: tuple[Field, ...] = ()
    streams: Mapping[str, str] = field(default_factory=dict, hash=False)
    where: Location | None = None

    @property
    def is_outbox(self) -> bool:
        return bool(self.streams)

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that its rows go to."""
        return frozenset((self.topic, *self.streams.values(), names.dead_topic(self.topic)))

    @property
    def schema(self) -> str:
        return self.table.partition(".")[0]

    @property
    def relation(self) -> str:
        return self.table.partition(".")[2]

    @property
    def identifier(self) -> sql.Identifier:
        """Its name, quoted for SQL."""
        return sql.Identifier(self.schema, self.relation)

    @property
    def quoted(self) -> str:
        """Its name for SQL that a person runs."""
        return f'"{self.schema}"."{self.relation}"' if self.table != self.table.lower() else self.table


@dataclass(frozen=True)
class Column:
    """A column as the database has it; `filled`: rows that were there before it may have a value in it."""

    name: str
    type: int
    modifier: int
    dimensions: int
    required: bool
    filled: bool


@dataclass(frozen=True)
class Index:
    """A unique index; `identifies` says whether it was made the replica identity."""

    name: str
    primary: bool
    identifies: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """A table as the database has it; `identity` is d(efault), i(ndex), f(ull) or n(othing).

    `partitions` are the numbers of its partitions, at every level, each with the transaction that made it one, or that
    began to detach it: one that was detached and attached again is another one.
    """

    number: int
    kind: str
    identity: str
    persistence: str
    columns: tuple[Column, ...]
    indices: tuple[Index, ...]
    partitions: tuple[tuple[int, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def identified(self) -> frozenset[str]:
        """The columns that the log holds of a row which was changed or deleted."""
        if self.identity == "f":
            return frozenset(self.names)
        wanted = {"d": lambda index: index.primary, "i": lambda index: index.identifies}.get(self.identity)
        found = next((index for index in self.indices if wanted is not None and wanted(index)), None)
        return frozenset(found.columns) if found else frozenset()


def find(connection: psycopg.Connection[tuple[Any, ...]], captured: Captured) -> Found:
    """The table in the database; CaptureError HR-604 when it is not there or cannot be captured."""
    with translated(f"looking at {captured.table}"):
        found = connection.execute(_CLASS, (captured.schema, captured.relation)).fetchone()
        if found is None:
            near = connection.execute(
                "SELECT format('%%s.%%s', schemaname, tablename) FROM pg_tables"
                " WHERE tablename ILIKE %s OR schemaname = %s ORDER BY 1 LIMIT 10",
                (captured.relation, captured.schema),
            ).fetchall()
            raise CaptureError(
                "HR-604",
                f"The database has no table `{captured.table}`.",
                where=captured.where,
                found=", ".join(name for (name,) in near) or f"no table in the schema `{captured.schema}`",
                fix="create it, or correct the name: it is spelt as PostgreSQL keeps it, which is in small letters"
                " unless it was created in quotes",
            )
        number, kind, identity, persistence = found
        if kind not in ("r", "p") or persistence != "p":
            what = {"v": "a view", "m": "a materialized view", "f": "a foreign table"}.get(kind, "no ordinary table")
            raise CaptureError(
                "HR-604",
                f"`{captured.table}` cannot be captured: PostgreSQL publishes ordinary tables only.",
                where=captured.where,
                found=what if kind not in ("r", "p") else "an unlogged or temporary table",
                fix="capture the tables that it is made of, and declare a view over them; an unlogged table becomes an"
                f" ordinary one with `ALTER TABLE {captured.quoted} SET LOGGED`",
            )
        columns = tuple(Column(*row) for row in connection.execute(_COLUMNS, (number,)).fetchall())
        indices = tuple(
            Index(row[0], row[1], row[2], tuple(row[3])) for row in connection.execute(_INDICES, (number,)).fetchall()
        )
        parts = connection.execute(_PARTITIONS, (number,)).fetchall() if kind == "p" else ()
    return Found(number, kind, identity, persistence, columns, indices, tuple((one, since) for one, since in parts))


def filled(connection: psycopg.Connection[tuple[Any, ...]], partitions: Iterable[int]) -> dict[int, bool]:
    """Those of the partitions that may hold rows themselves, and whether the role may read them by their own names."""
    with translated("looking at partitions"):
        return dict(connection.execute(_FILLED, (list(partitions),)).fetchall())


def partition(connection: psycopg.Connection[tuple[Any, ...]], number: int) -> sql.Identifier | None:
    """The name of a partition for SQL; None when it is gone."""
    with translated("looking at a partition"):
        found = connection.execute(
            "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = %s",
            (number,),
        ).fetchone()
    return None if found is None else sql.Identifier(*found)


def key(captured: Captured, found: Found) -> tuple[str, ...]:
    """The key of the table's topic; CaptureError when it would not name one row, or changes would not hold it."""
    required = {column.name for column in found.columns if column.required}
    unique = [index for index in found.indices if set(index.columns) <= required]
    if not unique:
        first = captured.key or found.names[:1]
        raise CaptureError(
            "HR-605",
            f"`{captured.table}` has no primary key, so nothing says which row a change replaces.",
            where=captured.where,
            found="no primary key, and no unique index of columns that cannot be null",
            fix=f"`ALTER TABLE {captured.quoted} ADD PRIMARY KEY ({', '.join(first)});`",
        )
    wanted = captured.key or unique[0].columns
    index = next((index for index in unique if set(index.columns) == set(wanted)), None)
    if index is None:
        raise CaptureError(
            "HR-606",
            f"The declared key of `{captured.name}` does not make a row of `{captured.table}` unique.",
            where=captured.where,
            found=f"key {', '.join(wanted)}; unique are {_listed(index.columns for index in unique)}",
            fix=f"declare `key={_python(unique[0].columns)}`",
        )
    if not set(index.columns) <= found.identified:
        raise CaptureError(
            "HR-605",
            f"What PostgreSQL logs of a changed row of `{captured.table}` does not hold its key.",
            where=captured.where,
            found=f"replica identity {_IDENTITIES[found.identity]}, key {', '.join(index.columns)}",
            fix=f"`ALTER TABLE {captured.quoted} REPLICA IDENTITY DEFAULT;`"
            if index.primary
            else f"`ALTER TABLE {captured.quoted} REPLICA IDENTITY USING INDEX {index.name};`",
        )
    return index.columns


_IDENTITIES = {"d": "DEFAULT", "i": "USING INDEX", "f": "FULL", "n": "NOTHING"}


def _listed(keys: Iterable[Sequence[str]]) -> str:
    return " and ".join(f"({', '.join(columns)})" for columns in keys)


def _python(columns: Sequence[str]) -> str:
    return f'"{columns[0]}"' if len(columns) == 1 else "[" + ", ".join(f'"{name}"' for name in columns) + "]"


def missed(name: str, why: str) -> CaptureError:
    """What is to be said of a table of which changes may be missing."""
    return CaptureError(
        "HR-612",
        f"The table `{name}` {why}, so changes of it may be missing.",
        found=why,
        fix=f"read it again: `headrace capture app.py --snapshot-again {name}`",
    )
