"""What the tests of the log share: a connection to the run's broker, and topics that are each test's own."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from headrace.log.connection import Connection
from headrace.log.topic import Topic, ensure

MakeTopic = Callable[..., str]


@pytest.fixture(scope="session")
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


@pytest.fixture
def make_topic(connection: Connection, request: pytest.FixtureRequest) -> MakeTopic:
    """Create a topic with a name of its own; the arguments are those of Topic."""

    def make(**declared: object) -> str:
        topic = Topic(f"{request.node.originalname}-{uuid4().hex[:8]}", **declared)  # pyright: ignore[reportArgumentType]
        ensure(connection, [topic])
        return topic.name

    return make


@pytest.fixture
def unreachable() -> Connection:
    """A port on which nothing listens."""
    return Connection("127.0.0.1:1")
