"""The changes of a transaction as records: rows in the envelope, events of an outbox as they are.

A large value that an update left as it was is not in the write-ahead log. It is in the old row where all of that is
logged; else the database is asked for it, which gives the value that the row has by now. If another transaction has
changed it since, that one follows in the stream with the same value; if the row is gone, a placeholder stands for it
and the delete follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from headrace import names
from headrace.capture import outbox, pgoutput, present, value
from headrace.capture.database import meaning
from headrace.capture.envelope import Transaction
from headrace.capture.live import Live, Tables
from headrace.capture.relation import UNAVAILABLE, Relation
from headrace.capture.writer import LARGEST, TooLarge, Writer, too_large
from headrace.log.connection import Connection

_UPDATE, _DELETE = pgoutput.UPDATE, pgoutput.DELETE
_VISIBLE_S = 0.005
_IN_PROGRESS = """
SELECT %(xid)s::bigint IN (SELECT one::text::bigint & 4294967295 FROM pg_snapshot_xip(now) AS one)
    OR (%(xid)s - pg_snapshot_xmax(now)::text::bigint) & 4294967295 < 2147483648
FROM pg_current_snapshot() AS now"""  # the stream has the lower 32 bits of a number that goes round
_NULL = value.NULL
_ROW = pgoutput.HEADER + 6
"""Where the first row of a change begins: after its letter, the number of the table, and the kind of row."""


class Changes:
    """Writes the changes of `transaction`; `at` is the place up to which transactions are written."""

    def __init__(
        self,
        connection: Connection,
        writer: Writer,
        tables: Tables,
        database: psycopg.Connection[tuple[Any, ...]],
        alive: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._writer = writer
        self._tables = tables
        self._database = database
        self._alive = alive
        self.transaction: Transaction | None = None
        self.at = 0

    def insert(self, live: Live, data: bytes, lsn: int) -> None:
        relation, envelope, transaction = live.relation, live.envelope, self.transaction
        if relation is None or envelope is None or transaction is None:
            raise RuntimeError("a change stands outside a transaction, or its table was not announced")
        values: Any = relation.decode(data, _ROW)[0]
        key = relation.key_of(values)
        self.send(live, key, envelope.change(transaction, b"c", _NULL, relation.row(values), lsn))

    def update(self, live: Live, data: bytes, lsn: int) -> None:
        relation, envelope, transaction = live.relation, live.envelope, self.transaction
        if relation is None or envelope is None or transaction is None:
            raise RuntimeError("a change stands outside a transaction, or its table was not announced")
        mark, at = data[_ROW - 1], _ROW
        old: Any = None
        if mark != pgoutput.NEW:
            old, at = relation.decode(data, at)
            at += 1
        new: Any = relation.decode(data, at)[0]
        if None in new:
            new = self._filled(live, relation, new, old, relation.fields(data, at))
        key, after = relation.key_of(new), relation.row(new)
        before = relation.row(old) if mark == pgoutput.OLD else _NULL
        if old is None or (old_key := relation.key_of(old)) == key:
            self.send(live, key, envelope.change(transaction, b"u", before, after, lsn))
            return
        gone = before if mark == pgoutput.OLD else relation.only_key(old)
        self.send(live, old_key, envelope.change(transaction, b"d", gone, _NULL, lsn))
        self.send(live, old_key, None)
        self.send(live, key, envelope.change(transaction, b"c", _NULL, after, lsn))

    def delete(self, live: Live, data: bytes, lsn: int) -> None:
        relation, envelope, transaction = live.relation, live.envelope, self.transaction
        if relation is None or envelope is None or transaction is None:
            raise RuntimeError("a change stands outside a transaction, or its table was not announced")
        old: Any = relation.decode(data, _ROW)[0]
        before = relation.row(old) if data[_ROW - 1] == pgoutput.OLD else relation.only_key(old)
        key = relation.key_of(old)
        self.send(live, key, envelope.change(transaction, b"d", before, _NULL, lsn))
        self.send(live, key, None)

    def event(self, live: Live, kind: int, data: bytes) -> None:
        relation, transaction = live.relation, self.transaction
        if relation is None or transaction is None or kind == _DELETE:
            return
        at = _ROW
        if kind == _UPDATE and data[_ROW - 1] != pgoutput.NEW:
            at = relation.decode(data, at)[1] + 1
        transaction.changes += 1
        self.deliver(live, relation, relation.fields(data, at), transaction, updated=kind == _UPDATE)

    def deliver(
        self,
        live: Live,
        relation: Relation,
        fields: Sequence[bytes | None],
        transaction: Transaction | None,
        *,
        updated: bool = False,
    ) -> None:
        event = outbox.event(live.captured, relation, fields, updated=updated)
        headers = event.headers
        if event.dead:
            live.dead += 1
            number = (transaction.commit if transaction else self.at) * 1_000_000
            number += transaction.changes if transaction else live.dead
            headers = [
                *headers,
                (names.HEADER_PARTITION, b"0"),
                (names.HEADER_OFFSET, b"%d" % number),
                (names.HEADER_QUERY, names.CAPTURE.encode()),
            ]
        if live.touched is not None:
            live.touched.add(key_of_fields(relation, fields))
        self._writer.send(event.topic, event.key, event.value, headers)
        live.written += 1

    def send(self, live: Live, key: bytes, record: bytes | None) -> None:
        if live.touched is not None:
            live.touched.add(key)
        if record is not None:
            if len(record) + len(key) > LARGEST:
                found = TooLarge(live.topic, key, len(record) + len(key))
                self._tables.pause(live, too_large(self._connection, live.captured, found))
                return
            live.written += 1
        self._writer.send(live.topic, key, record)

    def _filled(
        self,
        live: Live,
        relation: Relation,
        new: Sequence[bytes | None],
        old: Sequence[bytes | None] | None,
        fields: Sequence[bytes | None],
    ) -> list[bytes | None]:
        """Large values that the update left as they were are not in the log: they are in the old row if all of it was
        logged, else they are asked for."""
        missing = [place for place, one in enumerate(new) if one is None]
        if old is not None and all(old[place] not in (None, _NULL) for place in missing):
            there = [old[place] for place in missing]
        else:
            there = self._ask(live, relation, missing, relation.texts_of_key(fields))
        known = dict(zip(missing, there, strict=True))
        return [known.get(place, one) for place, one in enumerate(new)]

    def _ask(self, live: Live, relation: Relation, missing: Sequence[int], key: Sequence[str]) -> list[bytes]:
        columns = [sql.SQL("format('%s', {})").format(sql.Identifier(relation.names[place])) for place in missing]
        nulls = [sql.SQL("{} IS NULL").format(sql.Identifier(relation.names[place])) for place in missing]
        condition = sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(text))
            for name, text in zip(relation.key, key, strict=True)
        )
        query = sql.SQL("SELECT {}, {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(columns), sql.SQL(", ").join(nulls), live.captured.identifier, condition
        )
        try:
            while (found := self._database.execute(query).fetchone()) is None and not self._is_visible():
                self._alive()
                time.sleep(_VISIBLE_S)
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):
            found = None
        except psycopg.Error as error:
            raise meaning(error, f"asking for large values of {live.captured.table}") from None
        if found is None:
            return [UNAVAILABLE] * len(missing)
        answers: list[bytes] = []
        for number, place in enumerate(missing):
            raw, write = str(found[number]).encode(), relation.kinds[place].write
            answers.append(_NULL if found[len(missing) + number] else raw if write is None else write(raw))
        return answers

    def _is_visible(self) -> bool:
        """Whether others see what the transaction at hand has done: the stream brings it a moment before they do."""
        if self.transaction is None:
            return True
        return not in_progress(self._database, self.transaction.xid)

    def truncate(self, live: Live | None, lsn: int) -> None:
        """Every row that the topic has is deleted, one by one."""
        if live is None or live.captured.is_outbox:
            return
        if live.is_paused:
            live.skipped += 1
            return
        transaction, envelope = self.transaction, live.envelope
        if transaction is None or envelope is None:
            raise RuntimeError("a TRUNCATE stands outside a transaction, or its table was not announced")
        live.outdated = True
        self._writer.flush()
        for key in present.keys(self._connection, live.topic, alive=self._alive):
            self.send(live, key, envelope.change(transaction, b"d", key, _NULL, lsn))
            self.send(live, key, None)


def in_progress(database: psycopg.Connection[Any], xid: int) -> bool:
    """Whether nobody else sees yet what a transaction has done, by the number that the stream has of it."""
    row = database.execute(_IN_PROGRESS, {"xid": xid}).fetchone()
    return row is not None and bool(row[0])


def key_of_fields(relation: Relation, fields: Sequence[bytes | None]) -> bytes:
    """What tells a row of an outbox from others."""
    return "\0".join(relation.texts_of_key(fields)).encode()
