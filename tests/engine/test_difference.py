"""How two versions differ, against a plain computation on the rows that were written."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headrace.engine import difference
from headrace.engine.difference import Difference
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.names import HEADER_ID

Write = Callable[..., str]


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


@pytest.fixture
def write(connection: Connection, topic: Callable[[], str]) -> Write:
    """Write pairs of key and row to a topic of its own, in their order; text is written as it is."""

    def written(*records: tuple[str | None, Any], ids: bool = False) -> str:
        name = topic()
        ensure(connection, [Topic(name, 2)])
        with Producer(connection) as producer:
            for key, row in records:
                value = row if row is None or isinstance(row, str) else json.dumps(row)
                headers = {HEADER_ID: json.dumps(row)} if ids else {}
                producer.send(name, value, key=key, headers=headers)
        return name

    return written


@pytest.fixture
def dice(seed: int) -> random.Random:
    return random.Random(seed)


def test_views_by_their_keys(connection: Connection, write: Write, dice: random.Random):
    def changes() -> list[tuple[str, Any]]:
        keys = [f"k{number}" for number in range(40)]
        return [(key, dice.choice([{"n": dice.randrange(3)}, None])) for key in dice.choices(keys, k=200)]

    old, new = changes(), changes()
    before = {key: row for key, row in dict(old).items() if row is not None}
    after = {key: row for key, row in dict(new).items() if row is not None}
    found = difference.of_view(connection, write(*old), write(*new), 1000)
    both = before.keys() & after.keys()
    changed = {key for key in both if before[key] != after[key]}
    wanted = {"added": after.keys() - before.keys(), "removed": before.keys() - after.keys(), "changed": changed}
    assert found.same == len(both) - len(changed)
    for what, keys in wanted.items():
        samples = [one for one in found.samples if one.what == what]
        assert {one.key for one in samples} == keys
        assert getattr(found, what) == len(keys)
        assert all((one.old, one.new) == (before.get(one.key or ""), after.get(one.key or "")) for one in samples)


def test_streams_as_bags(connection: Connection, write: Write, dice: random.Random):
    def rows() -> list[dict[str, Any]]:
        return [{"n": dice.randrange(10), "change": dice.choice("++-")} for _ in range(100)]

    def bag(rows: list[dict[str, Any]]) -> Counter[int]:
        found: Counter[int] = Counter()
        for row in rows:
            found[row["n"]] += 1 if row["change"] == "+" else -1
        return found

    old, new = rows(), rows()
    before, after = bag(old), bag(new)
    found = difference.of_stream(
        connection, write(*((None, row) for row in old)), write(*((None, row) for row in new)), 1000
    )
    assert found.added == sum(max(0, after[n] - before[n]) for n in range(10))
    assert found.removed == sum(max(0, before[n] - after[n]) for n in range(10))
    assert found.same == sum(max(0, min(before[n], after[n])) for n in range(10))
    assert found.changed == 0
    assert {one.new["n"] for one in found.samples if one.new} == {n for n in range(10) if after[n] > before[n]}


def test_rows_are_equal_by_their_values(connection: Connection, write: Write):
    old = write(
        ("order", '{"a":1,"b":"x"}'),
        ("number", '{"a":1}'),
        ("null", '{"a":1,"b":null}'),
        ("digits", '{"a":1.00000000000000000000000000000000000001}'),
        ("text", '{"a":"1"}'),
        ("inside", '{"a":{"b":[1,2]}}'),
        ("no row", "text"),
    )
    new = write(
        ("order", '{"b":"x","a":1}'),
        ("number", '{"a":1.0}'),
        ("null", '{"a":1}'),
        ("digits", '{"a":1.00000000000000000000000000000000000002}'),
        ("text", '{"a":1}'),
        ("inside", '{"a":{"b":[1,3]}}'),
        ("no row", "other"),
    )
    found = difference.of_view(connection, old, new, 10)
    assert {one.key for one in found.samples} == {"digits", "text", "inside", "no row"}
    (inside,) = (one for one in found.samples if one.key == "inside")
    assert (inside.old, inside.new) == ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}})


def test_samples_are_the_first_by_key(connection: Connection, write: Write):
    found = difference.of_view(connection, None, write(*((f"k{n}", {"n": n}) for n in range(9, 0, -1))), 3)
    assert [one.key for one in found.samples] == ["k1", "k2", "k3"]
    assert found.added == 9
    assert not found.none
    assert Difference(5, 0, 0, 0).none


def test_repeats_of_live_mode_are_no_difference(connection: Connection, write: Write):
    rows = [("k", {"n": n}) for n in range(5)]
    found = difference.of_stream(connection, write(*rows, *rows[2:], ids=True), write(*rows), 3)
    assert (found.same, found.none) == (5, True)
