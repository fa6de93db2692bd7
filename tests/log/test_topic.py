from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.log.consumer import Consumer
from headrace.log.producer import Producer
from headrace.log.topic import PartitionDescription, Topic, delete, describe, ensure, names


def fresh() -> str:
    return f"topic-{uuid4().hex[:8]}"


def test_what_is_missing_is_created_once(connection: Connection) -> None:
    one, two = Topic(fresh(), 2, retention_ms=60_000), Topic(fresh(), compacted=True)
    assert ensure(connection, [one]) == [one.name]
    assert ensure(connection, [one, two]) == [two.name]
    assert ensure(connection, [one, two]) == []
    assert {one.name, two.name} <= set(names(connection))
    assert describe(connection, one.name).config == {"cleanup.policy": "delete", "retention.ms": "60000"}
    assert describe(connection, two.name).config == {"cleanup.policy": "compact"}


def test_ensuring_nothing_needs_no_broker(unreachable: Connection) -> None:
    assert ensure(unreachable, []) == []


def test_creators_at_once_are_fine(connection: Connection) -> None:
    topic = Topic(fresh(), 3)
    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(lambda _: ensure(connection, [topic]), range(4)))
    assert sorted(created) == [[], [], [], [topic.name]]
    assert len(describe(connection, topic.name).partitions) == 3


def test_fewer_partitions_than_declared(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(partitions=2)
    assert ensure(connection, [Topic(name, 1)]) == []
    with pytest.raises(LogError) as caught:
        ensure(connection, [Topic(name, 4)])
    assert caught.value.code == "HR-210"
    assert caught.value.found == "2 partitions, declared 4"
    assert "partitions=2" in caught.value.fix


@pytest.mark.parametrize(
    ("there", "declared"),
    [
        (Topic("x"), True),
        (Topic("x", compacted=True), False),
        (Topic("x", compacted=True, retention_ms=1000), True),
    ],
)
def test_another_policy_than_declared(connection: Connection, there: Topic, declared: bool) -> None:
    name = fresh()
    ensure(connection, [Topic(name, retention_ms=there.retention_ms, compacted=there.compacted)])
    with pytest.raises(LogError) as caught:
        ensure(connection, [Topic(name, compacted=declared)])
    assert caught.value.code == "HR-211"
    assert f"cleanup.policy={there.settings()['cleanup.policy']}" in str(caught.value.found)


@pytest.mark.parametrize("declared", [{"name": "a b"}, {"name": "a", "partitions": 0}])
def test_impossible_topics(declared: dict[str, object]) -> None:
    with pytest.raises(LogError, match="HR-212"):
        Topic(**declared)  # pyright: ignore[reportArgumentType]


def test_kafka_refuses_a_setting(connection: Connection) -> None:
    with pytest.raises(LogError, match=r"retention\.ms|abc") as caught:
        ensure(connection, [Topic(fresh(), config={"retention.ms": "abc"})])
    assert caught.value.code == "HR-212"


def test_describe_tells_offsets_and_lag(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic(partitions=2)
    with Producer(connection) as producer:
        for _ in range(5):
            producer.send(name, "x", partition=1)
    group = f"group-{name}"
    with Consumer(connection, group, [name]) as consumer:
        for _ in range(2):
            assert consumer.poll(20) is not None
        consumer.commit()
    described = describe(connection, name)
    assert described.partitions == (PartitionDescription(0, 0, 0), PartitionDescription(1, 0, 5))
    assert described.lag[group] == 3


def test_an_unknown_topic(connection: Connection) -> None:
    with pytest.raises(LogError, match="no topic `nowhere`") as caught:
        describe(connection, "nowhere")
    assert caught.value.code == "HR-205"


def test_delete(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    delete(connection, name, "never-was")
    assert name not in names(connection)
