"""`capture` and `slot` as their user sees them: progress, status, stopping, secrets, slots."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.capture.stage import Stage, eventually
from typer.testing import Result

from headrace import names

Call = Callable[..., Result]


@pytest.fixture
def stage(postgres_url: str, bootstrap: str, tmp_path: Path):
    made = Stage(postgres_url, bootstrap, tmp_path)
    yield made
    made.close()


def test_an_app_with_nothing_to_capture(call: Call, tmp_path: Path):
    (tmp_path / "app.py").write_text('import headrace as hr\napp = hr.App("shop")\n')
    result = call("capture", tmp_path / "app.py")
    assert result.exit_code == 1
    assert "HR-615" in result.stderr
    assert not (tmp_path / ".headrace").exists()


def test_options_that_mean_nothing(call: Call, tmp_path: Path):
    (tmp_path / "app.py").write_text(
        'import headrace as hr\napp = hr.App("shop")\napp.table("cards", hr.postgres("public.cards"), key="id")\n'
    )
    result = call("capture", tmp_path / "app.py", "--snapshot-again", "card")
    assert "public.cards" in result.stderr
    assert result.exit_code == 1
    assert call("capture", tmp_path / "app.py", "--wal-limit", "much").exit_code == 2


def test_a_wrong_password_is_told_at_once(stage: Stage):
    """And not waited for as a server that is away."""
    stage.declare('app.table("cards", hr.postgres("public.cards"), key="id")')
    stage.url = make_conninfo(url := stage.url, password="very-secret-word")
    process = stage.start()
    stage.url = url
    assert process.wait(60) == 1
    told = stage.log.read_text()
    assert "HR-623" in told
    assert "HEADRACE_SOURCE" in told
    assert "waits" not in told
    assert "very-secret-word" not in told


def test_capture_from_start_to_stop(stage: Stage, call: Call):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    stage.execute("INSERT INTO cards VALUES (1, 'Ada')")
    stage.declare('app.table("cards", hr.postgres("public.cards"), key="id")')
    process = stage.start("--wal-warning", "1kB")
    try:
        stage.execute("INSERT INTO cards VALUES (2, 'Bo')")
        stage.wait_until_equal("cards")
        eventually(lambda: _status(call)[0]["rows_in"] == 2)
        told = _status(call)[0]
        assert (told["query"], told["mode"], told["state"]) == ("cards.capture", "capture", "running")
        assert told["health"]["word"] == "keeping-up"
        assert set(told["wal"]) == {"held", "behind", "seconds"}
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert _status(call)[0]["state"] == "stopped"
    written = stage.log.read_text() + json.dumps(_status(call))
    secret = conninfo_to_dict(stage.url)["password"]
    assert str(secret) not in written
    assert "all rows are read" in written


def test_a_paused_table_is_told_and_makes_the_exit_code_1(stage: Stage, call: Call):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, amount int)")
    stage.declare('app.table("cards", hr.postgres("public.cards"), key="id")')
    process = stage.start()
    eventually(lambda: _status(call) != [] and _status(call)[0]["state"] == "running")
    time.sleep(1)
    stage.execute("INSERT INTO cards VALUES (1, 1)")
    stage.wait_until_equal("cards")
    stage.execute("ALTER TABLE cards ALTER amount TYPE text")
    stage.execute("INSERT INTO cards VALUES (2, '2')")
    eventually(lambda: _status(call)[0]["state"] == "failed")
    assert "HR-611" in _status(call)[0]["error"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 1
    assert "HR-611" in stage.log.read_text()


def test_dev_captures_and_follows(
    call: Call, process: Callable[..., subprocess.Popen[str]], stage: Stage, tmp_path: Path
):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text, spent numeric(10,2))")
    stage.execute("INSERT INTO cards VALUES (1, 'Ada', 10.10), (2, 'Bo', 0)")
    app = stage.declare(
        'app.table("cards", hr.postgres("public.cards"), key="id")\n\n'
        f'@app.view(key="id", topic="{stage.app}.spenders")\n'
        "def spenders(cards):\n"
        '    return cards.where("spent > 0")\n'
    )
    servers = {"HEADRACE_BOOTSTRAP": stage.bootstrap, "HEADRACE_POSTGRES": stage.url}
    running = process("dev", app, "--no-console", **servers)

    def spenders() -> list[tuple[object, ...]]:
        if stage.execute("SELECT to_regclass(%s)", f'"{stage.app}".spenders') == [(None,)]:
            return []
        return stage.execute(f'SELECT id, owner, spent::text FROM "{stage.app}".spenders ORDER BY id')

    try:
        eventually(lambda: spenders() == [(1, "Ada", "10.10")], lambda: f"{spenders()}", seconds=240)
        stage.execute("UPDATE cards SET spent = 0.30 WHERE id = 2")
        stage.execute("DELETE FROM cards WHERE id = 1")
        eventually(lambda: spenders() == [(2, "Bo", "0.30")], lambda: f"{spenders()}")
        queries = ["cards.capture", "spenders", "spenders.postgres"]
        eventually(lambda: [one["query"] for one in _status(call) if one["state"] == "running"] == queries)
    finally:
        running.send_signal(signal.SIGTERM)
        out, errors = running.communicate(timeout=240)
    assert running.returncode == 0, errors
    assert "cards.capture: keeping up" in out
    assert [one["state"] for one in _status(call)] == ["stopped"] * 3
    assert str(conninfo_to_dict(stage.url)["password"]) not in out + errors + json.dumps(_status(call))
    # What capture cannot do ends it, with its error.
    stage.execute("SELECT pg_drop_replication_slot(%s)", stage.left_slot())
    failed = process("dev", app, "--no-console", **servers)
    out, errors = failed.communicate(timeout=240)
    assert (failed.returncode, "HR-607" in errors) == (1, True), errors


def test_slots_are_listed_and_dropped(stage: Stage, call: Call):
    name = names.slot(stage.app)
    stage.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", name)
    environment = {"HEADRACE_SOURCE": stage.url}
    listed = call("slot", "ls", **environment)
    assert f"{name}  {stage.app}" in listed.stdout
    assert "nobody" in listed.stdout
    (mine,) = [one for one in json.loads(call("slot", "ls", "--json", **environment).stdout) if one["name"] == name]
    assert mine["held"] >= 0
    assert call("slot", "drop", name, given="n\n", **environment).exit_code == 1
    dropped = call("slot", "drop", name, "--yes", **environment)
    assert dropped.exit_code == 0
    assert "--snapshot-again all" in dropped.stdout
    again = call("slot", "drop", name, "--yes", **environment)
    assert again.exit_code == 1
    assert "HR-618" in again.stderr


def test_no_database_to_look_at(call: Call):
    result = call("slot", "ls")
    assert result.exit_code == 1
    assert "HR-110" in result.stderr


def test_a_password_does_not_belong_into_the_settings_file(call: Call, tmp_path: Path):
    (tmp_path / "headrace.toml").write_text('source = "postgresql://me:open-sesame@db/shop"\n')
    result = call("slot", "ls")
    assert result.exit_code == 1
    assert "HR-101" in result.stderr
    assert "open-sesame" not in result.output
    secret = tmp_path / "secret"
    secret.write_text("postgresql://me:open-sesame@127.0.0.1:1/shop\n")
    (tmp_path / "headrace.toml").write_text(f'source = "file:{secret}"\n')
    result = call("slot", "ls")
    assert "HR-110" in result.stderr
    assert "open-sesame" not in result.output


def _status(call: Call) -> list[dict]:
    return json.loads(call("status", "--json").stdout)
