"""The slot: what it holds back, what happens when it is lost, and what the server must have."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.capture.stage import Stage, eventually

from headrace import names
from headrace.capture import session, slot
from headrace.errors import CaptureError
from headrace.log import topic as topics
from headrace.log.consumer import read
from headrace.parts import part
from headrace.parts.embedded import Parts
from headrace.settings import Settings


def held(stage: Stage) -> slot.Slot:
    found = slot.find(stage.database, names.slot(stage.app))
    assert found is not None
    return found


def test_a_dropped_slot_halts_and_a_new_snapshot_mends_it(stage: Stage):
    """Torture row 11: never a silent gap."""
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    stage.execute("INSERT INTO cards SELECT n, 'x' FROM generate_series(1, 30) n")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")
    slot.drop(stage.database, stage.left_slot())
    stage.execute("DELETE FROM cards WHERE id <= 10")
    stage.execute("UPDATE cards SET owner = 'y' WHERE id = 11")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_for("failed")
        error = running.capture.status.error
    assert error is not None
    assert error.code == "HR-607"
    assert "--snapshot-again all" in error.fix
    assert len(stage.rebuilt("cards")) == 30, "nothing was written"
    with stage.capturing(stage.table("cards"), again_all=True) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")
    gone = [one["before"]["id"] for one in stage.changes("cards") if one["op"] == "d"]
    assert sorted(gone) == list(range(1, 11))


def test_a_slot_that_somebody_moved_on_is_lost(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
    stage.execute("INSERT INTO cards VALUES (1)")
    stage.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", stage.left_slot())
    with stage.capturing(stage.table("cards")) as running:
        running.wait_for("failed")
        assert "HR-607" in str(running.capture.status.error)


def test_a_slot_that_is_dropped_while_it_is_read(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        reader = held(stage).reader
        with stage.connect() as other:
            until = time.monotonic() + 30
            while slot.find(other, names.slot(stage.app)) is not None and time.monotonic() < until:
                other.execute("SELECT pg_terminate_backend(%s)", (reader,))
                try:
                    slot.drop(other, names.slot(stage.app))
                except CaptureError:
                    found = slot.find(other, names.slot(stage.app))
                    reader = found.reader if found else reader
        running.wait_for("failed")
        assert "HR-607" in str(running.capture.status.error)


def test_a_slot_of_another_kafka_is_left_alone(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    stage.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", names.slot(stage.app))
    with stage.capturing(stage.table("cards")) as running:
        running.wait_for("failed")
        assert "HR-609" in str(running.capture.status.error)
    assert held(stage).reader is None


def test_a_quiet_table_holds_nothing_back(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "HEARTBEAT_S", 0.3)
    monkeypatch.setattr(session, "HEALTH_S", 0.3)
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    stage.execute("CREATE TABLE busy (id int)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        before = held(stage).confirmed
        stage.execute("INSERT INTO busy SELECT * FROM generate_series(1, 1000)")
        written = stage.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0][0]
        eventually(lambda: (held(stage).confirmed or 0) >= written)
        assert before is not None
        stage.execute("INSERT INTO cards VALUES (1)")
        stage.wait_until_equal("cards")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_for("running")
        assert running.capture.status.error is None


def test_the_limit_of_what_is_held_back(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "HEALTH_S", 0.3)
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards"), limit=1) as running:
        running.wait_for("failed")
        assert "HR-614" in str(running.capture.status.error)
    assert slot.find(stage.database, names.slot(stage.app)) is None
    with stage.capturing(stage.table("cards")) as running:
        running.wait_for("failed")
        assert "HR-607" in str(running.capture.status.error)


@pytest.mark.parametrize(
    ("statements", "key", "code", "fix"),
    [
        (["CREATE TABLE cards (id int)"], "id", "HR-605", "ADD PRIMARY KEY (id)"),
        (["CREATE TABLE cards (id int PRIMARY KEY, card int)"], "card", "HR-606", 'key="id"'),
        (["CREATE TABLE other (id int)"], "id", "HR-604", "create it"),
        (["CREATE VIEW cards AS SELECT 1 AS id"], "id", "HR-604", "declare a view"),
        (["CREATE UNLOGGED TABLE cards (id int PRIMARY KEY)"], "id", "HR-604", "SET LOGGED"),
        (
            ["CREATE TABLE cards (id int PRIMARY KEY, card int NOT NULL UNIQUE)"],
            "card",
            "HR-605",
            "REPLICA IDENTITY USING INDEX cards_card_key",
        ),
        (
            ["CREATE TABLE cards (id int PRIMARY KEY)", "ALTER TABLE cards REPLICA IDENTITY NOTHING"],
            "id",
            "HR-605",
            "REPLICA IDENTITY DEFAULT",
        ),
    ],
)
def test_tables_that_cannot_be_captured(stage: Stage, statements: list[str], key: str, code: str, fix: str):
    for statement in statements:
        stage.execute(statement)
    with stage.capturing(stage.table("cards", key)) as running:
        running.wait_for("failed")
        error = running.capture.status.error
    assert error is not None
    assert error.code == code
    assert fix in error.fix


def test_a_unique_index_may_be_the_key(stage: Stage):
    stage.execute("CREATE TABLE cards (id int, card int NOT NULL UNIQUE, owner text)")
    stage.execute("ALTER TABLE cards REPLICA IDENTITY USING INDEX cards_card_key")
    with stage.capturing(stage.table("cards", "card")) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO cards VALUES (1, 7, 'Ada'), (2, 8, 'Bo')")
        stage.execute("UPDATE cards SET card = 9 WHERE card = 7")
        stage.execute("DELETE FROM cards WHERE card = 8")
        stage.wait_until_equal("cards", "card")


@pytest.fixture
def poor(stage: Stage) -> Iterator[str]:
    """The address of a role that may do nothing."""
    role = f"poor_{stage.app}"
    stage.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'sesame-{stage.app}'")
    yield make_conninfo(stage.url, user=role, password=f"sesame-{stage.app}")
    stage.execute(f"DROP OWNED BY {role}")
    stage.execute(f"DROP ROLE {role}")


def test_the_sql_for_missing_rights_is_told_and_is_enough(stage: Stage, poor: str):
    """The role that the documentation names, REPLICATION and SELECT, is enough when the owner made the publication."""
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    stage.execute("INSERT INTO cards VALUES (1)")
    url, stage.url = stage.url, poor
    told = []
    for _ in range(3):
        with stage.capturing(stage.table("cards")) as running:
            eventually(lambda now=running: now.capture.status.state in ("failed", "running"))
            error = running.capture.status.error
            if error is None:
                running.wait_until_read()
                stage.execute("INSERT INTO cards VALUES (2)")
                stage.wait_until_equal("cards")
                break
        assert error.code == "HR-603"
        assert "sesame" not in str(error)
        told.append(error)
        for statement in error.fix.partition("`")[2].partition("`")[0].split(";"):
            if statement.strip():
                stage.execute(statement)
    stage.url = url
    assert len(told) == 2, "the rights, then the publication"


@pytest.mark.parametrize("given", [{"password": "very-secret-word"}, {"dbname": "nowhere"}, {"user": "nobody"}])
def test_a_database_that_refuses_the_connection_ends_the_capture(stage: Stage, given: dict[str, str]):
    """No secret is told of either."""
    url, stage.url = stage.url, make_conninfo(stage.url, **given)
    secret = str(conninfo_to_dict(stage.url)["password"])
    with stage.capturing(stage.table("cards")) as running:
        running.wait_for("failed")
        error = running.capture.status.error
        assert error is not None
        assert error.code == "HR-623"
        assert (given.get("dbname") or str(conninfo_to_dict(stage.url)["user"])) in str(error)
        assert secret not in str(error)
        assert secret not in str(running.capture.status)
        assert secret not in repr(running.capture._order)
    stage.url = url


def test_a_password_that_is_changed_while_capture_runs(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headrace.capture.capture.REFUSED_S", 0.2)
    role = f"rich_{stage.app}"
    stage.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'one'")
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    url, stage.url = stage.url, make_conninfo(stage.url, user=role, password="one")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        stage.execute(f"ALTER ROLE {role} PASSWORD 'two'")
        stage.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)
        eventually(lambda: "HR-623" in str(running.capture.status.waiting))
        assert running.capture.status.state == "waiting"
        stage.execute("INSERT INTO cards VALUES (1)")
        stage.execute(f"ALTER ROLE {role} PASSWORD 'one'")
        stage.wait_until_equal("cards")
        running.wait_for("running")
    stage.url = url
    stage.execute(f"DROP OWNED BY {role}")
    stage.execute(f"DROP ROLE {role}")


def test_a_server_without_room_for_a_connection_is_waited_for(stage: Stage):
    role = f"late_{stage.app}"
    stage.execute(f"CREATE ROLE {role} REPLICATION LOGIN PASSWORD 'one' CONNECTION LIMIT 0")
    url, stage.url = stage.url, make_conninfo(stage.url, user=role, password="one")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_for("waiting")
        assert "too many connections" in str(running.capture.status.waiting)
    stage.url = url
    stage.execute(f"DROP ROLE {role}")


@pytest.mark.timeout(240)
def test_postgres_restarts_in_the_middle_of_a_transaction(bootstrap: str, tmp_path_factory: pytest.TempPathFactory):
    """Torture row 10: no partial transaction, no duplicate."""
    home = tmp_path_factory.mktemp("own")
    home.chmod(0o755)
    settings = Settings.load(home)
    with Parts.start(settings, kafka=False, postgres=True, report=print) as parts:
        stage = Stage(parts.postgres_url, bootstrap, home)
        stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
        running_server = part.read(settings.state / "postgres")
        assert running_server is not None
        with stage.capturing(stage.table("cards")) as running:
            running.wait_until_read()
            half = stage.connect()
            half.execute("BEGIN")
            half.execute("INSERT INTO cards SELECT n, 'half' FROM generate_series(1, 1000) n")
            stage.execute("INSERT INTO cards SELECT n, 'whole' FROM generate_series(2001, 42000) n")
            # All of its processes end as if the power had failed; it recovers by itself from its log.
            victim = stage.execute("SELECT pg_backend_pid()")[0][0]
            os.kill(victim, signal.SIGKILL)
            eventually(lambda: _is_ended(half))
            eventually(lambda: _answers(stage))
            stage.database = stage.connect()
            stage.execute("INSERT INTO cards VALUES (5000000, 'after')")
            stage.wait_until_equal("cards")
        changes = stage.changes("cards")
        assert len(changes) == 40001
        assert {one["after"]["owner"] for one in changes} == {"whole", "after"}
        stage.execute("ALTER SYSTEM SET max_replication_slots = 1")
        stage.execute("ALTER SYSTEM SET wal_level = 'logical'")
        topics.delete(stage.connection, stage.topic("cards"), names.capture(stage.app))
        stage.close()
    _check_a_server_that_is_not_ready(settings, bootstrap, home)


def _check_a_server_that_is_not_ready(settings: Settings, bootstrap: str, home: Path) -> None:
    with Parts.start(settings, kafka=False, postgres=True, report=print) as parts:
        stage = Stage(parts.postgres_url, bootstrap, home)
        stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
        stage.execute("SELECT pg_create_logical_replication_slot('other', 'pgoutput')")
        with stage.capturing(stage.table("cards")) as running:
            running.wait_for("failed")
        assert "HR-602" in str(running.capture.status.error)
        assert "max_replication_slots = 11" in str(running.capture.status.error)
        stage.execute("SELECT pg_drop_replication_slot('other')")
        stage.execute("ALTER SYSTEM SET wal_level = 'replica'")
        stage.close()
    with Parts.start(settings, kafka=False, postgres=True, report=print) as parts:
        stage = Stage(parts.postgres_url, bootstrap, home)
        stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
        with stage.capturing(stage.table("cards")) as running:
            running.wait_for("failed")
        assert "HR-601" in str(running.capture.status.error)
        assert "ALTER SYSTEM SET wal_level = 'logical'" in str(running.capture.status.error)
        stage.close()


def _is_ended(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def _answers(stage: Stage) -> bool:
    try:
        stage.connect().close()
    except psycopg.OperationalError:
        return False
    return True


def test_the_memory_of_a_capture_is_readable(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
    last = {record.key: record.value for record in read(stage.connection, names.capture(stage.app))}
    assert json.loads(last[b"position"] or b"")["slot"] == names.slot(stage.app)
    assert json.loads(last[b"table public.cards"] or b"")["reading"] is False
