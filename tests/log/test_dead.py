from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Writer

from headrace import names
from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.dead import (
    DeadLetter,
    ReplayReport,
    dead_letters,
    declaration,
    pending,
    replay,
    to_record,
)
from headrace.log.position import Position
from headrace.log.producer import Producer
from headrace.log.topic import describe, ensure


def source(topic: str, offset: int, partition: int = 0) -> Record:
    """A record of the source topic, as a query reads it."""
    return Record(topic, partition, offset, 1_000 + offset, b"key", f"raw-{offset}".encode(), (("trace", b"t"),))


def bury(connection: Connection, *records: Record, query: str = "q", partition: int = 0) -> None:
    with Producer(connection) as producer:
        for record in records:
            producer.send(**to_record(record, reason="no number", query=query), partition=partition)


def put_back(connection: Connection, topic: str) -> list[str]:
    return sorted((record.value or b"").decode() for record in read(connection, topic))


@pytest.fixture
def topic(connection: Connection, make_topic: Callable[..., str]) -> str:
    """A source topic of two partitions, with its dead letter topic of two."""
    name = make_topic(partitions=2)
    ensure(connection, [declaration(name, partitions=2)])
    return name


def test_a_letter_is_the_record_with_its_origin(connection: Connection, topic: str) -> None:
    bury(connection, source(topic, 7, partition=1))
    record = next(iter(read(connection, names.dead_topic(topic))))
    assert (record.key, record.value) == (b"key", b"raw-7")
    assert dict(record.headers) == {
        "headrace.topic": topic.encode(),
        "headrace.partition": b"1",
        "headrace.offset": b"7",
        "headrace.timestamp": b"1007",
        "headrace.reason": b"no number",
        "headrace.query": b"q",
        "trace": b"t",
    }
    assert list(dead_letters(connection, topic)) == [
        DeadLetter(
            position=Position(names.dead_topic(topic), 0, 0),
            source=Position(topic, 1, 7),
            timestamp_ms=1007,
            reason="no number",
            query="q",
            key=b"key",
            raw=b"raw-7",
            headers=(("trace", b"t"),),
        )
    ]


def test_a_topic_without_letters(connection: Connection, make_topic: Callable[..., str]) -> None:
    name = make_topic()
    assert list(dead_letters(connection, name)) == []
    assert pending(connection, name) == 0
    assert replay(connection, name) == ReplayReport(0, 0)
    with pytest.raises(LogError, match="HR-205"):
        dead_letters(connection, "nowhere")


def test_repeats_of_a_query_are_shown_once_and_others_are_passed_over(connection: Connection, topic: str) -> None:
    bury(connection, source(topic, 1), source(topic, 2))
    bury(connection, source(topic, 1), source(topic, 2), partition=1)
    bury(connection, source(topic, 1), query="another")
    with Producer(connection) as producer:
        producer.send(names.dead_topic(topic), "not a letter")
    letters = sorted((letter.source.offset, letter.query) for letter in dead_letters(connection, topic))
    assert letters == [(1, "another"), (1, "q"), (2, "q")]
    assert pending(connection, topic) == 2
    assert len(list(dead_letters(connection, topic, limit=2))) == 2


def test_replay_puts_each_source_record_back_once(connection: Connection, topic: str) -> None:
    bury(connection, source(topic, 1), source(topic, 1), source(topic, 2, partition=1))
    bury(connection, source(topic, 1), query="another", partition=1)
    assert replay(connection, topic) == ReplayReport(2, 0)
    first, second = sorted(read(connection, topic), key=lambda record: record.value or b"")
    assert (first.partition, first.key, first.value) == (0, b"key", b"raw-1")
    assert (first.header("trace"), first.header(names.HEADER_TIMESTAMP)) == ("t", "1001")
    (letter,) = [x for x in dead_letters(connection, topic) if x.source.offset == 1 and x.query == "q"]
    (dead,) = [r for r in read(connection, names.dead_topic(topic)) if r.position == letter.position]
    assert first.timestamp_ms >= dead.timestamp_ms, "with its old timestamp, retention would delete it again"
    replayed = Position.parse(first.header(names.HEADER_REPLAYED) or "")
    assert replayed in {letter.position for letter in dead_letters(connection, topic)}
    assert (second.partition, second.value) == (1, b"raw-2")
    assert describe(connection, names.dead_topic(topic)).lag[names.replay_group(topic)] == 0

    assert replay(connection, topic) == ReplayReport(0, 0)
    bury(connection, source(topic, 2, partition=1), source(topic, 3))
    assert pending(connection, topic) == 1, "a repeat of a letter that was put back is not a new one"
    assert replay(connection, topic) == ReplayReport(1, 0)
    assert put_back(connection, topic) == ["raw-1", "raw-2", "raw-3"]


def test_chosen_letters_are_not_put_back_again(connection: Connection, topic: str) -> None:
    bury(connection, *(source(topic, i) for i in range(5)))
    bury(connection, source(topic, 5), partition=1)
    position = {letter.source.offset: letter.position for letter in dead_letters(connection, topic)}
    assert replay(connection, topic, positions=[position[3], position[1]]) == ReplayReport(2, 4)
    assert replay(connection, topic, positions=[position[3]]) == ReplayReport(0, 4)
    remaining = dead_letters(connection, topic, pending_only=True)
    assert sorted(letter.source.offset for letter in remaining) == [0, 2, 4, 5]
    assert replay(connection, topic, positions=[position[0]]) == ReplayReport(1, 3)
    assert replay(connection, topic) == ReplayReport(3, 0)
    assert replay(connection, topic) == ReplayReport(0, 0)
    assert put_back(connection, topic) == [f"raw-{i}" for i in range(6)]


def test_a_letter_that_is_not_there(connection: Connection, topic: str) -> None:
    bury(connection, source(topic, 1))
    with pytest.raises(LogError) as caught:
        replay(connection, topic, positions=[Position(names.dead_topic(topic), 0, 99)])
    assert caught.value.code == "HR-235"
    assert put_back(connection, topic) == []


def test_transform_corrects_or_leaves(connection: Connection, topic: str) -> None:
    bury(connection, *(source(topic, i) for i in range(4)))
    bury(connection, source(topic, 1), partition=1)

    def correct(letter: DeadLetter) -> bytes | None:
        return None if letter.source.offset == 1 else (letter.raw or b"").upper()

    assert replay(connection, topic, transform=correct) == ReplayReport(3, 1)
    assert replay(connection, topic, transform=correct) == ReplayReport(0, 1)
    assert pending(connection, topic) == 1
    assert put_back(connection, topic) == ["RAW-0", "RAW-2", "RAW-3"]


def test_a_transform_that_fails_changes_nothing_in_its_batch(connection: Connection, topic: str) -> None:
    bury(connection, *(source(topic, i) for i in range(3)))

    def fail(letter: DeadLetter) -> bytes:
        if letter.source.offset == 2:
            raise KeyError(letter.source.offset)
        return b""

    with pytest.raises(KeyError):
        replay(connection, topic, transform=fail)
    assert put_back(connection, topic) == []
    assert pending(connection, topic) == 3


class Failing(Writer):
    """A client whose commit fails when everything is written already."""

    def commit_transaction(self, timeout: float = -1) -> None:
        self.flush()
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_replay_that_cannot_commit_is_rolled_back(
    connection: Connection, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(connection, source(topic, 1), source(topic, 2))
    with monkeypatch.context() as patch:
        patch.setattr("headrace.log.dead.Writer", Failing)
        with pytest.raises(LogError, match="HR-201"):
            replay(connection, topic)
    assert len(list(read(connection, topic, committed=False))) == 2, "they were written, and rolled back"
    assert put_back(connection, topic) == []
    assert replay(connection, topic) == ReplayReport(2, 0)
    assert put_back(connection, topic) == ["raw-1", "raw-2"]


KILLED = """
import os, signal, sys
from headrace.log import dead
from headrace.log.connection import Connection

class Killed(dead.Writer):
    def commit_transaction(self, *arguments):
        if sys.argv[3] == "after":
            super().commit_transaction(*arguments)
        else:
            self.flush()
        os.kill(os.getpid(), signal.SIGKILL)

dead.Writer = Killed
dead._BATCH_RECORDS = 2
dead.replay(Connection(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.parametrize(("when", "first"), [("before", 0), ("after", 2)])
def test_kill_neither_loses_nor_doubles(connection: Connection, topic: str, when: str, first: int) -> None:
    bury(connection, *(source(topic, i) for i in range(5)))
    done = subprocess.run([sys.executable, "-c", KILLED, connection.bootstrap, topic, when], check=False)
    assert done.returncode == -9
    assert replay(connection, topic) == ReplayReport(5 - first, 0)
    assert put_back(connection, topic) == [f"raw-{i}" for i in range(5)]


def test_of_two_replays_the_older_is_fenced_off(connection: Connection, topic: str) -> None:
    bury(connection, source(topic, 1))
    inner: list[ReplayReport] = []

    def meanwhile(letter: DeadLetter) -> bytes | None:
        inner.append(replay(connection, topic))
        return letter.raw

    with pytest.raises(LogError) as caught:
        replay(connection, topic, transform=meanwhile)
    assert caught.value.code == "HR-236"
    assert inner == [ReplayReport(1, 0)]
    assert put_back(connection, topic) == ["raw-1"]
