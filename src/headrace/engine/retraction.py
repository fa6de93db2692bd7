"""Retracts the changes that an unfinished live batch has written to the topic of a stream, before the query starts.

A stream of changes describes a table by adding up: a row with `+` is in the table until the same row comes with `-`.
The batch is run again, and its changes need not be the same: rows of several partitions come in another order, and with
them the values in between. Readers have already seen the first changes.

So for every row that the unfinished batch has added or removed, on balance, the opposite is written, to the partition
of its record and under its key. Then the changes of the topic add up to what the state says, and the changes of the
second run lead to the right table. This serves operators and readers that add changes up, as all that take changes do.

**A crash** in between is harmless: what is written here counts as written by the unfinished batch, so the next start
writes what is still missing.

**The cost** is a look at the end of every partition (unfinished.py), and the memory for the changes of one batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace import names
from headrace.engine.checkpoint import Finished
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.producer import Producer

_SIGN = {b"+": 1, b"-": -1}
# What stands outside of strings, and strings whole: a quotation mark inside of one is escaped.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_CHANGE = f'"{names.CHANGE}"'.encode()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a topic: what is before its sign and after it."""

    partition: int
    key: bytes | None
    before: bytes
    after: bytes

    def told(self, sign: bytes) -> bytes:
        """The value of the record that adds or removes the row."""
        return self.before + b'"' + sign + b'"' + self.after


def due(records: Iterable[Record]) -> list[tuple[Row, bytes]]:
    """The rows to write, and with which sign, so that these records add up to nothing: removals first, and those of the
    last rows first."""
    balance: dict[Row, int] = {}
    for record in records:
        found = None if record.value is None else _split(record.value)
        if found is None:
            continue
        before, sign, after = found
        row = Row(record.partition, record.key, before, after)
        balance[row] = balance.get(row, 0) + _SIGN.get(sign, 0)
    opposite = [(row, b"-" if sum_ > 0 else b"+") for row, sum_ in reversed(balance.items()) for _ in range(abs(sum_))]
    return sorted(opposite, key=lambda one: one[1] == b"+")


def write(connection: Connection, topic: str, rows: Sequence[tuple[Row, bytes]], finished: Finished) -> None:
    """Write them as records of the unfinished batch; when it returns they are in the log."""
    headers = {names.HEADER_BATCH: f"{finished.query}:{finished.batch + 1}"}
    with Producer(connection) as producer:
        for row, sign in rows:
            producer.send(topic, row.told(sign), key=row.key, partition=row.partition, headers=headers)


def _split(value: bytes) -> tuple[bytes, bytes, bytes] | None:
    """A JSON object before the value of its field `change`, that value without its marks, and what follows."""
    depth, named = 0, False
    for token in _TOKEN.finditer(value):
        text = token[0]
        if text in (b"{", b"["):
            depth, named = depth + 1, False
        elif text in (b"}", b"]"):
            depth, named = depth - 1, False
        elif named:
            return value[: token.start()], text[1:-1], value[token.end() :]
        else:
            named = depth == 1 and text == _CHANGE and value[token.end() :].lstrip()[:1] == b":"
    return None
