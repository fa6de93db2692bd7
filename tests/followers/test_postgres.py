"""The PostgreSQL table of a view: the follower contract, and what only a table has."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.contracts.changes import Row, answer, history, make_topic, view, write
from tests.contracts.follower_contract import FollowerContract, eventually, running

from headrace.errors import FollowError
from headrace.followers.follower import Follower
from headrace.followers.postgres import PostgresTable
from headrace.followers.store import Store
from headrace.log import topic as topics
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.dead import dead_letters
from headrace.log.producer import Producer
from headrace.parts.embedded import Parts
from headrace.settings import Settings

LONG = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(150))


class Table:
    """A PostgreSQL that can be stopped."""

    poison: ClassVar[Row] = {"note": "a\0b"}
    reason = "NUL"

    def __init__(self, home: Path) -> None:
        self._settings = Settings.load(home)
        self._parts = self._start()
        self.url = self._parts.postgres_url

    def _start(self) -> Parts:
        return Parts.start(self._settings, kafka=False, postgres=True)

    def down(self) -> None:
        self._parts.stop()

    def up(self) -> None:
        self._parts = self._start()
        assert self._parts.postgres_url == self.url

    def store(self, view: View) -> Store:
        return PostgresTable(self.url, view, batch=50)

    def told(self, view: View) -> dict[str, Any]:
        return {"kind": "postgres", "url": self.url, "batch": 20}

    def holds(self, view: View) -> dict[str, Row]:
        return {row["id"]: row for row in rows(self.url, view)}

    def positions(self, view: View) -> dict[int, int]:
        try:
            with psycopg.connect(self.url) as connection:
                found = connection.execute(
                    "SELECT partition, next_offset FROM headrace.positions WHERE follower = %s AND topic = %s",
                    (f"{view.app}.{view.view}", view.topic),
                )
                return dict(found.fetchall())
        except (psycopg.OperationalError, psycopg.errors.UndefinedTable):
            return {}

    def spoil(self, view: View) -> None:
        with psycopg.connect(self.url) as connection:
            insert = sql.SQL("INSERT INTO {} (id) VALUES ('stray')").format(sql.Identifier(view.app, view.view))
            connection.execute(insert)


def rows(url: str, view: View) -> list[Row]:
    """The rows as the topic has them: nulls left out, numbers and times as JSON writes them."""
    with psycopg.connect(url) as connection:
        connection.execute("SET timezone = 'UTC'")
        found = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(view.app, view.view)))
        names = [column.name for column in found.description or ()]
        return [
            {name: _plain(value) for name, value in zip(names, row, strict=True) if value is not None}
            for row in found.fetchall()
        ]


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    home = tmp_path_factory.mktemp("postgres")
    for directory in (home, home.parent, home.parent.parent):
        directory.chmod(0o755)
    made = Table(home)
    yield made
    made.down()


class TestContract(FollowerContract):
    @pytest.fixture
    def subject(self, table: Table) -> Table:
        return table


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


@pytest.fixture
def totals(connection: Connection, topic: Callable[[str], str]) -> View:
    return make_topic(connection, view(topic("app")))


def follower(connection: Connection, url: str, view: View, **options: Any) -> Follower:
    return Follower(f"{view.app}.{view.view}", view.topic, PostgresTable(url, view), connection, **options)


def query(url: str, text: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(text, values)  # pyright: ignore[reportArgumentType,reportCallIssue]
        return done.fetchall() if done.description else []


def send(connection: Connection, topic: str, key: str | bytes | None, value: str | bytes | None) -> None:
    with Producer(connection) as producer:
        producer.send(topic, value, key=key)


def test_every_type_has_its_column(connection: Connection, postgres_url: str, totals: View) -> None:
    every = replace(
        totals,
        schema="k string, b boolean, i1 tinyint, i2 smallint, i4 int, i8 bigint, f4 float, f8 double, "
        "d decimal(38,10), t timestamp, l timestamp_ntz, day date, raw binary, a array<int>, m map<string,double>, "
        "s struct<x:int,y:array<string>>",
        key=("k",),
    )
    row = {
        "k": "a", "b": True, "i1": -128, "i2": 32767, "i4": -(2**31), "i8": 2**63 - 1, "f4": 1.5, "f8": 4.9e-324,
        "t": "9999-12-31T23:59:59.999999Z", "l": "0001-01-01T00:00:00", "day": "2026-02-28", "raw": "3q2+7w==",
        "a": [1, None], "m": {"x": 1.5, "y\n": "NaN"}, "s": {"x": 1, "y": ["\\", '"']},
    }  # fmt: skip
    text = json.dumps(row)[:-1] + ', "d": 1234567890123456789012345678.0123456789}'
    send(connection, every.topic, "a", text)
    follower(connection, postgres_url, every).catch_up()
    columns = query(
        postgres_url,
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass"
        " AND attnum > 0 ORDER BY attnum",
        f'"{every.app}"."{every.view}"',
    )
    assert columns == [
        ("k", "text"), ("b", "boolean"), ("i1", "smallint"), ("i2", "smallint"), ("i4", "integer"), ("i8", "bigint"),
        ("f4", "real"), ("f8", "double precision"), ("d", "numeric(38,10)"), ("t", "timestamp with time zone"),
        ("l", "timestamp without time zone"), ("day", "date"), ("raw", "bytea"), ("a", "jsonb"), ("m", "jsonb"),
        ("s", "jsonb"),
    ]  # fmt: skip
    (found,) = query(postgres_url, f'SELECT * FROM "{every.app}"."{every.view}"')
    assert found[:9] == (
        "a", True, -128, 32767, -(2**31), 2**63 - 1, 1.5, 4.9e-324, Decimal("1234567890123456789012345678.0123456789"),
    )  # fmt: skip
    assert found[9:] == (
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), datetime(1, 1, 1), date(2026, 2, 28), b"\xde\xad\xbe\xef",
        [1, None], {"x": 1.5, "y\n": "NaN"}, {"x": 1, "y": ["\\", '"']},
    )  # fmt: skip


def test_years_that_people_do_not_write(connection: Connection, postgres_url: str, totals: View) -> None:
    far = {"id": "far", "at": "+12026-01-01T00:00:00.000000Z"}
    before = {"id": "before", "at": "-0044-03-15T12:00:00.000000Z"}
    beyond = {"id": "beyond", "at": "+294277-01-01T00:00:00.000000Z"}
    write(connection, totals.topic, [(row["id"], row) for row in (far, before, beyond)])
    follower(connection, postgres_url, totals).catch_up()
    found = query(postgres_url, f'SELECT id, extract(year FROM at)::int FROM "{totals.app}".totals')
    assert found == [("far", 12026)]
    assert {(letter.key or b"").decode() for letter in dead_letters(connection, totals.topic)} == {"before", "beyond"}


UNFIT: list[tuple[str | bytes, str]] = [
    ('{"id":"k","note":"\\u0000"}', "NUL"),
    ('{"id":"k","tags":["\\u0000"]}', "NUL"),
    ('{"id":"k","note":"\\ud800"}', "surrogate"),
    ('{"id":"k","n":9223372036854775808}', "out of range"),
    ('{"id":"k","n":1.5}', "bigint"),
    ('{"id":"k","n":"1"}', 'column `n` is bigint, and the value is "1"'),
    ('{"id":"k","n":true}', "column `n` is bigint, and the value is true"),
    ('{"id":"k","amount":99999999999.0}', "overflow"),
    ('{"id":"k","note":5}', "column `note` is text, and the value is 5"),
    ('{"id":"k","share":"much"}', "column `share` is double precision"),
    ('{"id":"k","share":NaN}', "not JSON"),
    ('{"id":"k","at":"now"}', "column `at` is timestamp with time zone"),
    ('{"id":"k","at":"2026-01-01T00:00:00"}', "column `at` is timestamp with time zone"),
    ('{"id":"k","at":"2026-02-30T00:00:00Z"}', "out of range"),
    ('{"n":1}', "key column `id` is null"),
    ("[]", "not a JSON object"),
    (b"\xff", "not UTF-8"),
    ("[" * 5000 + "]" * 5000, "nested too deeply"),
    (json.dumps({"id": LONG}), "index row"),
]


def test_what_a_table_cannot_hold(connection: Connection, postgres_url: str, totals: View) -> None:
    with Producer(connection) as producer:
        for number, (value, _) in enumerate(UNFIT):
            producer.send(totals.topic, f'{{"id":"before{number}"}}', key=f"before{number}")
            producer.send(totals.topic, value, key=f"k{number}")
        producer.send(totals.topic, None, key=b"\xff")
        producer.send(totals.topic, None, key="nothing to delete")
    following = follower(connection, postgres_url, totals)
    following.catch_up()
    assert {row["id"] for row in rows(postgres_url, totals)} == {f"before{number}" for number in range(len(UNFIT))}
    reasons = {letter.key or b"": letter.reason for letter in dead_letters(connection, totals.topic)}
    wrong = {value: reasons.get(f"k{i}".encode()) for i, (value, why) in enumerate(UNFIT)
             if why not in reasons.get(f"k{i}".encode(), "")}  # fmt: skip
    assert wrong == {}
    assert "not UTF-8" in reasons[b"\xff"]
    assert following.status.dead == len(reasons) == len(UNFIT) + 1


def test_a_key_of_several_columns(connection: Connection, postgres_url: str, totals: View) -> None:
    windows = replace(totals, schema="url string, at timestamp, n int", key=("url", "at"))
    at = "2026-01-01T00:00:00.000000Z"

    def key(url: str) -> str:
        return json.dumps({"url": url, "at": at}, separators=(",", ":"))

    for url in ("/a", "/b", "/c"):
        send(connection, windows.topic, key(url), json.dumps({"url": url, "at": at, "n": 1}))
    send(connection, windows.topic, key("/a"), None)
    send(connection, windows.topic, key("/b"), json.dumps({"url": "/b", "at": at, "n": 2}))
    follower(connection, postgres_url, windows).catch_up()
    send(connection, windows.topic, key("/c"), None)
    follower(connection, postgres_url, windows).catch_up()
    found = query(postgres_url, f'SELECT url, n FROM "{totals.app}".totals ORDER BY url')
    assert found == [("/b", 2)]


def test_a_key_that_is_a_number_and_nothing_else(connection: Connection, postgres_url: str, totals: View) -> None:
    ids = replace(totals, schema="id bigint NOT NULL", key=("id",))
    for value in ('{"id":1}', '{"id":2}', '{"id":1}'):
        send(connection, ids.topic, value, value)
    send(connection, ids.topic, '{"id":2}', None)
    follower(connection, postgres_url, ids).catch_up()
    assert query(postgres_url, f'SELECT id FROM "{totals.app}".totals') == [(1,)]


def test_names_are_only_names(connection: Connection, postgres_url: str, topic: Callable[[str], str]) -> None:
    bad = make_topic(connection, view(topic("App")))
    odd = replace(
        bad, view='x"; DROP TABLE t;--', schema='`a"b; --` string, `select` int, `%s {}` int', key=('a"b; --',)
    )
    send(connection, odd.topic, "k", json.dumps({'a"b; --': "k", "select": 1, "%s {}": 2}))
    send(connection, odd.topic, "gone", None)
    follower(connection, postgres_url, odd).catch_up()
    (found,) = query(postgres_url, f'SELECT * FROM "{odd.app}"."x""; DROP TABLE t;--"')
    assert found == ("k", 1, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"app": "a" * 64},
        {"view": "v" * 64},
        {"schema": f"id string, {'c' * 64} int"},
        {"app": "headrace"},
        {"app": "pg_shop"},
        {"schema": "id varint"},
        {"key": ("other",)},
        {"key": ()},
    ],
    ids=str,
)
def test_a_view_that_cannot_be_a_table(change: dict[str, Any]) -> None:
    with pytest.raises(FollowError, match="HR-408"):
        PostgresTable("", replace(view("shop"), **change))


def test_a_table_of_somebody_else(connection: Connection, postgres_url: str, totals: View) -> None:
    query(postgres_url, f'CREATE SCHEMA "{totals.app}"')
    query(postgres_url, f'CREATE TABLE "{totals.app}".totals (id text, mine int)')
    with pytest.raises(FollowError, match=r"HR-401[\s\S]*`n` is missing"):
        follower(connection, postgres_url, totals).catch_up()
    with pytest.raises(FollowError, match="HR-401"):
        follower(connection, postgres_url, totals, rebuild=True).catch_up()
    query(postgres_url, f'DROP TABLE "{totals.app}".totals')
    follower(connection, postgres_url, totals).catch_up()
    query(postgres_url, "DELETE FROM headrace.followers WHERE follower = %s", f"{totals.app}.totals")
    query(postgres_url, f"INSERT INTO \"{totals.app}\".totals (id) VALUES ('mine')")
    with pytest.raises(FollowError, match=r"HR-401[\s\S]*it holds rows"):
        follower(connection, postgres_url, totals).catch_up()
    assert query(postgres_url, f'SELECT id FROM "{totals.app}".totals') == [("mine",)]


def test_a_table_of_an_older_view(connection: Connection, postgres_url: str, totals: View) -> None:
    write(connection, totals.topic, [("a", {"id": "a", "n": 5})])
    follower(connection, postgres_url, totals).catch_up()
    wider = replace(totals, schema=f"{totals.schema}, more int")
    with pytest.raises(FollowError, match=r"HR-402[\s\S]*`more` is missing[\s\S]*--rebuild totals"):
        follower(connection, postgres_url, wider).catch_up()
    follower(connection, postgres_url, wider, rebuild=True).catch_up()
    assert query(postgres_url, f'SELECT id, n, more FROM "{totals.app}".totals') == [("a", 5, None)]
    moved = make_topic(connection, replace(wider, topic=f"{totals.topic}.v2"))
    with pytest.raises(FollowError, match=r"HR-402[\s\S]*filled from the topic"):
        follower(connection, postgres_url, moved).catch_up()


def test_a_table_that_was_dropped_is_filled_again(connection: Connection, postgres_url: str, totals: View) -> None:
    write(connection, totals.topic, [("a", {"id": "a", "n": 5})])
    follower(connection, postgres_url, totals).catch_up()
    query(postgres_url, f'DROP TABLE "{totals.app}".totals')
    follower(connection, postgres_url, totals).catch_up()
    assert rows(postgres_url, totals) == [{"id": "a", "n": 5}]


def test_positions_that_somebody_moved(connection: Connection, postgres_url: str, totals: View) -> None:
    following = follower(connection, postgres_url, totals)
    with running(following):
        assert eventually(lambda: following.status.state == "running")
        query(postgres_url, "UPDATE headrace.positions SET next_offset = 7 WHERE follower = %s", f"{totals.app}.totals")
        write(connection, totals.topic, [("a", {"id": "a"}), ("b", {"id": "b"}), ("c", {"id": "c"})])
        assert eventually(lambda: following.status.state == "failed")
    assert following.status.error is not None
    assert following.status.error.code == "HR-406"
    assert rows(postgres_url, totals) == []


def test_deletions_that_the_topic_may_have_forgotten(connection: Connection, postgres_url: str, totals: View) -> None:
    write(connection, totals.topic, [("a", {"id": "a"})])
    follower(connection, postgres_url, totals).catch_up()
    old = "UPDATE headrace.positions SET at = now() - interval '2 days' WHERE follower = %s"
    query(postgres_url, old, f"{totals.app}.totals")
    assert follower(connection, postgres_url, totals).catch_up() == 0, "nothing came meanwhile"
    query(postgres_url, old, f"{totals.app}.totals")
    write(connection, totals.topic, [("a", None)])
    with pytest.raises(FollowError, match=r"HR-405[\s\S]*away for 2d[\s\S]*for 1d"):
        follower(connection, postgres_url, totals).catch_up()
    follower(connection, postgres_url, totals, rebuild=True).catch_up()
    assert rows(postgres_url, totals) == []


def test_a_server_that_refuses_the_connection(
    connection: Connection, postgres_url: str, totals: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the start that needs a person; later it is asked again, since a password may be about to be changed."""
    monkeypatch.setattr("headrace.followers.postgres.REFUSED_S", 0.2)
    for wrong in ({"password": "very-secret-word"}, {"dbname": "nowhere"}):
        with pytest.raises(FollowError, match="HR-415") as caught:
            follower(connection, make_conninfo(postgres_url, **wrong), totals).catch_up()
        assert "very-secret-word" not in str(caught.value)
    user = totals.app
    query(postgres_url, f"CREATE ROLE {user} SUPERUSER LOGIN PASSWORD 'one'")
    following = follower(connection, make_conninfo(postgres_url, user=user, password="one"), totals)
    with running(following):
        write(connection, totals.topic, [("a", {"id": "a"})])
        assert eventually(lambda: following.status.applied == 1)
        query(postgres_url, f"ALTER ROLE {user} PASSWORD 'two'")
        query(postgres_url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", user)
        write(connection, totals.topic, [("b", {"id": "b"})])
        assert eventually(lambda: "password authentication failed" in str(following.status.waiting))
        query(postgres_url, f"ALTER ROLE {user} PASSWORD 'one'")
        assert eventually(lambda: {row["id"] for row in rows(postgres_url, totals)} == {"a", "b"})


def test_a_user_that_may_not(connection: Connection, postgres_url: str, totals: View) -> None:
    user = totals.app
    query(postgres_url, f"CREATE ROLE {user} LOGIN PASSWORD 'secret'")
    base = postgres_url.split("@", 1)[1]
    with pytest.raises(FollowError, match="HR-403") as caught:
        follower(connection, f"postgresql://{user}:secret@{base}", totals).catch_up()
    assert "secret" not in str(caught.value)


def test_the_readers_see_whole_batches(connection: Connection, postgres_url: str, totals: View) -> None:
    """Data and positions are one: a snapshot of both at any moment is what the topic says up to there."""
    dice = random.Random(7)
    changes = list(history(dice, 400))
    one = make_topic(connection, replace(totals, topic=f"{totals.topic}.one"), partitions=1)
    following = Follower(f"{one.app}.{one.view}", one.topic, PostgresTable(postgres_url, one, batch=7), connection)
    seen: set[int] = set()
    with running(following):
        while max(seen, default=0) < len(changes):
            if (written := topics.ends(connection, one.topic)[0]) in {0, *seen}:
                write(connection, one.topic, changes[written : written + 200])
            with psycopg.connect(postgres_url) as reader:
                reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                try:
                    found = reader.execute(
                        "SELECT next_offset FROM headrace.positions WHERE follower = %s", (f"{one.app}.{one.view}",)
                    ).fetchone()
                    held = reader.execute(f'SELECT id, n FROM "{one.app}".totals').fetchall()  # pyright: ignore[reportArgumentType,reportCallIssue]
                except psycopg.errors.UndefinedTable:
                    continue
            model: dict[str, Any] = {}
            for key, row in changes[: found[0] if found else 0]:
                model.pop(key, None)
                if row is not None:
                    model[key] = row.get("n")
            assert dict(held) == model
            seen.add(found[0] if found else 0)
    assert len(seen) > 1
    assert rows(postgres_url, one) != [] or answer(connection, one.topic) == {}
    assert topics.ends(connection, one.topic) == {0: len(changes)}
