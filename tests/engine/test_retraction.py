"""Changes of an unfinished batch are taken back: on balance nothing is left of them."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from headrace import names
from headrace.engine import retraction, unfinished
from headrace.engine.checkpoint import Finished
from headrace.log.consumer import Record

FINISHED = Finished("q", 7)


def record(partition: int, value: bytes | None, batch: str | None = "q:8", key: bytes | None = None) -> Record:
    headers = () if batch is None else ((names.HEADER_BATCH, batch.encode()),)
    return Record("t", partition, 0, 0, key, value, headers)


def told(rows: list[tuple[retraction.Row, bytes]]) -> list[tuple[int, bytes | None, bytes]]:
    return [(row.partition, row.key, row.told(sign)) for row, sign in rows]


@pytest.mark.parametrize(
    ("value", "opposite"),
    [
        (b'{"who":"a","n":1,"change":"+"}', b'{"who":"a","n":1,"change":"-"}'),
        (b'{"who":"a","change":"-","n":1.50}', b'{"who":"a","change":"+","n":1.50}'),
        (b'{"in":{"change":"-"},"change":"+"}', b'{"in":{"change":"-"},"change":"-"}'),
        (b'{"in":[{"change":"-"}],"change":"+"}', b'{"in":[{"change":"-"}],"change":"-"}'),
        (rb'{"text":"\"change\":\"-\" {[","change":"+"}', rb'{"text":"\"change\":\"-\" {[","change":"-"}'),
        (b'{"text":"change","change":"+"}', b'{"text":"change","change":"-"}'),
        ('{"text":"ä\\\\","change":"+"}'.encode(), '{"text":"ä\\\\","change":"-"}'.encode()),
    ],
)
def test_the_opposite_of_a_change(value: bytes, opposite: bytes):
    assert told(retraction.due([record(3, value, key=b"k")])) == [(3, b"k", opposite)]


def test_what_came_and_went_needs_nothing():
    rows = [record(0, b'{"n":1,"change":"+"}'), record(0, b'{"n":1,"change":"-"}'), record(0, b'{"n":2,"change":"+"}')]
    assert told(retraction.due(rows)) == [(0, None, b'{"n":2,"change":"-"}')]


@pytest.mark.parametrize("value", [None, b"", b"[]", b'{"n":1}', b'{"n":"change"}', b'{"change":null}'])
def test_what_is_no_change_is_left_alone(value: bytes | None):
    assert retraction.due([record(0, value)]) == []


def test_only_records_of_an_unfinished_batch_of_this_query_count():
    seen = [
        record(0, b"a", "q:7"),
        record(0, b"b", "q:8"),
        record(0, b"c", None),
        record(0, b"d", "other:9"),
        record(1, b"e", "q:9"),
    ]
    found, enough = unfinished.of(seen, FINISHED)
    assert {partition: [one.value for one in rows] for partition, rows in found.items()} == {0: [b"b"], 1: [b"e"]}
    assert enough == {0}


def test_whenever_it_is_interrupted_the_balance_comes_to_nothing(seed: int):
    dice = random.Random(seed)
    for _ in range(300):
        rows = [
            record(dice.randrange(2), json.dumps({"n": dice.randrange(4), "change": dice.choice("+-")}).encode())
            for _ in range(dice.randrange(1, 30))
        ]
        while due := retraction.due(rows):
            some = due[: dice.randrange(1, len(due) + 1)]
            rows += [record(row.partition, row.told(sign)) for row, sign in some]
        balance: Counter[tuple[int, int]] = Counter()
        for one in rows:
            row = json.loads(one.value or b"")
            balance[one.partition, row["n"]] += 1 if row["change"] == "+" else -1
        assert balance, seed
        assert not any(balance.values()), seed
