"""A history of a view, drawn from a seed, and the plain answer: what a store must hold after it.

Rows have the columns of `SCHEMA`. The history has upserts, deletions, updates as a deletion and a row, keys that come
back, and rows that PostgreSQL needs care with. `write` puts it into a topic as the engine does: with keys, and some of
it in transactions, of which some are aborted.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer as Writer

from headrace.log import topic as topics
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import OPTIONS, Producer
from headrace.log.topic import Topic

SCHEMA = (
    "id string NOT NULL, n bigint, amount decimal(12,2), share double, note string, at timestamp, tags array<string>"
)
NOTES = [
    "plain",
    "with\ttab",
    'with "quotes"',
    "back\\slash",
    "two\nlines",
    "ünïcode 🌊",
    "",
    "\\N",
    "x'); DROP TABLE t;--",
]

Row = dict[str, Any]
Change = tuple[str, Row | None]


def view(app: str, name: str = "totals") -> View:
    return View(app=app, view=name, topic=f"{app}.{name}", schema=SCHEMA, key=("id",))


def make_topic(connection: Connection, view: View, partitions: int = 2) -> View:
    topics.ensure(connection, [Topic(view.topic, partitions, compacted=True)])
    return view


def history(dice: random.Random, count: int, keys: int = 25) -> Iterator[Change]:
    """So many changes."""
    made = 0
    while made < count:
        key = f"k{dice.randrange(keys)}"
        what = dice.random()
        if what < 0.2:
            yield key, None
        elif what < 0.4:
            yield key, None
            made += 1
            yield key, row(dice, key)
        else:
            yield key, row(dice, key)
        made += 1


def row(dice: random.Random, key: str) -> Row:
    made: Row = {
        "id": key,
        "n": dice.randrange(-(2**63), 2**63),
        "amount": round(dice.uniform(-1e6, 1e6), 2),
        "share": dice.choice([0.1, 1e300, -0.5, "NaN", "Infinity", "-Infinity"]),
        "note": dice.choice(NOTES),
        "at": f"20{dice.randrange(10, 99)}-01-01T00:00:00.{dice.randrange(10**6):06}Z",
        "tags": dice.choice([[], ["a"], ["b", "c\\d"]]),
    }
    # As the engine does, a null is left out.
    return {name: value for name, value in made.items() if name == "id" or dice.random() < 0.9}


def write(connection: Connection, topic: str, changes: Iterable[Change], dice: random.Random | None = None) -> None:
    """Write the changes in order; with `dice`, pieces of them in transactions, and some that are aborted before."""
    if dice is None:
        with Producer(connection) as producer:
            for key, value in changes:
                producer.send(topic, None if value is None else _encoded(value), key=key)
        return
    writer = Writer(connection.client(**{**OPTIONS, "transactional.id": uuid4().hex}))
    writer.init_transactions(20)
    for piece in _pieces(dice, list(changes)):
        for aborted in (True, False) if dice.random() < 0.3 else (False,):
            writer.begin_transaction()
            for key, value in piece:
                writer.produce(topic, None if value is None else _encoded(value), key)
            writer.flush()
            if aborted:
                writer.abort_transaction(20)
            else:
                writer.commit_transaction(20)


def answer(connection: Connection, topic: str) -> dict[str, Row]:
    """What a store must hold: the last row of each key, in the order of its partition."""
    rows: dict[str, Row] = {}
    for record in read(connection, topic):
        key = (record.key or b"").decode()
        rows.pop(key, None)
        if record.value is not None:
            rows[key] = json.loads(record.value)
    return rows


def _encoded(row: Row) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode()


def _pieces(dice: random.Random, changes: list[Change]) -> Iterator[Sequence[Change]]:
    while changes:
        size = dice.randrange(1, 40)
        yield changes[:size]
        del changes[:size]
