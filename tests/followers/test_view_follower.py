"""The table of a view passes its name from one version to another: whole, at once, and back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, LiteralString, cast

import psycopg
import pytest
from psycopg import sql

from headrace.errors import FollowError
from headrace.followers.postgres import version_of
from headrace.followers.view_follower import ViewFollower, fill_beside
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.names import FIRST_VERSION, versioned

ROWS = 200


@dataclass(frozen=True)
class Versions:
    """Versions of one view, whose rows say of which they are: `made` columns, as many as the version has."""

    app: str
    url: str
    connection: Connection

    def of(self, version: str, *, more: str = "") -> View:
        topic = versioned(f"{self.app}.totals", version)
        return View(self.app, "totals", topic, f"id string, made string{more}", ("id",), version)

    def write(self, version: str, *ids: str) -> None:
        view = self.of(version)
        ensure(self.connection, [Topic(view.topic, 2, compacted=True)])
        with Producer(self.connection) as producer:
            for one in ids:
                producer.send(view.topic, {"id": one, "made": version}, key=one)

    def follow(self, view: View) -> int:
        return ViewFollower(self.url, view, self.connection).catch_up()

    def rows(self, table: str = "totals") -> dict[str, str]:
        return dict(self.ask(sql.SQL("SELECT id, made FROM {}").format(sql.Identifier(self.app, table))))

    def ask(self, statement: sql.Composed | str) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(cast(LiteralString, statement))
            return cursor.fetchall() if cursor.description else []

    def positions(self) -> dict[tuple[str, str], int]:
        found = self.ask(
            "SELECT follower, topic, sum(next_offset)::int FROM headrace.positions"
            f" WHERE follower LIKE '{self.app}.%' GROUP BY follower, topic"
        )
        return {(follower.removeprefix(f"{self.app}."), topic): total for follower, topic, total in found}


@pytest.fixture
def versions(topic: Callable[[str], str], postgres_url: str, bootstrap: str) -> Versions:
    return Versions(topic("shop"), postgres_url, Connection(bootstrap))


@contextmanager
def reading(versions: Versions) -> Iterator[list[set[str]]]:
    """Somebody reads the table over and over meanwhile; what was seen of each read, of which versions its rows were."""
    seen: list[set[str]] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def read() -> None:
        try:
            with psycopg.connect(versions.url, autocommit=True) as connection:
                statement = sql.SQL("SELECT made, count(*) FROM {} GROUP BY made").format(
                    sql.Identifier(versions.app, "totals")
                )
                while not stop.is_set():
                    found = dict(connection.execute(statement).fetchall())
                    assert sum(found.values()) == ROWS, found
                    seen.append(set(found))
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


def test_a_reader_sees_one_version_or_the_other(versions: Versions):
    ids = [str(number) for number in range(ROWS)]
    for version in (FIRST_VERSION, "v2"):
        versions.write(version, *ids)
    versions.follow(versions.of(FIRST_VERSION))
    with reading(versions) as seen:
        for version in ["v2", FIRST_VERSION] * 10:
            versions.follow(versions.of(version))
            assert set(versions.rows().values()) == {version}
    assert {frozenset(one) for one in seen} == {frozenset({FIRST_VERSION}), frozenset({"v2"})}


def test_positions_go_along_with_the_name(versions: Versions):
    first, second = versions.of(FIRST_VERSION), versions.of("v2")
    versions.write(FIRST_VERSION, "a", "b", "c")
    versions.write("v2", "a", "b")
    versions.follow(first)
    versions.follow(second)
    assert versions.positions() == {("totals", second.topic): 2, ("totals.first", first.topic): 3}
    assert versions.rows("totals.first").keys() == {"a", "b", "c"}
    versions.write("v2", "d")
    assert versions.follow(second) == 1, "it goes on where the table beside was"
    assert versions.rows() == dict.fromkeys("abd", "v2")
    versions.follow(first)
    assert versions.positions() == {("totals", first.topic): 3, ("totals.v2", second.topic): 3}
    assert versions.rows() == dict.fromkeys("abc", FIRST_VERSION)


def test_a_version_may_have_other_columns(versions: Versions):
    versions.write(FIRST_VERSION, "a")
    versions.follow(versions.of(FIRST_VERSION))
    ensure(versions.connection, [Topic(versions.of("v2").topic, compacted=True)])
    with Producer(versions.connection) as producer:
        producer.send(versions.of("v2").topic, {"id": "a", "made": "v2", "n": 7}, key="a")
    versions.follow(versions.of("v2", more=", n bigint"))
    assert versions.ask(f'SELECT id, made, n FROM "{versions.app}"."totals"') == [("a", "v2", 7)]


def test_a_switch_that_was_cut_off_goes_on(versions: Versions):
    """The table beside was filled, and nobody came to exchange it; then more came, and the one beside was spoiled."""
    versions.write(FIRST_VERSION, "a")
    versions.write("v2", "a", "b")
    versions.follow(versions.of(FIRST_VERSION))
    assert fill_beside(versions.url, versions.of("v2"), versions.connection) == 2
    assert versions.rows() == {"a": FIRST_VERSION}
    assert versions.rows("totals.v2") == dict.fromkeys("ab", "v2")
    versions.ask(f"UPDATE headrace.positions SET next_offset = 1000 WHERE follower = '{versions.app}.totals.v2'")
    versions.write("v2", "c")
    versions.follow(versions.of("v2"))
    assert versions.rows() == dict.fromkeys("abc", "v2"), "one that cannot go on is filled anew"


def test_a_reader_that_takes_its_time_is_waited_for(versions: Versions):
    for version in (FIRST_VERSION, "v2"):
        versions.write(version, "a")
    versions.follow(versions.of(FIRST_VERSION))
    table = sql.Identifier(versions.app, "totals")
    follower, stop = ViewFollower(versions.url, versions.of("v2"), versions.connection), threading.Event()
    thread = threading.Thread(target=follower.run, args=(stop,))
    with psycopg.connect(versions.url) as slow:
        slow.execute(sql.SQL("SELECT * FROM {}").format(table))
        thread.start()
        while "readers hold the table" not in (follower.status.waiting or ""):
            assert thread.is_alive()
        assert versions.rows() == {"a": FIRST_VERSION}, "and others read meanwhile"
        assert slow.execute(sql.SQL("SELECT made FROM {}").format(table)).fetchall() == [(FIRST_VERSION,)]
    while versions.rows() != {"a": "v2"}:
        assert thread.is_alive()
    stop.set()
    thread.join()


def test_privileges_go_along_with_the_name(versions: Versions):
    for version in (FIRST_VERSION, "v2"):
        versions.write(version, "a")
    versions.follow(versions.of(FIRST_VERSION))
    role = f"bi_{versions.app}"
    granted = (
        "SELECT grantee, privilege_type, is_grantable FROM information_schema.role_table_grants"
        f" WHERE table_schema = '{versions.app}' AND table_name = 'totals'"
        f" AND grantee IN ('PUBLIC', '{role}') ORDER BY 1"
    )
    versions.ask(f'CREATE ROLE "{role}"')
    try:
        versions.ask(f'GRANT SELECT ON "{versions.app}"."totals" TO PUBLIC')
        versions.ask(f'GRANT SELECT ON "{versions.app}"."totals" TO "{role}" WITH GRANT OPTION')
        before = versions.ask(granted)
        assert before == [("PUBLIC", "SELECT", "NO"), (role, "SELECT", "YES")]
        versions.follow(versions.of("v2"))
        assert versions.rows() == {"a": "v2"}
        assert versions.ask(granted) == before
    finally:
        versions.ask(f'DROP OWNED BY "{role}"')
        versions.ask(f'DROP ROLE "{role}"')


def test_what_depends_on_the_table_is_not_left_behind(versions: Versions):
    for version in (FIRST_VERSION, "v2"):
        versions.write(version, "a")
    versions.follow(versions.of(FIRST_VERSION))
    versions.ask(f'CREATE VIEW "{versions.app}"."report" AS SELECT count(*) FROM "{versions.app}"."totals"')
    with pytest.raises(FollowError, match="HR-414") as caught:
        versions.follow(versions.of("v2"))
    assert "report" in str(caught.value.found)
    assert versions.rows() == {"a": FIRST_VERSION}
    versions.ask(f'DROP VIEW "{versions.app}"."report"')
    versions.follow(versions.of("v2"))
    assert versions.rows() == {"a": "v2"}


def test_another_topic_is_no_version(versions: Versions):
    """A view that was declared with another topic is built anew, when somebody asks for it."""
    versions.write(FIRST_VERSION, "a")
    versions.follow(versions.of(FIRST_VERSION))
    other = replace(versions.of(FIRST_VERSION), topic=f"{versions.app}.elsewhere")
    ensure(versions.connection, [Topic(other.topic, compacted=True)])
    with pytest.raises(FollowError, match="HR-402"):
        versions.follow(other)


@pytest.mark.parametrize(
    ("topic", "found"),
    [("t", FIRST_VERSION), ("t.v2", "v2"), ("t.v3", "v3"), ("t.late", None), ("t.V3", None), ("u", None), ("tt", None)],
)
@pytest.mark.parametrize("version", [FIRST_VERSION, "v2"])
def test_the_version_of_a_topic(version: str, topic: str, found: str | None):
    view = View("shop", "totals", versioned("t", version), "id string", ("id",), version)
    assert version_of(view, topic) == found
