"""What the tests of the server share: views on the run's Kafka and PostgreSQL, and servers in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from uuid import uuid4

import pytest
from tests.serve.client import Site
from tests.serve.stage import Stage

from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.serve import server
from headrace.serve.guard import Rules
from headrace.serve.site import Service

MakeStage = Callable[..., Stage]
Serve = Callable[..., Site]
TOKEN = "the-token-of-the-tests"
PAGES = "url string NOT NULL, views bigint, ratio double, at timestamp"


@pytest.fixture(scope="session")
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


@pytest.fixture
def app() -> str:
    """An app that no other test has."""
    return f"app_{uuid4().hex[:10]}"


@pytest.fixture
def make_stage(connection: Connection, postgres_url: str, app: str) -> MakeStage:
    """Make a view: `make_stage("pages", schema, ["url"])`."""

    def make(name: str = "pages", schema: str = PAGES, key: tuple[str, ...] = ("url",), **options: object) -> Stage:
        path: object = options.pop("path", ())
        view = View(app=app, view=name, topic=f"{app}.{name}", schema=schema, key=tuple(key), path=path)  # pyright: ignore[reportArgumentType]
        return Stage(connection, postgres_url, view, **options)  # pyright: ignore[reportArgumentType]

    return make


@contextmanager
def running(app: str, connection: Connection, postgres_url: str, rules: Rules) -> Iterator[Site]:
    """A server in a thread."""
    bound = server.bind("127.0.0.1", 0)
    stops: list[Callable[[], None]] = []
    begun = threading.Event()

    def ready(stop: Callable[[], None]) -> None:
        stops.append(stop)
        begun.set()

    service = Service(app, connection, postgres_url, rules)
    thread = threading.Thread(target=server.serve, args=(service, bound, ready), daemon=True)
    url = server.address(bound)
    thread.start()
    assert begun.wait(60)
    try:
        yield Site(url, rules.token)
    finally:
        stops[0]()
        thread.join(60)
        assert not thread.is_alive(), "the server did not stop"


@pytest.fixture
def serve(connection: Connection, postgres_url: str, app: str) -> Iterator[Serve]:
    """Start a server of the test's app."""
    with ExitStack() as stack:

        def start(**rules: frozenset[str]) -> Site:
            return stack.enter_context(running(app, connection, postgres_url, Rules(TOKEN, **rules)))

        yield start
