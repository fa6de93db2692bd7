"""`follow` as its user sees it: tables, webhooks, waiting, stopping, status."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from typer.testing import Result

from headrace.engine import commands, progress
from headrace.log import catalogue
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.settings import Settings

Call = Callable[..., Result]
Process = Callable[..., subprocess.Popen[str]]
APP = """
import headrace as hr

app = hr.App("{app}")
orders = app.stream("orders_of_{app}", schema="id string, amount double")

@app.view(key="id", topic="{app}.large")
def large(orders_of_{app}):
    return orders_of_{app}

@app.view(key="id", topic="{app}.small")
def small(orders_of_{app}):
    return orders_of_{app}
"""


@pytest.fixture
def name(topic: Callable[[str], str]) -> str:
    return topic("shop")


@pytest.fixture
def app(tmp_path: Path, name: str) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP.replace("{app}", name))
    return file


def publish(connection: Connection, name: str, *views: str, schema: str = "id string, amount double") -> None:
    ensure(connection, [Topic(f"{name}.{view}", compacted=True) for view in views])
    catalogue.publish(connection, *(View(name, view, f"{name}.{view}", schema, ("id",)) for view in views))


def send(connection: Connection, topic: str, *ids: str) -> None:
    with Producer(connection) as producer:
        for one in ids:
            producer.send(topic, {"id": one, "amount": 1.5}, key=one)


def eventually(condition: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def ids(url: str, name: str, view: str) -> list[str]:
    try:
        with psycopg.connect(url) as connection:
            found = connection.execute(f'SELECT id FROM "{name}"."{view}" ORDER BY id')  # pyright: ignore[reportArgumentType,reportCallIssue]
            return [one for (one,) in found.fetchall()]
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return []


def health(call: Call) -> dict[str, tuple[str, str]]:
    shown = json.loads(call("status", "--json").stdout)
    return {one["query"]: (one["health"]["word"], one["health"]["sentence"]) for one in shown}


def command(app: Path, name: str, follower: str, wanted: commands.Wanted) -> None:
    """As the console sends it."""
    settings = Settings.load(app.parent)
    (last,) = [one for one in progress.latest(settings, name) if one.query == follower]
    commands.send(settings, name, follower, wanted, last.started_at)


def test_an_app_with_nothing_to_follow(call: Call, tmp_path: Path):
    (tmp_path / "app.py").write_text('import headrace as hr\napp = hr.App("shop")\n')
    result = call("follow", tmp_path / "app.py")
    assert result.exit_code == 1
    assert "HR-413" in result.stderr
    assert not (tmp_path / ".headrace").exists()


def test_names_that_nobody_has(call: Call, app: Path):
    for option in ("--only", "--rebuild"):
        result = call("follow", app, option, "medium")
        assert result.exit_code == 1
        assert "large.postgres, small.postgres" in result.stderr
    assert call("follow", app, "--for", "a while").exit_code == 2


def test_a_secret_that_is_missing(talk: Call, app: Path, postgres_url: str):
    app.write_text(app.read_text() + '\napp.follow(large, hr.webhook("https://example.com/", secret_env="NO_SUCH"))\n')
    result = talk("follow", app, "--only", "large.webhook")
    assert result.exit_code == 1
    assert "HR-412" in result.stderr


def test_an_address_that_cannot_be_read(call: Call, app: Path, bootstrap: str):
    result = call("follow", app, HEADRACE_BOOTSTRAP=bootstrap, HEADRACE_POSTGRES="host port")
    assert result.exit_code == 1
    assert "HR-110" in result.stderr


def test_tables_from_their_start_to_their_end(
    call: Call, process: Process, app: Path, name: str, connection: Connection, bootstrap: str, postgres_url: str
):
    publish(connection, name, "large")
    send(connection, f"{name}.large", "a", "b")
    environment = {"HEADRACE_BOOTSTRAP": bootstrap, "HEADRACE_POSTGRES": postgres_url}
    running = process("follow", app, "--json", **environment)
    try:
        assert eventually(lambda: ids(postgres_url, name, "large") == ["a", "b"])
        assert eventually(lambda: health(call).get("large.postgres") == ("keeping-up", "keeping up"))
        assert eventually(lambda: health(call).get("small.postgres", ("",))[0] == "waiting")
        assert "has not run yet" in health(call)["small.postgres"][1]
        publish(connection, name, "small")
        send(connection, f"{name}.small", "z")
        assert eventually(lambda: ids(postgres_url, name, "small") == ["z"])
        command(app, name, "small.postgres", "stopped")
        assert eventually(lambda: health(call)["small.postgres"] == ("stopped", "stopped"))
        send(connection, f"{name}.small", "y")
        send(connection, f"{name}.large", "c")
        assert eventually(lambda: ids(postgres_url, name, "large") == ["a", "b", "c"])
        assert ids(postgres_url, name, "small") == ["z"]
        command(app, name, "small.postgres", "running")
        assert eventually(lambda: ids(postgres_url, name, "small") == ["y", "z"])
    finally:
        running.send_signal(signal.SIGTERM)
        out, errors = running.communicate(timeout=60)
    assert running.returncode == 0, errors
    assert "following large.postgres, small.postgres" in errors
    events = [json.loads(line) for line in out.splitlines()]
    last = {event["query"]: event for event in events}
    assert last["large.postgres"]["rows_in"] == 3
    assert last["large.postgres"]["lag"] == {f"{name}.large[0]": 0}
    assert {event["state"] for event in last.values()} == {"stopped"}
    assert "psycopg" not in errors
    assert health(call) == {"large.postgres": ("stopped", "stopped"), "small.postgres": ("stopped", "stopped")}


def test_a_webhook_of_a_stream(
    call: Call, process: Process, app: Path, name: str, connection: Connection, bootstrap: str, tmp_path: Path
):
    """No PostgreSQL is needed for it, and a topic that is not there yet is waited for."""
    command = [sys.executable, "-m", "tests.followers.receiver", "0", str(tmp_path / "taken"), "sesame"]
    receiver = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout is not None
        place = f"http://127.0.0.1:{int(receiver.stdout.readline())}/"
        hook = f'hr.webhook("{place}", secret_env="HOOK_SECRET", allow_private=True)'
        app.write_text(f"{app.read_text()}\napp.follow(orders, {hook})\n")
        source = f"orders_of_{name}"
        running = process("follow", app, "--only", source, HEADRACE_BOOTSTRAP=bootstrap, HOOK_SECRET="sesame")
        try:
            assert eventually(lambda: health(call).get(f"{source}.webhook", ("",))[0] == "waiting")
            ensure(connection, [Topic(source)])
            send(connection, source, "a", "b")
            follower = f"{name}.{source}.webhook"

            def told() -> list[str]:
                with urllib.request.urlopen(place) as response:
                    return sorted(json.load(response)["rows"].get(follower, {}))

            assert eventually(lambda: told() == ["a", "b"])
        finally:
            running.send_signal(signal.SIGTERM)
            _, errors = running.communicate(timeout=60)
        assert running.returncode == 0, errors
        assert "sesame" not in errors
    finally:
        receiver.kill()
        receiver.communicate()


def test_a_receiver_that_never_answers(
    call: Call, process: Process, app: Path, name: str, connection: Connection, bootstrap: str
):
    """The follower says for what it waits, doctor says it in the same words, and a signal ends it all the same."""
    source = f"orders_of_{name}"
    ensure(connection, [Topic(source)])
    send(connection, source, "a")
    with socket.create_server(("127.0.0.1", 0)) as mute:
        place = f"http://127.0.0.1:{mute.getsockname()[1]}/"
        app.write_text(f'{app.read_text()}\napp.follow(orders, hr.webhook("{place}", allow_private=True))\n')
        running = process("follow", app, "--only", source, HEADRACE_BOOTSTRAP=bootstrap)
        try:
            assert eventually(lambda: health(call).get(f"{source}.webhook", ("",))[0] == "waiting")
            found = [
                json.loads(line)
                for line in call("doctor", app, "--json", HEADRACE_BOOTSTRAP=bootstrap).stdout.splitlines()
            ]
            (finding,) = [one for one in found if one["of"] == f"{source}.webhook"]
            assert finding["disease"] == "it waits, and goes on by itself"
            assert "127.0.0.1 does not answer" in finding["evidence"]
        finally:
            running.send_signal(signal.SIGTERM)
            _, errors = running.communicate(timeout=60)
    assert running.returncode in (0, 1), errors
    assert running.returncode == 0 or "HR-416" in errors


def test_one_that_fails_and_its_rebuild(
    call: Call, process: Process, app: Path, name: str, connection: Connection, bootstrap: str, postgres_url: str
):
    def follow(*options: str, until: Callable[[], bool]) -> tuple[int, str]:
        running = process("follow", app, *options, HEADRACE_BOOTSTRAP=bootstrap, HEADRACE_POSTGRES=postgres_url)
        try:
            assert eventually(until)
        finally:
            running.send_signal(signal.SIGTERM)
            _, errors = running.communicate(timeout=60)
        return running.returncode, errors

    def held() -> tuple[list[str], list[str]]:
        return ids(postgres_url, name, "large"), ids(postgres_url, name, "small")

    publish(connection, name, "large", "small")
    send(connection, f"{name}.large", "a")
    send(connection, f"{name}.small", "a")
    assert follow(until=lambda: held() == (["a"], ["a"]))[0] == 0
    publish(connection, name, "large", schema="id string, amount double, more int")
    send(connection, f"{name}.large", "b")
    send(connection, f"{name}.small", "b")
    code, errors = follow(
        until=lambda: held()[1] == ["a", "b"] and health(call).get("large.postgres", ("",))[0] == "failed"
    )
    assert code == 1
    assert "HR-402" in errors
    assert "`more` is missing" in errors
    assert held() == (["a"], ["a", "b"])
    assert follow("--only", "large", "--rebuild", "large", until=lambda: held()[0] == ["a", "b"])[0] == 0
