"""What the tests of the log share: a connection to the run's broker, and topics that are each test's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    """Create a topic with a name of its own; the arguments are as those of Topic.

    It keeps records for ever: tests write old timestamps, which retention would delete in the middle of the run.
    """

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"{request.node.originalname}-{uuid4().hex[:8]}"
        topic = Topic(name, partitions, retention_ms=-1, config=config or {})
        ensure(connection, [topic])
        return topic.name

    return make


@pytest.fixture
def unreachable() -> Connection:
    """A port on which nothing listens."""
    return Connection("127.0.0.1:1")
