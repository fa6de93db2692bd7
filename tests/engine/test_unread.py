"""What is left to read, where offsets hold no records: transaction markers, aborted and open transactions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer as Writer

from headrace.engine import offsets, unread
from headrace.engine.unread import Next, Unread
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.topic import Topic


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


class Log:
    """A topic of one partition with a transactional writer."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.place = name, 0
        self.connection = connection
        topics.ensure(connection, [Topic(name, 1)])
        self._admin = connection.admin()
        self.writer = Writer(connection.client(**{"transactional.id": name}))
        self.writer.init_transactions(30)

    def write(self, *values: str, commit: bool = True) -> None:
        self.writer.begin_transaction()
        for value in values:
            self.writer.produce(self.place[0], value)
        self.writer.flush(30)
        self.writer.commit_transaction(30) if commit else self.writer.abort_transaction(30)
        offsets.visible(self.connection, [self.place[0]], seconds=30)

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        return offsets.ends(self._admin, [self.place])


@pytest.fixture
def log(connection: Connection, topic: Callable[[], str]) -> Log:
    return Log(connection, topic())


def test_what_follows_an_offset(connection: Connection, log: Log):
    log.write("a", "b")  # offsets 0, 1 and a marker
    log.write("c", commit=False)  # 3, and a marker
    log.write("d")  # 5, and a marker
    log.write("e", commit=False)  # 7, and a marker
    assert log.ends == {log.place: 9}
    found = {at: unread.following(connection, {log.place: at})[log.place] for at in (0, 1, 2, 5, 6, 9)}
    assert found == {
        0: Next(0, 0, True),
        1: Next(1, 1, True),
        2: Next(2, 5, True),
        5: Next(5, 5, True),
        6: Next(6, 9, False),
        9: Next(9, 9, False),
    }
    assert unread.following(connection, {}) == {}


def test_who_has_read_every_record_is_not_behind(connection: Connection, log: Log):
    left = Unread(connection)
    log.write("a")
    log.write("b", commit=False)
    assert left.behind("q", {log.place: 1}, log.ends) == {log.place: 3}, "it may be reading"
    assert left.behind("q", {log.place: 1}, log.ends) == {log.place: 0}, "it stands still, and nothing is left"
    assert left.over("q", {log.place: 1}) == log.ends
    assert left.over("q", {log.place: 0}) == {log.place: 0}
    assert left.over("other", {log.place: 1}) == {log.place: 1}
    log.write("c", commit=False)
    assert left.behind("q", {log.place: 1}, log.ends) == {log.place: 0}
    log.write("d", "e")
    assert left.behind("q", {log.place: 1}, log.ends) == {log.place: 3}
    assert left.behind("q", {log.place: 1}, log.ends) == {log.place: 3}, "two records are left, and a marker"
    assert left.behind("q", {log.place: log.ends[log.place] - 1}, log.ends) == {log.place: 1}
    assert left.behind("q", {log.place: log.ends[log.place] - 1}, log.ends) == {log.place: 0}


def test_what_is_not_committed_is_not_awaited(connection: Connection, log: Log):
    log.write("a")
    log.writer.begin_transaction()
    log.writer.produce(log.place[0], "b")
    log.writer.flush(30)
    assert log.ends == {log.place: 2}
    log.writer.abort_transaction(30)
