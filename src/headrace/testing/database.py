"""A database with the tables that an app captures, and transactions that change them.

The tables are made from the declared schemas, in a database of their own. A transaction puts or deletes a few rows of
some of them. When the server is away it is waited for: whether the last transaction was committed then, the tables
themselves say at the end.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headrace.errors import RunError
from headrace.graph.connector import Postgres
from headrace.graph.node import Source
from headrace.testing.change import Delete
from headrace.testing.sample import Rows, text_column

NAME = "certify"
ROWS_AT_MOST = 3
AWAY_S = 0.5
_TYPES = {
    "string": sql.SQL("text"),
    "boolean": sql.SQL("boolean"),
    "tinyint": sql.SQL("smallint"),
    "smallint": sql.SQL("smallint"),
    "int": sql.SQL("integer"),
    "bigint": sql.SQL("bigint"),
    "float": sql.SQL("real"),
    "double": sql.SQL("double precision"),
    "binary": sql.SQL("bytea"),
    "date": sql.SQL("date"),
    "timestamp": sql.SQL("timestamp with time zone"),
    "timestamp_ntz": sql.SQL("timestamp without time zone"),
}


class Database(threading.Thread):
    """Made on a server; writes from `start` until `stop`. `keys` are columns that are keys somewhere."""

    def __init__(self, server: str, tables: Sequence[Source], *, seed: int, rate: float, keys: Collection[str]) -> None:
        super().__init__(daemon=True, name="headrace-certify-database")
        self._columns = {one.name: _columns(one) for one in tables}
        self._tables = {one.name: one for one in tables}
        self._rows = {one.name: Rows(one, seed=seed) for one in tables}
        self._texts = {one.name: text_column(one, keys) for one in tables}
        self._dice = random.Random(f"{seed} transactions")
        self._pause = 1 / rate
        self._done = threading.Event()
        self._asked: list[str] = []
        self._error: BaseException | None = None
        self.url = make_conninfo(server, dbname=NAME)
        self.total = 0
        self._make(server)

    @property
    def takes_large(self) -> tuple[str, ...]:
        """The tables that a large row can be made for."""
        return tuple(name for name, column in self._texts.items() if column is not None)

    def large(self, table: str) -> None:
        """Let the next row of a table be a large one."""
        self._asked.append(table)

    def run(self) -> None:
        changes = {name: iter(rows) for name, rows in self._rows.items()}
        try:
            while not self._done.is_set():
                try:
                    with psycopg.connect(self.url) as connection:
                        while not self._done.wait(self._pause):
                            self._transaction(connection, changes)
                except psycopg.OperationalError:
                    self._done.wait(AWAY_S)
        except BaseException as error:
            self._error = error

    def stop(self) -> None:
        """Write no more; raises what kept it from writing."""
        self._done.set()
        if self.is_alive():
            self.join()
        if self._error is not None:
            raise self._error

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """What the tables hold, by name."""
        with psycopg.connect(self.url) as connection:
            connection.execute("SET TIME ZONE 'UTC'")
            return {name: self._read(connection, table) for name, table in self._tables.items()}

    def _make(self, server: str) -> None:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
        with psycopg.connect(self.url, autocommit=True) as connection:
            for name, table in self._tables.items():
                place = _place(table)
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(place[0])))
                columns = [
                    sql.SQL("{} {}").format(sql.Identifier(column), kind)
                    for column, kind in self._columns[name].items()
                ]
                key = sql.SQL("PRIMARY KEY ({})").format(sql.SQL(", ").join(map(sql.Identifier, table.key)))
                connection.execute(
                    sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(*place), sql.SQL(", ").join([*columns, key]))
                )

    def _transaction(self, connection: psycopg.Connection[Any], changes: Mapping[str, Any]) -> None:
        with connection.transaction():
            for _ in range(self._dice.randint(1, ROWS_AT_MOST)):
                name = self._dice.choice(list(self._tables))
                column = self._texts[name] if name in self._asked else None
                self._apply(connection, name, self._rows[name].large(column) if column else next(changes[name]))
                if column:
                    self._asked.remove(name)
                self.total += 1

    def _apply(self, connection: psycopg.Connection[Any], name: str, change: Mapping[str, Any] | Delete) -> None:
        table = self._tables[name]
        place = sql.Identifier(*_place(table))
        if isinstance(change, Delete):
            matches = sql.SQL(" AND ").join(
                sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder()) for column in change.key
            )
            connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(place, matches), list(change.key.values()))
            return
        columns = sql.SQL(", ").join(map(sql.Identifier, change))
        updates = [
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(column)) for column in change if column not in table.key
        ]
        conflict = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(updates)) if updates else sql.SQL("NOTHING")
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) DO {}").format(
                place,
                columns,
                sql.SQL(", ").join(sql.Placeholder() * len(change)),
                sql.SQL(", ").join(map(sql.Identifier, table.key)),
                conflict,
            ),
            list(change.values()),
        )

    def _read(self, connection: psycopg.Connection[Any], table: Source) -> list[dict[str, Any]]:
        names = list(self._columns[table.name])
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        found = connection.execute(sql.SQL("SELECT {} FROM {}").format(columns, sql.Identifier(*_place(table))))
        return [dict(zip(names, map(_as_in_log, row), strict=True)) for row in found.fetchall()]


def _place(table: Source) -> tuple[str, str]:
    assert isinstance(table.connector, Postgres)
    schema, _, name = table.connector.table.partition(".")
    return schema, name


def _columns(table: Source) -> dict[str, sql.Composable]:
    """The columns with their types in PostgreSQL; RunError HR-347 where they are not known, or no rows can be made."""
    fields = table.schema.fields if table.schema else ()
    found = {field.name: _type(field.type) for field in fields}
    strange = [f"{field.name} {field.type}" for field in fields if found[field.name] is None]
    if not fields or strange:
        raise RunError(
            "HR-347",
            f"Certify cannot make up rows for the table `{table.name}`, which is captured from a database.",
            where=table.where,
            found="no schema, so that its columns are the database's" if not fields else ", ".join(strange),
            fix='declare its columns, such as schema="id bigint, name string"'
            if not fields
            else "declare these columns as text, or leave them out of the schema",
        )
    return {name: kind for name, kind in found.items() if kind is not None}


def _type(kind: str) -> sql.Composable | None:
    if kind.startswith("array<"):
        inner = None if kind.startswith("array<array<") else _type(kind[6:-1])
        return None if inner is None else sql.SQL("{}[]").format(inner)
    if kind.startswith("decimal("):
        precision, scale = kind[8:-1].split(",")
        return sql.SQL("numeric({}, {})").format(int(precision), int(scale))
    return _TYPES.get(kind)


def _as_in_log(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.isoformat()
    return bytes(value) if isinstance(value, memoryview) else value
