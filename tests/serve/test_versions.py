"""A view that is switched to another version while it is read: every answer is of one version, and says how far it is
in that one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.serve.client import Site
from tests.serve.conftest import Serve

from headrace.followers.view_follower import ViewFollower
from headrace.log import catalogue
from headrace.log.catalogue import Version, View
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure, identities
from headrace.names import FIRST_VERSION, versioned
from headrace.serve.positions import Positions, digest

ROWS = 100
COLUMNS = {FIRST_VERSION: "url string, made string", "v2": "url string, made string, n bigint"}


class Switched:
    """A view in two versions, the second with a column more; `point` is the first half of a switch, `exchange` the
    other."""

    def __init__(self, app: str, connection: Connection, url: str) -> None:
        self.connection = connection
        self.url = url
        self.views = {
            version: View(app, "pages", versioned(f"{app}.pages", version), columns, ("url",), version)
            for version, columns in COLUMNS.items()
        }
        for view in self.views.values():
            ensure(connection, [Topic(view.topic, 2, compacted=True)])
            self.put(view.version, *(f"/{number}" for number in range(ROWS)))
        known = identities(connection, [view.topic for view in self.views.values()])
        self.digests = {version: digest(known[view.topic]) for version, view in self.views.items()}
        catalogue.record(connection, *(Version(view, built=True) for view in self.views.values()))
        self.point(FIRST_VERSION)
        self.exchange(FIRST_VERSION)

    def put(self, version: str, *urls: str) -> None:
        with Producer(self.connection) as producer:
            for url in urls:
                producer.send(self.views[version].topic, {"url": url, "made": version}, key=url)

    def point(self, version: str) -> None:
        catalogue.publish(self.connection, self.views[version])

    def exchange(self, version: str) -> None:
        ViewFollower(self.url, self.views[version], self.connection).catch_up()


@pytest.fixture
def switched(app: str, connection: Connection, postgres_url: str) -> Switched:
    return Switched(app, connection, postgres_url)


def of_one_version(site: Site, switched: Switched) -> str:
    """Read the view; the version of all rows, which is also that of the position and the columns."""
    answer = site.get("/views/pages", {"limit": 1000})
    assert answer.status == 200, answer.text
    rows = answer.json["rows"]
    (version,) = {row["made"] for row in rows}
    assert len(rows) == ROWS
    assert all(("n" in row) == (version == "v2") for row in rows)
    assert Positions.parse(answer.json["position"]).topic == switched.digests[version]
    return version


@contextmanager
def reading(site: Site, switched: Switched) -> Iterator[list[str]]:
    seen: list[str] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                seen.append(of_one_version(site, switched))
                row = site.get("/views/pages/%2F7")
                assert row.status == 200, row.text
        except BaseException as error:  # the test fails with it
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for one in readers:
        one.start()
    try:
        yield seen
    finally:
        stop.set()
        for one in readers:
            one.join()
    assert failures == []


def test_every_answer_is_of_one_version(switched: Switched, serve: Serve):
    site = serve()
    with reading(site, switched) as seen:
        for version in ["v2", FIRST_VERSION] * 4:
            switched.point(version)
            switched.exchange(version)
            assert of_one_version(site, switched) == version, "at once, whatever the server had read of the catalogue"
    assert set(seen) == set(COLUMNS)


def test_what_the_table_holds_is_served(switched: Switched, serve: Serve):
    """Between the two halves of a switch, also when the second never came: `follow` is not there, or was killed."""
    switched.point("v2")
    site = serve()
    assert of_one_version(site, switched) == FIRST_VERSION
    (told,) = site.get("/views").json["views"]
    assert (told["version"], told["topic"]) == (FIRST_VERSION, switched.views[FIRST_VERSION].topic)
    switched.exchange("v2")
    assert of_one_version(site, switched) == "v2"
    assert site.get("/views").json["views"][0]["version"] == "v2"


def test_a_subscriber_comes_back_to_the_other_version(switched: Switched, serve: Serve):
    site = serve()

    async def play() -> tuple[Any, list[tuple[str, Any]]]:
        stream = await site.changes("pages")
        before = await stream.until("ready")
        assert {data["row"]["made"] for name, data in before if name == "snapshot"} == {FIRST_VERSION}
        await asyncio.to_thread(switched.point, "v2")
        await asyncio.to_thread(switched.exchange, "v2")
        closed = (await stream.until("closed"))[-1]
        again = await site.changes("pages", last=stream.id)
        return closed, await again.until("ready")

    (_, closed), events = asyncio.run(play())
    assert closed["code"] == "HR-518"
    assert events[0][0] == "reset"
    assert {data["row"]["made"] for name, data in events if name == "snapshot"} == {"v2"}
    assert sum(name == "snapshot" for name, _ in events) == ROWS
