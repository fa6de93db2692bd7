from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka import Producer as Writer

from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.log.consumer import BEGINNING, END, Consumer, Record, read
from headrace.log.position import Position
from headrace.log.producer import Producer
from headrace.log.topic import describe

EPOCH = datetime(2026, 3, 1, tzinfo=UTC)


def write(connection: Connection, topic: str, *values: str, partition: int = 0) -> None:
    """Records a second apart, the first at EPOCH."""
    with Producer(connection) as producer:
        for i, value in enumerate(values):
            producer.send(topic, value, partition=partition, timestamp=EPOCH + timedelta(seconds=i))


def transaction(connection: Connection, topic: str, *values: str, commit: bool) -> None:
    writer = Writer(connection.client(**{"transactional.id": topic}))
    writer.init_transactions(20)
    writer.begin_transaction()
    for value in values:
        writer.produce(topic, value, partition=0)
    writer.flush()
    if commit:
        writer.commit_transaction(20)
    else:
        writer.abort_transaction(20)


def values(records: object) -> list[str]:
    assert not isinstance(records, Record)
    return [(record.value or b"").decode() for record in records]  # pyright: ignore[reportGeneralTypeIssues]


def take(consumer: Consumer, count: int) -> list[str]:
    taken: list[str] = []
    while len(taken) < count:
        record = consumer.poll(20)
        assert record is not None, f"only {taken} came"
        taken.append((record.value or b"").decode())
    return taken


def test_an_empty_topic_ends_at_once(connection: Connection, make_topic: Callable[..., str]) -> None:
    assert list(read(connection, make_topic(partitions=3))) == []


def test_all_partitions_to_the_end(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(partitions=3)
    write(connection, name, "a", "b", partition=0)
    write(connection, name, "c", partition=2)
    assert sorted(values(read(connection, name))) == ["a", "b", "c"]
    assert len(list(read(connection, name, limit=2))) == 2


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (BEGINNING, ["a", "b", "c"]),
        (END, []),
        ({0: 1}, ["b", "c"]),
        ({0: 3}, []),
        (EPOCH, ["a", "b", "c"]),
        (EPOCH + timedelta(milliseconds=500), ["b", "c"]),
        (EPOCH + timedelta(days=1), []),
    ],
)
def test_starts(connection: Connection, make_topic: Callable[..., str], start: object, expected: list[str]) -> None:
    name = make_topic()
    write(connection, name, "a", "b", "c")
    assert values(read(connection, name, start=start)) == expected  # pyright: ignore[reportArgumentType]


def test_start_at_positions_reads_those_partitions_only(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(partitions=2)
    write(connection, name, "a", "b", partition=0)
    write(connection, name, "c", "d", partition=1)
    assert values(read(connection, name, start=[Position(name, 1, 1)])) == ["d"]


@pytest.mark.parametrize("start", [{0: 17}, {5: 0}, datetime(2026, 3, 1)])
def test_a_start_that_is_not_there(connection: Connection, make_topic: Callable[..., str], start: object) -> None:
    name = make_topic()
    write(connection, name, "a")
    with pytest.raises(LogError) as caught:
        list(read(connection, name, start=start))  # pyright: ignore[reportArgumentType]
    assert caught.value.code == "HR-225"


def test_transactions_leave_gaps(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    write(connection, name, "before")
    transaction(connection, name, "lost-1", "lost-2", commit=False)
    transaction(connection, name, "kept", commit=True)
    transaction(connection, name, "lost-3", commit=False)
    records = list(read(connection, name))
    assert values(records) == ["before", "kept"]
    assert records[-1].offset + 2 < describe(connection, name).partitions[0].next
    assert values(read(connection, name, committed=False)) == ["before", "lost-1", "lost-2", "kept", "lost-3"]


def test_a_topic_of_aborted_records_only(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    transaction(connection, name, "lost", commit=False)
    assert values(read(connection, name)) == []


def test_an_open_transaction_does_not_hold_up_a_bounded_read(
    connection: Connection, make_topic: Callable[..., str]
) -> None:
    name = make_topic()
    write(connection, name, "before")
    writer = Writer(connection.client(**{"transactional.id": name}))
    writer.init_transactions(20)
    writer.begin_transaction()
    writer.produce(name, "open", partition=0)
    writer.flush()
    write(connection, name, "after")
    assert values(read(connection, name)) == ["before"]
    writer.commit_transaction(20)
    assert values(read(connection, name, follow=True, limit=3)) == ["before", "open", "after"]


@pytest.mark.parametrize("at", [2, 3, 4])
def test_a_bounded_read_that_starts_behind_an_open_transaction_is_empty(
    connection: Connection, make_topic: Callable[..., str], at: int
) -> None:
    name = make_topic(partitions=2)
    write(connection, name, "a", "b")
    write(connection, name, "c", partition=1)
    writer = Writer(connection.client(**{"transactional.id": name}))
    writer.init_transactions(20)
    writer.begin_transaction()
    for value in ("open", "too"):
        writer.produce(name, value, partition=0)
    writer.flush()
    try:
        assert values(read(connection, name, start={0: at, 1: 0})) == ["c"]
    finally:
        writer.abort_transaction(20)


def test_a_bounded_read_ends_where_the_topic_ended(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    write(connection, name, "a", "b")
    records = read(connection, name)
    write(connection, name, "c")
    assert values(records) == ["a", "b"]


def test_records_that_were_deleted(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    write(connection, name, "a", "b", "c")
    admin = connection.admin()
    admin.delete_records([TopicPartition(name, 0, 2)])[TopicPartition(name, 0)].result()
    assert values(read(connection, name)) == ["c"]
    with pytest.raises(LogError, match=r"HR-225[\s\S]*\[0\]"):
        list(read(connection, name, start={0: 0}))


def test_follow_sees_what_comes_later(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    write(connection, name, "a")
    records = read(connection, name, follow=True)
    assert (next(records).value or b"") == b"a"
    write(connection, name, "b")
    assert (next(records).value or b"") == b"b"


def test_an_unknown_topic(connection: Connection) -> None:
    with pytest.raises(LogError, match="HR-205"):
        read(connection, "nowhere")
    with pytest.raises(LogError, match="HR-205"):
        Consumer(connection, "g", ["nowhere"])


def test_a_group_goes_on_where_it_committed(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    write(connection, name, "a", "b", "c")
    with Consumer(connection, name, [name]) as consumer:
        assert take(consumer, 2) == ["a", "b"]
        assert consumer.commit() == (Position(name, 0, 2),)
        assert take(consumer, 1) == ["c"]
    with Consumer(connection, name, [name]) as consumer:
        assert take(consumer, 1) == ["c"], "what was not committed comes again"
        assert consumer.poll(1) is None
        consumer.commit()
        assert consumer.commit() == ()
    assert describe(connection, name).lag[name] == 0


def test_the_lag_of_a_group_at_the_end_is_zero_behind_transactions(
    connection: Connection, make_topic: Callable[..., str]
) -> None:
    name = make_topic()
    transaction(connection, name, "kept", commit=True)
    with Consumer(connection, name, [name]) as consumer:
        assert take(consumer, 1) == ["kept"]
        assert consumer.poll(1) is None
        consumer.commit()
    assert describe(connection, name).lag[name] == 0


def test_a_group_is_set_back(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    write(connection, name, "a", "b", "c")
    with Consumer(connection, name, [name]) as consumer:
        assert take(consumer, 3) == ["a", "b", "c"]
        consumer.commit()
        consumer.seek(BEGINNING)
        assert take(consumer, 3) == ["a", "b", "c"]
        consumer.seek({0: 1})
        assert take(consumer, 2) == ["b", "c"]
        consumer.seek(EPOCH + timedelta(seconds=2))
        assert take(consumer, 1) == ["c"]
        consumer.seek([Position("another", 0, 0)])
        assert consumer.poll(0.5) is None, "a partition that is not named stays where it is"
        consumer.seek(BEGINNING)
        consumer.seek([Position("another", 0, 0)])
        assert take(consumer, 3) == ["a", "b", "c"], "also when it was moved before and not read yet"
    with Consumer(connection, name, [name]) as consumer:
        consumer.seek(BEGINNING)
        assert take(consumer, 3) == ["a", "b", "c"]


def test_where_a_new_group_starts(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    write(connection, name, "a", "b")
    with Consumer(connection, f"{name}.end", [name], start=END) as consumer:
        assert consumer.poll(1) is None
        write(connection, name, "c")
        assert take(consumer, 1) == ["c"]
    with Consumer(connection, f"{name}.time", [name], start=EPOCH + timedelta(milliseconds=1)) as consumer:
        assert take(consumer, 1) == ["b"]


class Deaf:
    """A client that brings nothing any more, as one that does not find the coordinator of its group again."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def poll(self, timeout: float) -> None:
        time.sleep(timeout)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def test_a_member_that_hears_nothing_joins_again(
    connection: Connection, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.log.away.SILENCE_S", 0.5)
    topic = make_topic()
    write(connection, topic, "a")
    with Consumer(connection, f"{topic}-group", [topic]) as consumer:
        assert take(consumer, 1) == ["a"]
        consumer.commit()
        deaf: Any = Deaf(consumer._client)
        consumer._client = deaf
        consumer._heard(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        until = time.monotonic() + 3
        while time.monotonic() < until:  # nothing has come that it could have missed
            assert consumer.poll(0.1) is None
        assert consumer._client is deaf
        write(connection, topic, "b")
        assert take(consumer, 1) == ["b"]
