"""Dead letters on a real broker, from the decoder to the reader, and events from the future."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace import names
from headrace.kernel import bridge
from headrace.log import dead
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.position import Position
from headrace.log.topic import ensure

Decode = Callable[..., list[Any]]
Records = Callable[..., DataFrame]

BAD: list[tuple[bytes | None, bytes | None, str]] = [
    (b"k1", b'{"a": "x"}', "field `a`: expected int, found a string"),
    (b"\xff\x00", b"\xff\xfe\x00", "invalid UTF-8"),
    (None, b"", "the value is empty"),
    (b"", b'{"a": 1} more', "text after the object at byte 9"),
    (b"gone", None, "the record has no value"),
    ("é".encode(), '{"b": "größer'.encode(), "a string is not closed"),
]


@pytest.fixture
def source(connection: Connection, topic: Callable[[str], str]) -> str:
    """A topic whose dead letters have a place to go."""
    name = topic("source")
    ensure(connection, [dead.declaration(name)])
    return name


def decoded(records: DataFrame, source: str, connection: Connection) -> DataFrame:
    return bridge.decode(
        records,
        query="orders",
        topic=source,
        dead_topic=names.dead_topic(source),
        ddl="a int, b string",
        event_time=None,
        future_ms=-1,
        kafka=connection.spark(),
    )


def test_dead_letters_keep_the_record_and_say_why(connection: Connection, source: str, records: Records) -> None:
    good = (b"k0", b'{"a": 1, "b": "x"}')
    pairs = [good, *((key, value) for key, value, _ in BAD), good]
    frame = records([value for _, value in pairs], [key for key, _ in pairs], partition=3)
    assert [tuple(row) for row in decoded(frame, source, connection).collect()] == [(1, "x"), (1, "x")]
    letters = list(dead.dead_letters(connection, source))
    assert [(letter.key, letter.raw, letter.reason) for letter in letters] == BAD
    assert [letter.source for letter in letters] == [Position(source, 3, offset) for offset in range(1, 1 + len(BAD))]
    assert {(letter.query, letter.timestamp_ms) for letter in letters} == {("orders", 1772366400000)}
    headers = dict(next(read(connection, names.dead_topic(source))).headers)
    assert headers == {
        names.HEADER_TOPIC: source.encode(),
        names.HEADER_PARTITION: b"3",
        names.HEADER_OFFSET: b"1",
        names.HEADER_TIMESTAMP: b"1772366400000",
        names.HEADER_REASON: BAD[0][2].encode(),
        names.HEADER_QUERY: b"orders",
    }


def test_dead_letters_keep_the_headers_of_the_record(connection: Connection, source: str, records: Records) -> None:
    frame = records([b"bad"]).withColumn(
        "headers",
        F.expr("""array(named_struct('key', 'trace', 'value', X'00ff'), named_struct('key', 'none', 'value', null),
                        named_struct('key', 'headrace.replayed', 'value', X'31'))"""),
    )
    decoded(frame, source, connection).collect()
    (letter,) = dead.dead_letters(connection, source)
    assert letter.headers == (("trace", b"\x00\xff"), ("none", None))


def test_what_is_done_with_the_rows_does_not_repeat_the_letters(
    connection: Connection, source: str, records: Records
) -> None:
    frame = records([b'{"a": %d, "b": "%s"}' % (i, b"xy"[i % 2 : i % 2 + 1]) if i % 3 else b"bad" for i in range(300)])
    rows = decoded(frame, source, connection)
    counted = (
        rows.where("a > 10 and b = 'x'").select("b", (F.col("a") + F.col("a")).alias("twice")).groupBy("b").count()
    )
    expected = sum(1 for i in range(11, 300) if i % 3 and i % 2 == 0)
    assert [tuple(row) for row in counted.collect()] == [("x", expected)]
    assert len(list(read(connection, names.dead_topic(source)))) == 100


def test_large_records_become_dead_letters(connection: Connection, source: str, records: Records) -> None:
    value = json.dumps({"a": "x" * 5_000_000}).encode()
    assert decoded(records([value, b'{"a": 1}']), source, connection).count() == 1
    (letter,) = dead.dead_letters(connection, source)
    assert letter.raw == value


def test_events_from_the_future_are_refused(decode: Decode) -> None:
    clocks = ["11:00:00", "12:00:00", "12:01:00", "12:01:00.000001", "23:00:00"]
    values = [f'{{"at":"2026-03-01T{clock}Z"}}' for clock in clocks]
    bounded = decode(values, "at timestamp NOT NULL", event_time="at", future_ms=60_000)
    assert [isinstance(fate, dict) for fate in bounded] == [True, True, True, False, False]
    assert bounded[3].reason == "the event time 2026-03-01T12:01:00.000001Z is in the future"
    assert all(isinstance(fate, dict) for fate in decode(values, "at timestamp NOT NULL", event_time="at"))
