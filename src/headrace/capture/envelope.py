"""A change in Debezium's form, with the schema left out (`schemas.enable=false`).

    {"before": …, "after": …, "source": {…}, "transaction": {…}, "op": "c", "ts_ms": …}

`op` is `c` insert, `u` update, `d` delete, `r` read by a snapshot. `source` says where in the database and its log the
change was made, `transaction` which transaction it belongs to and as how manieth change of it. What differs from what
Debezium writes is listed in docs/reference/capture.md.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib.metadata import version

from headrace.capture import value

CONNECTOR = "postgresql"

_CHANGE = (
    b'{"before":%b,"after":%b,%b%d,"sequence":"[%b,\\"%d\\"]"},"transaction":{"id":"%b","total_order":%d,'
    b'"data_collection_order":%d},"op":"%b",%b}'
)
_NO_ORIGIN = b'"origin":null,"origin_lsn":null'


@dataclass
class Transaction:
    """A transaction of the database, while its changes are written; `origin` is where it was replicated from."""

    xid: int
    commit: int
    at_us: int
    previous: int | None
    origin: bytes = _NO_ORIGIN
    changes: int = 0
    name: bytes = field(init=False)
    sequence: bytes = field(init=False)
    read_at: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.name = b"%d:%d" % (self.xid, self.commit)
        self.sequence = b"null" if self.previous is None else b'\\"%d\\"' % self.previous
        self.read_at = moment(time.time_ns() // 1000)


class Envelope:
    """Puts the changes of one table into the envelope."""

    def __init__(self, app: str, database: str, schema: str, table: str) -> None:
        told = {"version": version("headrace"), "connector": CONNECTOR, "name": app, "db": database}
        told |= {"schema": schema, "table": table}
        self._source = b'"source":{' + b"".join(
            b'"%b":%b,' % (name.encode(), value.text(text.encode())) for name, text in told.items()
        )
        self._transaction: Transaction | None = None
        self._told = b""
        self._own = 0

    def change(self, transaction: Transaction, op: bytes, before: bytes, after: bytes, lsn: int) -> bytes:
        """A change that a transaction made at this place."""
        if transaction is not self._transaction:
            self._transaction, self._own = transaction, 0
            self._told = b'%b"snapshot":"false",%b,"txId":%d,"xmin":null,%b,"lsn":' % (
                self._source,
                moment(transaction.at_us),
                transaction.xid,
                transaction.origin,
            )
        transaction.changes += 1
        self._own += 1
        return _CHANGE % (
            before,
            after,
            self._told,
            lsn,
            transaction.sequence,
            lsn,
            transaction.name,
            transaction.changes,
            self._own,
            op,
            transaction.read_at,
        )

    def reading(self, at: int) -> bytes:
        """What all rows of a snapshot that is true at a place have in common."""
        now = moment(time.time_ns() // 1000)
        told = b'%b"snapshot":"incremental",%b,"txId":null,"xmin":null,%b,"lsn":%d' % (
            self._source,
            now,
            _NO_ORIGIN,
            at,
        )
        return b'%b,"sequence":null},"transaction":null,%b,"op":"' % (told, now)

    @staticmethod
    def read(common: bytes, op: bytes, before: bytes, after: bytes) -> bytes:
        """A row that a snapshot found (`r`), or found to be gone (`d`)."""
        return b'{"before":%b,"after":%b,%b%b"}' % (before, after, common, op)


def replicated(name: str, lsn: int) -> bytes:
    """Where a transaction was replicated from: the name of the origin, and the place of its commit there."""
    return b'"origin":%b,"origin_lsn":%d' % (value.text(name.encode()), lsn)


def moment(microseconds: int) -> bytes:
    """A time in Debezium's three fields."""
    return b'"ts_ms":%d,"ts_us":%d,"ts_ns":%d' % (microseconds // 1000, microseconds, microseconds * 1000)
