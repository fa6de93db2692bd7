"""What the records of a table say: put and deleted rows, plain or in Debezium's envelope."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.kernel import bridge

RECORDS = (
    "value binary, key binary, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)
DDL = "id string NOT NULL, price decimal(10,2), at timestamp"


def decoded(
    spark: SparkSession,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    envelope: bool,
    ddl: str = DDL,
    key: str = "id",
) -> list[tuple[Any, ...]]:
    now = datetime.now(UTC)
    rows = [
        (None if v is None else bytearray(v), None if k is None else bytearray(k), 0, n, now, None)
        for n, (k, v) in enumerate(records)
    ]
    frame = bridge.changes(
        spark.createDataFrame(rows, RECORDS),
        query="q",
        topic="t",
        dead_topic="",
        ddl=ddl,
        key=[key],
        envelope=envelope,
        epoch_us=0,
        sign="sign",
        offset="offset",
        kafka=None,
    )
    return [tuple(row) for row in frame.collect()]


def test_plain_records(spark: SparkSession):
    found = decoded(
        spark,
        [
            (b"a", b'{"id":"a","price":1.50}'),
            (b"a", None),
            (None, None),
            (b"a", b'{"id":null}'),
            (b"a", b'{"price":"1"}'),
        ],
        envelope=False,
    )
    assert found == [("a", Decimal("1.50"), None, "+", 0), ("a", None, None, "-", 1)]


def test_keys_that_are_no_text(spark: SparkSession):
    found = decoded(
        spark,
        [(b'{"n":7}', b'{"n":7,"of":"x"}'), (b'{"n":7}', None), (b"7", None), (b'{"m":7}', None)],
        envelope=False,
        ddl="n bigint NOT NULL, of string",
        key="n",
    )
    assert found == [(7, "x", "+", 0), (7, None, "-", 1)]


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_envelope(spark: SparkSession, wrapped: bool):
    def around(text: bytes) -> bytes:
        return b'{"schema":{"type":"struct"},"payload":' + text + b"}" if wrapped else text

    key = around(b'{"id":"a"}')
    at = b'"at":"2026-01-01T00:00:00Z"'
    records = [
        (key, around(b'{"before":null,"after":{"id":"a","price":"1.5",' + at + b'},"op":"r","source":{"lsn":1}}')),
        (key, around(b'{"before":null,"after":{"id":"a","price":2,"more":[1]},"op":"u"}')),
        (key, around(b'{"before":{"id":"a","price":null},"after":null,"op":"d"}')),
        (key, None),
        (key, around(b'{"op":"m"}')),
        (key, around(b'{"after":{"id":"a","price":"1.5x"},"op":"u"}')),
        (key, around(b'{"after":{"id":"a","price":"1.555"},"op":"u"}')),
        (
            key,
            around(b'{"after":{"id":"a","price":"'),
        ),
    ]
    found = decoded(spark, records, envelope=True)
    assert [(row[0], row[1], row[3], row[4]) for row in found] == [
        ("a", Decimal("1.50"), "+", 0),
        ("a", Decimal("2.00"), "+", 1),
        ("a", None, "-", 2),
        ("a", None, "-", 3),
    ]
    assert found[0][2] is not None


def test_a_large_value_that_debezium_could_not_have_is_refused(spark: SparkSession):
    key, ddl = b'{"id":"a"}', "id string NOT NULL, text string"
    missing = b'{"after":{"id":"a","text":"__debezium_unavailable_value"},"op":"u"}'
    records = [(key, b'{"after":{"id":"a","text":"large"},"op":"c"}'), (key, missing)]
    assert decoded(spark, records, envelope=True, ddl=ddl) == [("a", "large", "+", 0)]
    plain = [(b"a", b'{"id":"a","text":"__debezium_unavailable_value"}')]
    assert decoded(spark, plain, envelope=False, ddl=ddl) == [("a", "__debezium_unavailable_value", "+", 0)]
