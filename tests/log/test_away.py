"""A log that is away: since when, in which words, and that asking never waits."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from confluent_kafka import KafkaError
from tests.contracts.follower_contract import eventually

from headrace.log import away
from headrace.log.away import Pause, Sight
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure


def test_what_passes_and_what_does_not():
    assert away.passes(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert away.passes(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
    assert not away.passes(KafkaError(KafkaError._PARTITION_EOF))
    assert not away.passes(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))
    assert not away.passes(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_pauses_grow_to_a_bound_and_begin_again():
    pause = Pause(longest=1.0)
    lengths = [pause.next() for _ in range(6)]
    assert 0.16 <= lengths[0] <= 0.24
    assert min(lengths[3:]) >= 0.8
    assert max(lengths) <= 1.2
    pause.over()
    assert pause.next() <= 0.24


def test_the_ends_of_a_topic(bootstrap: str, topic: Callable[[], str]):
    name, connection = topic(), Connection(bootstrap)
    ensure(connection, [Topic(name, 2)])
    with Producer(connection) as producer:
        for _ in range(3):
            producer.send(name, b"x", partition=1)
    sight = Sight(connection, name, [0, 1])

    def ends() -> dict[int, int]:
        sight.look()
        return sight.ends

    assert eventually(lambda: ends() == {0: 0, 1: 3})
    assert sight.away is None


def test_a_server_that_never_answers():
    """It takes connections and says nothing, as a frozen broker does."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        sight = Sight(Connection(f"127.0.0.1:{mute.getsockname()[1]}"), "orders", [0])
        before = time.time()

        def gone() -> str:
            sight.look()
            return sight.away or ""

        assert eventually(lambda: gone() != "")
        assert away.since(before) <= gone() <= away.since(time.time())
        assert sight.ends == {}
