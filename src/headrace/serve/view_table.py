"""Reads from the tables that the followers keep, each in one transaction that sees one moment.

A read gives rows as JSON text in the form of the topic, and the positions that these rows hold: the table and its
positions change together, and both are read under REPEATABLE READ. The table is locked before that moment is chosen:
PostgreSQL looks a name up as it is now, not as it was then, and the name may pass to the table of another version.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, IsolationLevel
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from headrace.errors import ServeError
from headrace.names import COLUMN_PREFIX
from headrace.serve.filter import Filter
from headrace.serve.page import Page
from headrace.serve.statement import Sql, name
from headrace.serve.view import View

CONNECTIONS = 16
SNAPSHOTS = 12
WAIT_S = 10.0
CHUNK = 500
STATEMENT_MS = 30_000
_POSITIONS = Sql(
    "SELECT topic, partition, next_offset, floor(extract(epoch FROM at))::bigint FROM headrace.positions"
    " WHERE follower = %s"
)


@dataclass(frozen=True)
class Held:
    """What a table holds: the next offset of each partition, and the second at which the follower last wrote."""

    offsets: Mapping[int, int]
    at: int


class OtherVersion(Exception):  # noqa: N818 - it is no error, but a reason to ask for that version
    """The table of a view holds another version of it, which has this topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


class ViewTable:
    """A pool of connections that only read; open it with `async with`. A read of a view whose table holds another
    version raises OtherVersion."""

    def __init__(self, url: str) -> None:
        self._pool: AsyncConnectionPool[AsyncConnection[Any]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=WAIT_S,
            open=False,
            configure=_configure,
            check=AsyncConnectionPool.check_connection,
        )
        self._snapshots = asyncio.Semaphore(SNAPSHOTS)

    async def __aenter__(self) -> ViewTable:
        await self._pool.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def page(self, view: View, chosen: Filter, page: Page) -> tuple[list[str], str | None, Held]:
        """The rows of a page as JSON, the `after` of the next page if there is one, and what the table holds."""
        where = Sql.join(" AND ", [chosen.sql(), page.where()])
        asked = _rows(view, where, f" ORDER BY {page.order_by()} LIMIT {page.limit + 1}")
        async with self._reading(view) as connection:
            held = await _held(connection, view)
            rows = [row for row, _ in await _all(connection, asked)]
        further = page.next(rows[page.limit - 1]) if len(rows) > page.limit else None
        return rows[: page.limit], further, held

    async def row(self, view: View, values: Sequence[Any]) -> tuple[str | None, Held]:
        """The row of a key as JSON, or None, and what the table holds."""
        same = (Sql(f"{column.place} = ") + column.bound(value) for column, value in zip(view.key, values, strict=True))
        async with self._reading(view) as connection:
            held = await _held(connection, view)
            found = await _all(connection, _rows(view, Sql.join(" AND ", same), ""))
        return (found[0][0] if found else None), held

    @asynccontextmanager
    async def snapshot(self, view: View, chosen: Filter) -> AsyncIterator[tuple[Held, AsyncIterator[list[Any]]]]:
        """What the table holds, and its rows in chunks: pairs of the row and its key, both as JSON."""
        async with self._turn(), self._reading(view) as connection:
            held = await _held(connection, view)
            yield held, _chunks(connection, _rows(view, chosen.sql(), ""))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A snapshot lasts as long as its client takes to read it, so some connections are kept for other reads."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._snapshots.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            yield
        finally:
            self._snapshots.release()

    async def held(self, view: View) -> Held:
        """What the table holds; nothing where there is no table yet."""
        try:
            async with self._reading(view) as connection:
                return await _held(connection, view)
        except ServeError as error:
            if error.code != "HR-513":
                raise
            return Held({}, 0)

    @asynccontextmanager
    async def _reading(self, view: View) -> AsyncIterator[AsyncConnection[Any]]:
        try:
            async with self._pool.connection() as connection:
                await connection.execute(f"LOCK TABLE {view.table} IN ACCESS SHARE MODE".encode())
                yield connection
        except (
            psycopg.errors.UndefinedTable,
            psycopg.errors.InvalidSchemaName,
            psycopg.errors.UndefinedColumn,
        ) as error:
            raise ServeError(
                "HR-513",
                f"The view `{view.name}` has no table in PostgreSQL yet.",
                found=str(error).partition("\n")[0],
                fix="start its follower: headrace follow app.py",
            ) from None
        except psycopg.errors.QueryCanceled:
            raise ServeError(
                "HR-514",
                f"PostgreSQL took longer than {STATEMENT_MS // 1000} seconds for this.",
                found=f"a read of the view `{view.name}`",
                fix="ask for less, or filter and order by the first columns of the key",
            ) from None
        except PoolTimeout:
            raise _busy() from None
        except psycopg.OperationalError as error:
            raise ServeError(
                "HR-514",
                "PostgreSQL cannot be read.",
                found=type(error).__name__,
                fix="try again; `headrace parts status` says whether the server answers",
            ) from None


def _busy() -> ServeError:
    return ServeError(
        "HR-514",
        f"There was no connection to PostgreSQL within {WAIT_S:.0f} seconds.",
        found=f"{CONNECTIONS} connections in use, or a server that does not answer",
        fix="try again; `headrace parts status` says whether the server answers",
    )


async def _configure(connection: AsyncConnection[Any]) -> None:
    await connection.execute(b"SELECT set_config('statement_timeout', %s, false)", (str(STATEMENT_MS),))
    await connection.commit()
    await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
    await connection.set_read_only(True)


def _rows(view: View, where: Sql, rest: str) -> Sql:
    """Rows and their keys as JSON text.

    Names are quoted and values are bound: nothing of a request is in the text. No column can be named as the row and
    the key are, because names that begin so are reserved.
    """
    row, key = f"{COLUMN_PREFIX}row", f"{COLUMN_PREFIX}key"
    shown = ", ".join(column.shown for column in view.columns)
    keys = ", ".join(f"{row}.{name(column.name)}" for column in view.key)
    key_json = f"to_json({keys})" if view.text_key else f"(SELECT row_to_json({key}) FROM (SELECT {keys}) {key})"  # noqa: S608
    return (
        Sql(f"SELECT row_to_json({row})::text, {key_json}::text FROM (SELECT {shown} FROM {view.table} t WHERE ")  # noqa: S608
        + where
        + Sql(f"{rest}) {row}")
    )


async def _all(connection: AsyncConnection[Any], asked: Sql) -> list[Any]:
    cursor = await connection.execute(asked.text.encode(), asked.values)
    return await cursor.fetchall()


async def _chunks(connection: AsyncConnection[Any], asked: Sql) -> AsyncIterator[list[Any]]:
    async with connection.cursor("snapshot") as cursor:
        await cursor.execute(asked.text.encode(), asked.values)
        while chunk := await cursor.fetchmany(CHUNK):
            yield chunk


async def _held(connection: AsyncConnection[Any], view: View) -> Held:
    found = await (await connection.execute(_POSITIONS.text.encode(), (view.follower,))).fetchall()
    mine = [held for topic, *held in found if topic == view.topic]
    if found and not mine:
        raise OtherVersion(found[0][0])
    return Held({partition: following for partition, following, _ in mine}, max((at for *_, at in mine), default=0))
