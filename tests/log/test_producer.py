from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.position import Position
from headrace.log.producer import Producer


def test_a_record_arrives_as_it_was_sent(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(partitions=2)
    at = datetime(2026, 3, 1, tzinfo=UTC)
    with Producer(connection) as producer:
        delivery = producer.send(
            name, {"id": 1, "at": at}, key="k", headers={"a": "1", "b": None}, partition=1, timestamp=at
        )
        assert delivery.wait() == Position(name, 1, 0)
        producer.send(name, b"\xff", headers=[("a", b"1"), ("a", b"2")], partition=0)
        producer.send(name, None, key=b"k", partition=1)
    assert producer.positions == (Position(name, 0, 0), Position(name, 1, 1))
    records = {record.position: record for record in read(connection, name)}
    first = records[Position(name, 1, 0)]
    assert json.loads(first.value or b"") == {"id": 1, "at": "2026-03-01T00:00:00.000000Z"}
    assert (first.key, first.timestamp_ms, first.headers) == (
        b"k",
        round(at.timestamp() * 1000),
        (("a", b"1"), ("b", None)),
    )
    assert records[Position(name, 0, 0)].value == b"\xff"
    assert records[Position(name, 0, 0)].headers == (("a", b"1"), ("a", b"2"))
    assert records[Position(name, 1, 1)].value is None


def test_keys_choose_partitions_as_java_does(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(partitions=16)
    with Producer(connection) as producer:
        placed = {key: producer.send(name, "", key=key) for key in ("21", "foobar", "a-little-bit-long-string")}
    # Java's murmur2 of these keys, from the tests of Kafka's own clients.
    java = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    assert {key: delivery.wait().partition for key, delivery in placed.items()} == {
        key: (value & 0x7FFFFFFF) % 16 for key, value in java.items()
    }


def test_a_full_queue_waits(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    with Producer(connection, options={"queue.buffering.max.messages": 10}) as producer:
        for i in range(500):
            producer.send(name, str(i))
    assert [record.value for record in read(connection, name)] == [str(i).encode() for i in range(500)]


def test_a_record_that_is_too_large(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(config={"max.message.bytes": "2000"})
    producer = Producer(connection, options={"compression.type": "none"})
    delivery = producer.send(name, b"x" * 5000)
    with pytest.raises(LogError) as caught:
        producer.flush()
    assert caught.value.code == "HR-221"
    assert caught.value.found == "5000 bytes of key and value, the limit is 2000"
    with pytest.raises(LogError, match="HR-221"):
        delivery.wait()
    producer.send(name, "small")
    producer.flush()
    assert [record.value for record in read(connection, name)] == [b"small"]


def test_larger_than_any_record(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    with Producer(connection) as producer, pytest.raises(LogError, match="too large"):
        producer.send(name, bytes(65 * 1024 * 1024))


def test_a_lost_record_is_told_even_without_flush(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(config={"max.message.bytes": "2000"})

    def lose() -> None:
        with Producer(connection, options={"compression.type": "none"}) as producer:
            producer.send(name, b"x" * 5000)

    with pytest.raises(LogError, match="HR-221"):
        lose()


def test_the_error_inside_the_block_is_kept(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(config={"max.message.bytes": "2000"})

    def fail() -> None:
        with Producer(connection, options={"compression.type": "none"}) as producer:
            producer.send(name, b"x" * 5000)
            raise KeyError("first")

    with pytest.raises(KeyError) as caught:
        fail()
    assert "HR-221" in caught.value.__notes__[0]


def test_an_unknown_topic_is_told(connection: Connection) -> None:
    producer = Producer(connection, options={"topic.metadata.propagation.max.ms": 100})
    producer.send("nowhere", "x")
    with pytest.raises(LogError, match="`nowhere` was not written") as caught:
        producer.flush()
    assert caught.value.code == "HR-220"


def test_an_unreachable_broker_is_told_at_once(unreachable: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.connection.TIMEOUT_S", 1.0)
    with pytest.raises(LogError, match="HR-201"):
        Producer(unreachable)
