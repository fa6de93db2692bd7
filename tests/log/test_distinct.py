from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import headrace as hr
from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.distinct import distinct
from headrace.names import HEADER_ID


def record(made_of: str | None, offset: int, partition: int = 0, topic: str = "t") -> Record:
    headers = (("other", b"x"), (HEADER_ID, made_of.encode())) if made_of is not None else ()
    return Record(topic, partition, offset, 0, None, b"{}", headers)


def offsets(records: list[Record], within: int = 100) -> list[int]:
    return [one.offset for one in distinct(records, within)]


def test_a_repeat_is_dropped() -> None:
    assert offsets([record(one, i) for i, one in enumerate(["a", "b", "a", "c", "b", "d"])]) == [0, 1, 3, 5]


def test_records_without_an_id_all_pass() -> None:
    assert offsets([record(None, i) for i in range(5)]) == [0, 1, 2, 3, 4]


def test_each_partition_has_ids_of_its_own() -> None:
    assert offsets([record("a", 0), record("a", 1, partition=1), record("a", 2, topic="u"), record("a", 3)]) == [
        0,
        1,
        2,
    ]


def test_what_is_remembered_is_bounded() -> None:
    ids = [str(i) for i in range(10)]
    assert offsets([record(one, i) for i, one in enumerate([*ids, "9", "0"])], within=5)[10:] == [11]


def test_a_crash_repeats_a_tail() -> None:
    """Whatever is written again after crashes, every result comes once, in the order of its first coming."""
    chance = random.Random(seed := random.randrange(10**6))
    print(f"seed {seed}")
    written: list[str] = []
    done = 0
    while done < 500:
        upto = min(500, done + chance.randrange(1, 60))
        again = max(0, done - chance.randrange(60))
        written += [str(i) for i in range(again, upto)]
        done = upto
    found = [one.headers[1][1] for one in distinct([record(one, i) for i, one in enumerate(written)], 200)]
    assert found == [str(i).encode() for i in range(500)], seed


def test_rows_of_a_topic(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    with hr.Producer(connection) as producer:
        for one, value in (("1", {"n": 1}), ("2", {"n": 2}), ("1", {"n": 1}), ("3", None), ("4", {"n": 4})):
            producer.send(name, value, headers={HEADER_ID: one})
    assert list(hr.read(connection, name)) == [{"n": 1}, {"n": 2}, {"n": 4}]
    assert list(hr.read(connection, name, limit=1)) == [{"n": 1}]
    assert list(hr.read(connection, name, start={0: 1})) == [{"n": 2}, {"n": 1}, {"n": 4}]


def test_what_is_no_row_is_an_error(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    with hr.Producer(connection) as producer:
        producer.send(name, "[1]")
    with pytest.raises(LogError) as error:
        list(hr.read(connection, name))
    assert error.value.code == "HR-238"
