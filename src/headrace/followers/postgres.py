"""A view as a PostgreSQL table: "app"."view", with the view's key as its primary key.

One batch is one transaction: rows are copied into a temporary table and from there inserted or updated by key, deleted
keys are deleted, and the positions in `headrace.positions` are moved on if, and only if, they still are where this
follower left them. So whatever is killed, the positions say exactly what the table holds.

    string text · boolean · tinyint, smallint smallint · int integer · bigint · float real · double double precision
    decimal(p,s) numeric(p,s) · timestamp timestamptz · timestamp_ntz timestamp · date · binary bytea
    array, map, struct jsonb

**One follower at a time.** The connection holds an advisory lock; a second follower waits for it, and takes over when
the first one is gone.

**Whose table it is.** `headrace.followers` says from which topic a table was filled. A table that is not in there is
somebody's own: one with rows or other columns is refused, never changed. A table of ours that was dropped is made and
filled again. When the columns of the view have changed, that is an error until somebody asks for a rebuild.

**Versions.** "app"."view" is the table of one version, mostly the current one; that of another version stands beside it
as "app"."view.v2". They exchange their names and positions in one transaction (`exchange`), so that a reader finds the
one or the other, whole. Privileges go along with the name. Views and foreign keys of others would stay with the table:
while there are any, the exchange is refused (HR-414).

**A server that refuses the connection** (a wrong password, no such database) needs a person before the first one was
made (HR-415). Later it is asked again now and then: a password may be about to be changed.

**What PostgreSQL cannot hold** is poison: NUL characters in text, timestamps before 4713 BC, numbers out of range, a
null in the key. NaN and the infinities it holds.
"""

from __future__ import annotations

import re
from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from headrace import refusal
from headrace.errors import FollowError
from headrace.followers import change as changes_of
from headrace.followers.change import Number, Unreadable, last_of_each_key
from headrace.followers.pulse import Pulse
from headrace.followers.store import Kept, Poison, Positions, StoreAway
from headrace.log.catalogue import View
from headrace.log.consumer import Record
from headrace.log.schema import Schema, SchemaError
from headrace.names import FIRST_VERSION, is_version
from headrace.refusal import Refused

BATCH = 10_000
REFUSED_S = 30.0
LONGEST_NAME = 63
SCHEMA = "headrace"
_TYPES = {
    "string": "text", "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer",
    "bigint": "bigint", "float": "real", "double": "double precision", "binary": "bytea", "date": "date",
    "timestamp": "timestamp with time zone", "timestamp_ntz": "timestamp without time zone",
}  # fmt: skip
_OWN = """
CREATE SCHEMA IF NOT EXISTS headrace;
CREATE TABLE IF NOT EXISTS headrace.followers (
    follower text PRIMARY KEY, topic text NOT NULL, topic_id text NOT NULL);
CREATE TABLE IF NOT EXISTS headrace.positions (
    follower text, topic text, partition int, next_offset bigint NOT NULL, at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (follower, topic, partition));
"""
_SESSION = {
    "timezone": "UTC",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "60s",
    # The only joins here are of a small temporary table with the index of a large one.
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_MOVE = """
INSERT INTO headrace.positions AS p (follower, topic, partition, next_offset) VALUES (%s, %s, %s, %s)
ON CONFLICT (follower, topic, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset, at = now()
WHERE p.next_offset = %s
"""
_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
_KEY = """
SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, place), pg_attribute a
WHERE i.indrelid = %s::regclass AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY place
"""
_DEPENDENTS = """
SELECT DISTINCT c.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
JOIN pg_class c ON c.oid = r.ev_class
WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = to_regclass(%(table)s) AND c.oid <> d.refobjid
UNION SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass(%(table)s)
ORDER BY 1
"""
_PRIVILEGES = """
SELECT a.privilege_type, r.rolname, a.is_grantable FROM pg_class c, aclexplode(c.relacl) a
LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE c.oid = %s::regclass AND a.grantee <> c.relowner
"""
_NULL = "\\N"
_SPECIAL = {"NaN", "Infinity", "-Infinity"}
_ESCAPED = re.compile(r"[\\\n\r\t]")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DATE = re.compile(r"\+?(\d{4,6}-\d\d-\d\d)", re.ASCII)
_MOMENT = re.compile(r"\+?(\d{4,6}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d))", re.ASCII)
_LOCAL = re.compile(r"\+?(\d{4,6}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)", re.ASCII)


@dataclass(frozen=True)
class Column:
    """A column as PostgreSQL names its type, and how its values are written for COPY."""

    name: str
    type: str
    write: Callable[[Any], str]


class PostgresTable:
    """The store of one view; made without a connection."""

    def __init__(self, url: str, view: View, *, beside: bool = False, batch: int = BATCH) -> None:
        """The table of the view; with `beside`, that of its version while another one has the name of the view."""
        self._name = _beside(view.view, view.version) if beside else view.view
        self.follower = f"{view.app}.{self._name}"
        self.batch = batch
        self.pulse = Pulse()
        self._url = url
        self._view = view
        self._columns = columns(view)
        self._keys = tuple(next(one for one in self._columns if one.name == name) for name in view.key)
        self._text_key = len(self._keys) == 1 and self._keys[0].type == "text"
        self._table = sql.Identifier(view.app, self._name)
        self._connection: psycopg.Connection[Any] | None = None
        self._positions: dict[int, int] = {}
        self._admitted = False

    def open(self, topic_id: str) -> Kept:
        """Make the table if it is not there, and tell the positions; StoreAway while another follower holds it."""
        self.pulse.beat("opening its table")
        connection = self._reach()
        try:
            with self._translated(), connection.transaction():
                kept = self._prepare(connection, topic_id)
            with self._translated():
                self._make_temporary(connection)
        except Poison as refused:
            # Somebody else made the same schema or table at the same moment.
            raise StoreAway(refused.reason) from refused
        self._positions = dict(kept.positions)
        return kept

    def apply(self, changes: Sequence[Record], positions: Positions) -> None:
        """Apply the changes and move the positions in one transaction."""
        self.pulse.beat("writing to its table")
        connection = self._connection
        if connection is None:
            raise StoreAway("the connection is closed")
        upserts, deletions = self._lines(last_of_each_key(changes))
        with self._translated(), connection.transaction(), connection.cursor() as cursor:
            if upserts:
                with cursor.copy(self._copy_rows) as copy:
                    copy.write(b"".join(upserts))
                cursor.execute(self._upsert)
            if deletions:
                with cursor.copy(self._copy_keys) as copy:
                    copy.write(b"".join(deletions))
                cursor.execute(self._delete)
            self._move(cursor, positions)
        self._positions |= positions

    def clear(self) -> None:
        """Empty the table, or drop it when its columns are not the view's any more, and forget the positions."""
        connection = self._reach()
        with self._translated(), connection.transaction(), connection.cursor() as cursor:
            self._lock_declarations(cursor)
            cursor.execute(cast(LiteralString, _OWN))
            if self._exists(cursor):
                if not self._is_ours(cursor):
                    raise self._foreign("it was not filled by this follower")
                fits = self._difference(cursor) is None
                cursor.execute(sql.SQL("TRUNCATE {}" if fits else "DROP TABLE {}").format(self._table))
            self._forget(cursor)

    def other_version(self) -> str | None:
        """Which other version of the view the table holds; None when it holds this one, or is not there."""
        connection = self._reach()
        with self._translated(), connection.transaction(), connection.cursor() as cursor:
            self._lock_declarations(cursor)
            cursor.execute(cast(LiteralString, _OWN))
            ours = self._is_ours(cursor) if self._exists(cursor) else None
        return None if ours is None or ours[0] == self._view.topic else version_of(self._view, ours[0])

    def exchange(self, other: str) -> None:
        """Give the name of the view to the table of this version, which is filled, and take it from the other one."""
        connection = self._reach()
        with self._translated():
            check_dependents(connection, self._view)
        now, then = _beside(self._name, self._view.version), _beside(self._name, other)
        try:
            with self._translated(), connection.transaction(), connection.cursor() as cursor:
                # Who waits for the table makes all later readers wait: rather come again.
                cursor.execute("SET LOCAL lock_timeout = '1s'")
                self._lock_declarations(cursor)
                tables = (self._table, sql.Identifier(self._view.app, now))
                cursor.execute(sql.SQL("LOCK TABLE {}, {} IN ACCESS EXCLUSIVE MODE").format(*tables))
                self._copy_privileges(cursor, *tables)
                rename = sql.SQL("ALTER TABLE {} RENAME TO {}")
                for table, name in zip(tables, (then, self._name), strict=True):
                    cursor.execute(rename.format(table, sql.Identifier(name)))
                for table in ("positions", "followers"):
                    move = sql.SQL("UPDATE {} SET follower = %s WHERE follower = %s")
                    for before, after in ((self._name, then), (now, self._name)):
                        ids = (f"{self._view.app}.{after}", f"{self._view.app}.{before}")
                        cursor.execute(move.format(sql.Identifier(SCHEMA, table)), ids)
        except StoreAway as away:
            if isinstance(away.__cause__, psycopg.errors.LockNotAvailable):
                raise StoreAway("readers hold the table of the view; it is exchanged when they let go") from away
            raise

    def _copy_privileges(self, cursor: psycopg.Cursor[Any], old: sql.Identifier, new: sql.Identifier) -> None:
        cursor.execute(cast(LiteralString, _PRIVILEGES), (old.as_string(cursor),))
        for privilege, role, grantable in cursor.fetchall():
            to = sql.SQL("PUBLIC") if role is None else sql.Identifier(role)
            more = sql.SQL(" WITH GRANT OPTION" if grantable else "")
            grant = sql.SQL("GRANT {} ON {} TO {}{}")
            cursor.execute(grant.format(sql.SQL(cast(LiteralString, privilege)), new, to, more))

    def drop(self) -> None:
        """Take the table away, if it is this follower's, and forget the positions."""
        connection = self._reach()
        with self._translated(), connection.transaction(), connection.cursor() as cursor:
            self._lock_declarations(cursor)
            cursor.execute(cast(LiteralString, _OWN))
            if self._is_ours(cursor):
                cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._table))
            self._forget(cursor)

    def close(self) -> None:
        """End the connection, which lets the next follower in."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _forget(self, cursor: psycopg.Cursor[Any]) -> None:
        for table in ("positions", "followers"):
            forget = sql.SQL("DELETE FROM {} WHERE follower = %s").format(sql.Identifier(SCHEMA, table))
            cursor.execute(forget, (self.follower,))

    # Opening

    def _reach(self) -> psycopg.Connection[Any]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        with self._translated():
            self._connection = self._connected()
            self._admitted = True
            for name, value in _SESSION.items():
                self._connection.execute("SELECT set_config(%s, %s, false)", (name, value))
            lock = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
            held = self._connection.execute(lock, (f"headrace.{self.follower}",)).fetchone()
        if held != (True,):
            self.close()
            raise StoreAway("another follower holds the table; this one takes over when that one ends")
        return self._connection

    def _connected(self) -> psycopg.Connection[Any]:
        given = make_conninfo(
            self._url,
            connect_timeout=5,
            application_name=f"headrace {self.follower}"[:LONGEST_NAME],
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
        )
        try:
            return refusal.admitted(given, lambda: psycopg.connect(given, autocommit=True))
        except Refused as refused:
            if self._admitted:
                raise StoreAway(f"PostgreSQL refuses the connection: {refused}", retry_after=REFUSED_S) from None
            raise FollowError(
                "HR-415",
                f"PostgreSQL does not let `{self.follower}` in: {refused}",
                found=refusal.place(self._url),
                fix="correct the user, the password or the database in `postgres` (HEADRACE_POSTGRES), or let the"
                " server take the connection (pg_hba.conf); then start again",
            ) from None

    def _prepare(self, connection: psycopg.Connection[Any], topic_id: str) -> Kept:
        with connection.cursor() as cursor:
            self._lock_declarations(cursor)
            cursor.execute(cast(LiteralString, _OWN))
            exists = self._exists(cursor)
            ours = self._is_ours(cursor)
            if exists and ours is None and self._has_rows(cursor):
                raise self._foreign("it holds rows")
            if exists:
                difference = self._difference(cursor)
                if difference is not None and ours is None:
                    raise self._foreign(difference)
                if difference is not None:
                    raise self._outdated(difference)
            if not exists:
                cursor.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self._view.app)))
                cursor.execute(self._create)
                cursor.execute("DELETE FROM headrace.positions WHERE follower = %s", (self.follower,))
            if ours is None or not exists:
                cursor.execute(
                    "INSERT INTO headrace.followers VALUES (%s, %s, %s) ON CONFLICT (follower)"
                    " DO UPDATE SET topic = EXCLUDED.topic, topic_id = EXCLUDED.topic_id",
                    (self.follower, self._view.topic, topic_id),
                )
                return Kept({}, topic_id)
            if ours[0] != self._view.topic:
                raise self._outdated(f"it was filled from the topic `{ours[0]}`, and the view is `{self._view.topic}`")
            cursor.execute(
                "SELECT partition, next_offset, extract(epoch FROM now() - at)::float FROM headrace.positions"
                " WHERE follower = %s AND topic = %s",
                (self.follower, self._view.topic),
            )
            found = cursor.fetchall()
            if not found and self._has_rows(cursor):
                cursor.execute(sql.SQL("TRUNCATE {}").format(self._table))
            return Kept({i: at for i, at, _ in found}, ours[1], min((age for _, _, age in found), default=0.0))

    def _make_temporary(self, connection: psycopg.Connection[Any]) -> None:
        like = "CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}) ON COMMIT DELETE ROWS"
        for name, held in (("headrace_rows", self._columns), ("headrace_keys", self._keys)):
            typed = sql.SQL(", ").join(_declared(column) for column in held)
            connection.execute(sql.SQL(like).format(sql.Identifier("pg_temp", name), typed))

    @staticmethod
    def _lock_declarations(cursor: psycopg.Cursor[Any]) -> None:
        """Followers that begin at once make schemas and tables one after the other."""
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('headrace.declarations', 0))")

    def _exists(self, cursor: psycopg.Cursor[Any]) -> bool:
        cursor.execute(
            "SELECT 1 FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s",
            (self._view.app, self._name),
        )
        return cursor.fetchone() is not None

    def _is_ours(self, cursor: psycopg.Cursor[Any]) -> tuple[str, str] | None:
        cursor.execute("SELECT topic, topic_id FROM headrace.followers WHERE follower = %s", (self.follower,))
        return cursor.fetchone()

    def _has_rows(self, cursor: psycopg.Cursor[Any]) -> bool:
        cursor.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self._table))
        return cursor.fetchone() is not None

    def _difference(self, cursor: psycopg.Cursor[Any]) -> str | None:
        """In what the table is not the view's; None when it is."""
        name = self._table.as_string(cursor)
        cursor.execute(cast(LiteralString, _COLUMNS), (name,))
        there = dict(cursor.fetchall())
        wanted = {column.name: column.type for column in self._columns}
        told = [f"`{n}` is missing" for n in wanted if n not in there]
        told += [f"`{n}` is not a column of the view" for n in there if n not in wanted]
        told += [f"`{n}` is {there[n]}, not {wanted[n]}" for n in wanted if n in there and there[n] != wanted[n]]
        cursor.execute(cast(LiteralString, _KEY), (name,))
        key = [found for (found,) in cursor.fetchall()]
        if not told and sorted(key) != sorted(self._view.key):
            told.append(f"the primary key is ({', '.join(key)}), not ({', '.join(self._view.key)})")
        return "; ".join(told) or None

    # Statements

    @property
    def _create(self) -> sql.Composed:
        typed = sql.SQL(", ").join(_declared(column) for column in self._columns)
        return sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(self._table, typed, _names(self._keys))

    @property
    def _copy_rows(self) -> sql.Composed:
        return sql.SQL("COPY pg_temp.headrace_rows ({}) FROM STDIN").format(_names(self._columns))

    @property
    def _copy_keys(self) -> sql.Composed:
        return sql.SQL("COPY pg_temp.headrace_keys ({}) FROM STDIN").format(_names(self._keys))

    @property
    def _upsert(self) -> sql.Composed:
        others = [column.name for column in self._columns if column not in self._keys]
        update = sql.SQL(", ").join(sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in others)
        return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM pg_temp.headrace_rows ON CONFLICT ({}) {}").format(
            self._table,
            _names(self._columns),
            _names(self._columns),
            _names(self._keys),
            sql.SQL("DO UPDATE SET {}").format(update) if others else sql.SQL("DO NOTHING"),
        )

    @property
    def _delete(self) -> sql.Composed:
        same = sql.SQL(" AND ").join(
            sql.SQL("t.{0} = k.{0}").format(sql.Identifier(column.name)) for column in self._keys
        )
        return sql.SQL("DELETE FROM {} t USING pg_temp.headrace_keys k WHERE {}").format(self._table, same)

    def _move(self, cursor: psycopg.Cursor[Any], positions: Positions) -> None:
        for partition, offset in sorted(positions.items()):
            before = self._positions.get(partition)
            cursor.execute(_MOVE, (self.follower, self._view.topic, partition, offset, before))
            if cursor.rowcount != 1:
                raise FollowError(
                    "HR-406",
                    f"The positions of `{self.follower}` were moved by somebody else; nothing was applied over them.",
                    found=f"partition {partition} is not at {before} any more",
                    fix="let one `headrace follow` of this app run, and start it again: it goes on from the positions "
                    "in `headrace.positions`",
                )

    # Rows

    def _lines(self, changes: Iterable[Record]) -> tuple[list[bytes], list[bytes]]:
        """The changes as lines of COPY: rows to write, and keys to delete; what cannot be read is poison."""
        upserts: list[bytes] = []
        deletions: list[bytes] = []
        poison: list[tuple[Record, str]] = []
        for change in changes:
            try:
                row = changes_of.row(change)
                if row is None:
                    key = changes_of.key(change, self._view.key, text=self._text_key)
                    deletions.append(_line(self._keys, self._keys, key))
                else:
                    upserts.append(_line(self._columns, self._keys, row))
            except Unreadable as error:
                poison.append((change, str(error)))
        if poison:
            raise Poison("some changes cannot be read", poison)
        return upserts, deletions

    # Errors

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._error(error) from error

    def _error(self, error: psycopg.Error) -> Exception:
        state, text = error.sqlstate or "", (error.diag.message_primary or str(error)).strip().splitlines()[0]
        if state[:2] in ("21", "22", "23", "54"):
            return Poison(f"PostgreSQL refuses it: {text}")
        if state == "42501":
            return FollowError(
                "HR-403",
                f"PostgreSQL does not let `{self.follower}` keep its table: {text}.",
                found=f"SQLSTATE {state}",
                fix="grant the user of HEADRACE_POSTGRES the right to create schemas (GRANT CREATE ON DATABASE), "
                "and to write to what is there",
            )
        if state == "2BP01":
            return FollowError(
                "HR-402",
                f'The table "{self._view.app}"."{self._name}" cannot be made anew: {text}.',
                found=error.diag.message_detail or text,
                fix="drop what depends on it, ask for the rebuild again, then make it again",
            )
        if state[:2] in ("42", "3F", "3D", "0A", "28"):
            return FollowError(
                "HR-407",
                f"PostgreSQL refuses what `{self.follower}` does: {text}.",
                found=f"SQLSTATE {state}",
                fix="if the table was changed by hand, drop it: it is filled again from the topic at the next start",
            )
        return StoreAway(f"PostgreSQL is away: {text}")

    def _foreign(self, why: str) -> FollowError:
        return FollowError(
            "HR-401",
            f'The table "{self._view.app}"."{self._name}" is in the way: it is not this view\'s, and {why}.',
            found=why,
            fix=f'rename it: `ALTER TABLE "{self._view.app}"."{self._name}" RENAME TO …`; or drop it',
        )

    def _outdated(self, difference: str) -> FollowError:
        return FollowError(
            "HR-402",
            f'The table "{self._view.app}"."{self._name}" does not fit the view any more: {difference}.',
            found=difference,
            fix=f"build it anew from the topic: `headrace follow app.py --rebuild {self._view.view}` "
            "(it is empty at first, and grows until it has caught up)",
        )


def check_dependents(connection: psycopg.Connection[Any], view: View) -> None:
    """FollowError when something was made of the view's table that would stay with it if it lost its name."""
    table = sql.Identifier(view.app, view.view).as_string(connection)
    found = connection.execute(cast(LiteralString, _DEPENDENTS), {"table": table}).fetchall()
    if found:
        raise FollowError(
            "HR-414",
            f"The table {table} cannot pass its name on to another version: what was made of it would stay with it.",
            found=", ".join(one for (one,) in found),
            fix="drop what is found, and make it again when the other version has the name",
        )


def version_of(view: View, topic: str) -> str | None:
    """The version of a view that has this topic; None when it is no topic of the view."""
    first = view.topic if view.version == FIRST_VERSION else view.topic.removesuffix(f".{view.version}")
    if topic == first:
        return FIRST_VERSION
    name = topic.removeprefix(f"{first}.")
    return name if topic.startswith(f"{first}.") and is_version(name) else None


def _beside(view: str, version: str) -> str:
    """The name of a version's table that has not the name of the view."""
    return f"{view}.{version}"


def columns(view: View) -> tuple[Column, ...]:
    """The columns of a view's table; FollowError when PostgreSQL cannot have such a table."""
    try:
        fields = Schema.parse(view.schema).fields
    except SchemaError as error:
        raise _impossible(view, f"its schema cannot be read: {error.reason}", view.schema) from None
    names = [field.name for field in fields]
    for name in (view.app, view.view, *names):
        if len(name.encode()) > LONGEST_NAME:
            raise _impossible(view, f"a name in PostgreSQL has at most {LONGEST_NAME} bytes", name)
    if view.app == SCHEMA or view.app.startswith("pg_"):
        raise _impossible(view, f"PostgreSQL or Headrace keeps the schema `{view.app}` for itself", view.app)
    missing = [name for name in view.key if name not in names]
    if missing or not view.key:
        raise _impossible(view, "its key is not among its columns", ", ".join(missing) or "no key")
    return tuple(Column(field.name, *_typed(field.type)) for field in fields)


def _impossible(view: View, why: str, found: str) -> FollowError:
    return FollowError(
        "HR-408",
        f"The view `{view.view}` of `{view.app}` cannot be a table of PostgreSQL: {why}.",
        found=found,
        fix="rename it in the declaration; or leave the view out: `headrace follow app.py --only …`",
    )


def _typed(kind: str) -> tuple[str, Callable[[Any], str]]:
    if kind.startswith("decimal"):
        return f"numeric{kind.removeprefix('decimal')}", _real
    return _TYPES.get(kind, "jsonb"), _WRITERS.get(kind, _json)


def _line(columns: Sequence[Column], keys: Sequence[Column], row: dict[str, Any]) -> bytes:
    cells: list[str] = []
    for column in columns:
        value = row.get(column.name)
        if value is None:
            if column in keys:
                raise Unreadable(f"the key column `{column.name}` is null")
            cells.append(_NULL)
            continue
        try:
            cells.append(column.write(value))
        except TypeError:
            shown = changes_of.text_of(value)
            shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
            raise Unreadable(f"column `{column.name}` is {column.type}, and the value is {shown}") from None
        except ValueError as error:
            raise Unreadable(f"column `{column.name}`: {error}") from None
    try:
        return ("\t".join(cells) + "\n").encode()
    except UnicodeEncodeError:
        raise Unreadable("a text holds half of a surrogate pair, which is not Unicode") from None


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    if "\0" in value:
        raise ValueError("the text holds a NUL character, which PostgreSQL cannot store")
    return _ESCAPED.sub(_escape, value) if _ESCAPED.search(value) else value


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES[match[0]]


def _boolean(value: Any) -> str:
    if value is True:
        return "t"
    if value is False:
        return "f"
    raise TypeError


def _whole(value: Any) -> str:
    if type(value) is not Number:
        raise TypeError
    return value


def _real(value: Any) -> str:
    if type(value) is not Number and value not in _SPECIAL:
        raise TypeError
    return value


def _matching(form: re.Pattern[str]) -> Callable[[Any], str]:
    """Text of this form only: PostgreSQL takes words such as `now` and `infinity` for times, too."""

    def write(value: Any) -> str:
        found = form.fullmatch(value) if type(value) is str else None
        if found is None:
            raise TypeError
        return found[1]

    return write


def _binary(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    try:
        return "\\\\x" + a2b_base64(value, strict_mode=True).hex()
    except (NotBase64, ValueError):
        raise TypeError from None


def _json(value: Any) -> str:
    try:
        text = changes_of.text_of(value)
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    if "\\u0000" in text and "\0" in _texts_of(value):
        raise ValueError("a text in it holds a NUL character, which PostgreSQL cannot store")
    return _ESCAPED.sub(_escape, text)


def _texts_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(f"{name}{_texts_of(one)}" for name, one in value.items())
    return "".join(map(_texts_of, value)) if isinstance(value, list) else ""


_WRITERS: dict[str, Callable[[Any], str]] = {
    "string": _text, "boolean": _boolean, "tinyint": _whole, "smallint": _whole, "int": _whole, "bigint": _whole,
    "float": _real, "double": _real, "date": _matching(_DATE), "timestamp": _matching(_MOMENT),
    "timestamp_ntz": _matching(_LOCAL), "binary": _binary,
}  # fmt: skip


def _declared(column: Column) -> sql.Composed:
    return sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(cast(LiteralString, column.type)))


def _names(columns: Iterable[Column]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)
