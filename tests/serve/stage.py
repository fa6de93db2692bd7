"""A view as the rest of Headrace leaves it: a topic, a catalogue entry, and a table with its positions.

The table is kept by `apply`, which does what the contract of the followers says in the plainest way: read the topic
from the positions on, put rows, delete keys, and write the positions, in one transaction.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from headrace.log import catalogue
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.position import Position
from headrace.log.producer import Producer
from headrace.log.schema import Schema
from headrace.log.topic import Topic, ends, ensure

TYPES = {
    "string": "text", "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer",
    "bigint": "bigint", "float": "real", "double": "double precision", "date": "date", "binary": "bytea",
    "timestamp": "timestamptz", "timestamp_ntz": "timestamp",
}  # fmt: skip
POSITIONS = """
CREATE SCHEMA IF NOT EXISTS headrace;
CREATE TABLE IF NOT EXISTS headrace.positions (
    follower text, topic text, partition int, next_offset bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (follower, topic, partition));
"""


class Stage:
    """One view with everything around it."""

    def __init__(
        self,
        connection: Connection,
        postgres_url: str,
        view: View,
        *,
        partitions: int = 3,
        config: Mapping[str, str] | None = None,
        table: bool = True,
    ) -> None:
        self.connection = connection
        self.view = view
        self.url = postgres_url
        self.fields = Schema.parse(view.schema).fields
        ensure(connection, [Topic(view.topic, partitions, compacted=True, config=config or {})])
        catalogue.publish(connection, view)
        self.table = sql.Identifier(view.app, view.view)
        self.producer = Producer(connection, linger_ms=0)
        if table:
            self.make_table()

    def make_table(self) -> None:
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_type(field.type)))  # pyright: ignore[reportArgumentType]
            for field in self.fields
        )
        key = sql.SQL(", ").join(map(sql.Identifier, self.view.key))
        with psycopg.connect(self.url) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('headrace.declarations', 0))")
            connection.execute(POSITIONS)
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.view.app)))
            connection.execute(sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(self.table, columns, key))

    def key(self, row: Mapping[str, Any]) -> str:
        names = self.view.key
        kinds = {field.name: field.type for field in self.fields}
        if len(names) == 1 and kinds[names[0]] == "string":
            return row[names[0]]
        return json.dumps({name: row[name] for name in names}, separators=(",", ":"))

    def put(self, *rows: Mapping[str, Any]) -> list[Position]:
        """Write rows to the topic; nulls are left out, as the engine leaves them out."""
        sent = [
            self.producer.send(
                self.view.topic,
                json.dumps({k: v for k, v in row.items() if v is not None}, separators=(",", ":")),
                key=self.key(row),
            )
            for row in rows
        ]
        return [one.wait() for one in sent]

    def delete(self, *keys: Mapping[str, Any]) -> list[Position]:
        sent = [self.producer.send(self.view.topic, None, key=self.key(key)) for key in keys]
        return [one.wait() for one in sent]

    def apply(self) -> None:
        """Bring the table to the end of the topic."""
        end = ends(self.connection, self.view.topic)  # before the records are read: later ones are not for this time
        with psycopg.connect(self.url) as connection:
            found = connection.execute(
                "SELECT partition, next_offset FROM headrace.positions WHERE follower = %s AND topic = %s",
                (self.follower, self.view.topic),
            ).fetchall()
            starts = dict.fromkeys(end, 0) | dict(found)
            for record in read(self.connection, self.view.topic, start=starts):
                if record.offset < end[record.partition]:
                    self._apply(connection, (record.key or b"").decode(), record.value)
            for partition, offset in end.items():
                connection.execute(
                    "INSERT INTO headrace.positions VALUES (%s, %s, %s, %s, now())"
                    " ON CONFLICT (follower, topic, partition)"
                    " DO UPDATE SET next_offset = EXCLUDED.next_offset, at = now()",
                    (self.follower, self.view.topic, partition, offset),
                )

    @property
    def follower(self) -> str:
        return f"{self.view.app}.{self.view.view}"

    def rows(self) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql.SQL("SELECT * FROM {}").format(self.table)).fetchall()

    def _apply(self, connection: psycopg.Connection[Any], key: str, value: bytes | None) -> None:
        kinds = {field.name: field.type for field in self.fields}
        names: Sequence[str] = self.view.key
        keys = {names[0]: key} if len(names) == 1 and kinds[names[0]] == "string" else json.loads(key)
        same = sql.SQL(" AND ").join(
            sql.SQL("{} = {}::{}").format(sql.Identifier(n), sql.Literal(str(keys[n])), sql.SQL(_type(kinds[n])))  # pyright: ignore[reportArgumentType]
            for n in names
        )
        connection.execute(sql.SQL("DELETE FROM {} WHERE {}").format(self.table, same))
        if value is not None:
            row = json.loads(value)
            given = [_value(kinds[field.name], row.get(field.name)) for field in self.fields]
            places = sql.SQL(", ").join(sql.Placeholder() * len(given))
            connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(self.table, places), given)


def _type(kind: str) -> str:
    return f"numeric{kind.removeprefix('decimal')}" if kind.startswith("decimal") else TYPES.get(kind, "jsonb")


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "binary":
        return b64decode(value)
    return value if kind in TYPES or kind.startswith("decimal") else json.dumps(value)


def texts(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows in an order of their own, to compare; 7.0 and 7 are the same number."""
    return sorted(json.dumps(_plain(row), sort_keys=True) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
