"""`replay`, `promote` and `versions` as their user sees them, with everything that reads the view running."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from headrace.app import load
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.settings import Settings

Call = Callable[..., Result]
Process = Callable[..., subprocess.Popen[str]]
APP = """
import headrace as hr

app = hr.App("{app}")
payments = app.stream(
    "payments", schema="id string, card string, amount double, at timestamp", event_time="at", id="id",
    topic="{app}.payments",
)

@app.view(key="card", topic="{app}.totals")
def totals(payments):
    return hr.window(payments.where("amount > 0"), hr.global_(every=1), by="card", spent=hr.sum("amount"))
"""


@pytest.fixture
def name(topic: Callable[[str], str]) -> str:
    return topic("shop")


@pytest.fixture
def app(tmp_path: Path, name: str) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP.replace("{app}", name))
    return file


def run(app: Path, spark: SparkSession, bootstrap: str) -> None:
    """What `headrace run` does, in the session of the tests, until all is read."""
    settings = Settings.load(app.parent)
    with Run.start(load(app), mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark) as started:
        started.finish_input()


def push(connection: Connection, name: str, *payments: tuple[str, str, float]) -> None:
    with Producer(connection) as producer:
        for one, card, amount in payments:
            row = {"id": one, "card": card, "amount": amount, "at": "2026-03-01T12:00:00Z"}
            producer.send(f"{name}.payments", row, key=one)


def table(url: str, name: str) -> dict[str, float]:
    try:
        with psycopg.connect(url) as connection:
            found = connection.execute(f'SELECT card, spent FROM "{name}"."totals"')  # pyright: ignore[reportArgumentType,reportCallIssue]
            return dict(found.fetchall())
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return {}


def eventually(condition: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out, errors


@pytest.mark.deep
def test_a_view_is_killed_replayed_switched_and_brought_back(
    call: Call,
    process: Process,
    app: Path,
    name: str,
    connection: Connection,
    spark: SparkSession,
    bootstrap: str,
    postgres_url: str,
):
    environment = {"HEADRACE_BOOTSTRAP": bootstrap, "HEADRACE_POSTGRES": postgres_url}
    old, new = {"a": 30.0, "b": 5.0, "c": 1.0}, {"a": 30.0, "c": 1.0, "d": 2.0}

    def told(*arguments: object) -> Any:
        result = call(*arguments, "--json", **environment)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    def states() -> dict[str, str]:
        return {one["version"]: one["state"] for one in told("versions", "ls", app)}

    topics.ensure(connection, [topics.Topic(f"{name}.payments", 2)])
    push(connection, name, ("1", "a", 10.0), ("2", "a", 20.0), ("3", "b", 5.0), ("4", "c", 1.0), ("5", "d", -2.0))
    run(app, spark, bootstrap)
    following = process("follow", app, **environment)
    try:
        assert eventually(lambda: table(postgres_url, name) == old)
        changed = 'payments.where("card <> \'b\'").withColumn("amount", F.abs("amount"))'
        code = app.read_text().replace('payments.where("amount > 0")', changed)
        app.write_text(f"from pyspark.sql import functions as F\n{code}")

        # Killed in its first batch, it cannot become current, and goes on when it is called again.
        replaying = process("replay", app, "totals", "--as", "v2", **environment)
        begun = app.parent / ".headrace" / "checkpoints" / name / "totals.v2" / "offsets" / "0"
        assert eventually(begun.exists)
        replaying.send_signal(signal.SIGKILL)
        replaying.communicate()
        assert states() == {"first": "current", "v2": "begun"}
        refused = call("promote", app, "totals", "--version", "v2", **environment)
        assert (refused.exit_code, "HR-323" in refused.stderr) == (1, True)
        out, _ = ended(process("replay", app, "totals", "--as", "v2", "--json", **environment))
        built = json.loads(out)
        assert {what: built[what] for what in ("same", "added", "removed", "changed")} == {
            "same": 2,
            "added": 1,
            "removed": 1,
            "changed": 0,
        }
        assert [(one["what"], one["key"], one["old"], one["new"]) for one in built["samples"]] == [
            ("added", "d", None, {"card": "d", "spent": 2}),
            ("removed", "b", {"card": "b", "spent": 5}, None),
        ]
        assert built["behind"] == {"first": 0, "v2": 0}
        assert [one.key for one in read(connection, f"{name}.totals.v2")].count(b"c") == 1
        assert table(postgres_url, name) == old

        # With `follow` running: the table is another one when `promote` returns.
        assert told("promote", app, "totals", "--version", "v2")["table"] is True
        assert table(postgres_url, name) == new
        assert states() == {"first": "built", "v2": "current"}
        push(connection, name, ("6", "a", 3.0))
        run(app, spark, bootstrap)
        assert eventually(lambda: table(postgres_url, name) == new | {"a": 33.0})
    finally:
        following.send_signal(signal.SIGTERM)
        following.communicate(timeout=60)

    # Without it: `promote` sees to the table by itself.
    back = call("promote", app, "totals", "--version", "first", **environment)
    assert (back.exit_code, back.stdout) == (0, "totals is first, and was v2\n"), back.stderr
    assert table(postgres_url, name) == old
    dropped = call("versions", "drop", app, "totals", "v2", "--yes", **environment)
    assert (dropped.exit_code, dropped.stdout) == (0, "v2 of totals is gone\n"), dropped.stderr
    with psycopg.connect(postgres_url) as database:
        tables = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace"
        assert database.execute(tables, (name,)).fetchall() == [("totals",)]
    assert states() == {"first": "current"}


def test_commands_that_make_no_sense(talk: Call, app: Path):
    assert talk("replay", app, "totals").exit_code == 2, "a version has a name"
    assert talk("promote", app, "totals").exit_code == 2
    for arguments, code in (
        (("replay", app, "totals", "--as", "First"), "HR-320"),
        (("replay", app, "nobody", "--as", "v2"), "HR-311"),
        (("promote", app, "nobody", "--version", "v2"), "HR-311"),
        (("promote", app, "totals", "--version", "v2"), "HR-321"),
        (("promote", app, "totals", "--version", "first"), "HR-321"),
        (("versions", "drop", app, "totals", "v2", "--yes"), "HR-321"),
    ):
        result = talk(*arguments)
        assert (result.exit_code, code in result.stderr) == (1, True), result.stderr
    assert "nothing has run yet" in talk("versions", "ls", app).stderr
