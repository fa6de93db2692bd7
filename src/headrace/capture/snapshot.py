"""The rows that were there before: read in ranges of the key, between the changes that the stream brings meanwhile.

A range is read so that it fits exactly between two transactions of the stream:

1. A reading transaction is opened, which sees the tables as they are at one moment. If it does not see a transaction
   that the stream has brought already (a commit is in the log a moment before others can see it), it is opened again.
2. A message is put into the write-ahead log. Every transaction that the reading one sees stands before it there.
3. The stream is written on, up to the message, and the keys that it brings are noted.
4. The range is read and written, without the rows of the noted keys: what the stream brought is as new or newer.

So a row that is written here is the row at this place of the stream, and later changes follow it in order. The last key
of the range is remembered in the same Kafka transaction as its rows: after a kill, the next range begins there.
"""

from __future__ import annotations

import re
import select
from collections.abc import Generator, Sequence
from typing import Any

import psycopg
from psycopg import pq, sql

from headrace.capture import table as tables
from headrace.capture.database import connect, translated
from headrace.capture.table import Captured, Found

ROWS = 20_000
"""How many rows a range has."""

_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_PLAIN = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class Moved(Exception):  # noqa: N818 - it is the partition that has moved
    """A partition has gone, or has another name, since the reading transaction began."""


class Reading:
    """A reading transaction, on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._connection: psycopg.Connection[tuple[Any, ...]] = connect(url, "snapshot")
        self._open = False

    def open(self) -> tuple[int, frozenset[int]]:
        """See the tables as they are now: the first transaction that is not seen, and earlier ones that are not."""
        self.close()
        with translated("beginning to read"):
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._open = True
            row = self._connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        _, first, running = str(row[0] if row else "0:0:").split(":")
        return int(first), frozenset(int(one) for one in running.split(",") if one)

    def find(self, captured: Captured) -> Found:
        """The table as this transaction sees it."""
        return tables.find(self._connection, captured)

    def partition(self, number: int) -> sql.Identifier | None:
        """The name of a partition, which stays its name while this transaction lasts; None when it is gone.

        The transaction sees the catalogue as it was, but a statement takes a name for what bears it now. So the
        partition is locked, as a reader locks it anyway, and asked whether it is the one.
        """
        name = tables.partition(self._connection, number)
        if name is None:
            return None
        with translated("holding a partition"):
            try:
                self._connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
            except psycopg.errors.UndefinedTable:
                raise Moved from None
            text = name.as_string(self._connection)
            held = self._connection.execute("SELECT to_regclass(%s)::oid::bigint", (text,)).fetchone()
        if held != (number,):
            raise Moved
        return name

    def rows(
        self,
        captured: Captured,
        columns: Sequence[str],
        key: Sequence[str],
        after: Sequence[str] | None,
        most: int,
        *,
        only: sql.Identifier | None = None,
    ) -> Generator[list[bytes | None]]:
        """The rows after a key, in the order of the key, as PostgreSQL's text; `only` those of a partition."""
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        order = sql.SQL(", ").join(map(sql.Identifier, key))
        condition = sql.SQL("")
        if after is not None:
            condition = sql.SQL("WHERE ({}) > ({})").format(order, sql.SQL(", ").join(map(sql.Literal, after)))
        yield from self._copied(
            sql.SQL("SELECT {} FROM {} {} ORDER BY {} LIMIT {}").format(
                names, only or captured.identifier, condition, order, sql.Literal(most)
            ),
            captured,
        )

    def in_order_of_writing(
        self, captured: Captured, columns: Sequence[str], by: str | None
    ) -> Generator[list[bytes | None]]:
        """All rows, by a column that counts, or else by when their transactions began to write."""
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        order = sql.SQL("age(xmin) DESC, ctid") if by is None else sql.Identifier(by)
        yield from self._copied(
            sql.SQL("SELECT {} FROM {} ORDER BY {}").format(names, captured.identifier, order), captured
        )

    def close(self) -> None:
        """End the transaction."""
        if self._open:
            self._open = False
            with translated("ending to read"):
                self._connection.execute("ROLLBACK")

    def end(self) -> None:
        """End the connection."""
        self._connection.close()

    def _copied(self, query: sql.Composed, captured: Captured) -> Generator[list[bytes | None]]:
        """Through libpq's own calls: this is as hot as the stream."""
        connection = self._connection.pgconn
        statement = sql.SQL("COPY ({}) TO STDOUT").format(query).as_string(self._connection)
        with translated(f"reading {captured.table}"):
            connection.send_query(statement.encode())
            try:
                while (result := self._result()) is not None:
                    if result.status == pq.ExecStatus.COPY_OUT:
                        yield from self._lines()
                    elif result.status != pq.ExecStatus.COMMAND_OK:
                        raise psycopg.errors.error_from_result(result)
            finally:
                self._finish()

    def _lines(self) -> Generator[list[bytes | None]]:
        get = self._connection.pgconn.get_copy_data
        while True:
            size, line = get(1)
            if size > 0:
                raw = bytes(line)[:-1]
                fields: Any = raw.split(b"\t")
                yield fields if b"\\" not in raw else [_field(field) for field in fields]
            elif size == 0:
                self._wait()
            else:
                return

    def _result(self) -> Any:
        connection = self._connection.pgconn
        while connection.is_busy():
            self._wait()
        return connection.get_result()

    def _wait(self) -> None:
        connection = self._connection.pgconn
        connection.flush()
        select.select([connection.socket], [], [], 1)
        connection.consume_input()

    def _finish(self) -> None:
        """Where a reader has stopped in the middle, tell the server and take what it has sent."""
        connection = self._connection.pgconn
        if connection.transaction_status != pq.TransactionStatus.ACTIVE:
            return
        connection.get_cancel().cancel()
        while (result := self._result()) is not None:
            if result.status == pq.ExecStatus.COPY_OUT:
                for _ in self._lines():
                    pass


def _field(field: bytes) -> bytes | None:
    if b"\\" not in field:
        return field
    return None if field == b"\\N" else _ESCAPED.sub(lambda found: _PLAIN.get(found[1], found[1]), field)
