"""All of an app in one process: what it starts, what a saved file starts again, and what a mistake leaves running."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from headrace.errors import DeclarationErrors, RunError
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.services import dev

COMMAND = [sys.executable, "-c", "from headrace.cli import main; main()"]
ROOT = Path(__file__).parents[2]
APP = """
import headrace as hr
from shared import LIMIT

app = hr.App("shop")
orders = app.stream("orders", schema="id string, card string, amount double")

@app.stream(key="id")
def large(orders):
    return orders.where(f"amount > {LIMIT}")

@app.view(key="card")
def totals(orders):
    return hr.aggregate(orders, by="card", spent=hr.sum("amount"))

app.follow(large, hr.webhook("RECEIVER", secret_env="HOOK_SECRET", allow_private=True))
app.follow(large, hr.webhook("RECEIVER", secret_env="NO_SUCH", allow_private=True, name="mail"))
"""
SCRIPT = """
import sys
import headrace as hr
from headrace.log import topic
from headrace.log.producer import Producer
from headrace.services import dev

app = hr.App(sys.argv[1])
orders = app.stream("orders", topic=f"{app.name}.orders", schema="id string, amount double")

@app.stream(topic=f"{app.name}.large")
def large(orders):
    return orders.where("amount > 100")

with dev(app) as running:
    assert running.link is None
    with Producer(running.connection) as producer:
        producer.send(f"{app.name}.orders", {"id": "a", "amount": 500.0})
    while not sum(topic.ends(running.connection, f"{app.name}.large").values()):
        running.wait(0.2)
    print("answered", dict(running.places)["result"])
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that the user that runs PostgreSQL for root can reach."""
    made = Path(tempfile.mkdtemp(prefix="headrace-dev-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def receiver(home: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.followers.receiver", "0", str(home / "taken"), "sesame"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    process.kill()
    process.communicate()


class Running:
    """`headrace dev` as a process; `events` are the lines of its log, `places` what it prints of addresses."""

    def __init__(self, home: Path, *options: str, **environment: str) -> None:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
        self.process = subprocess.Popen(
            [*COMMAND, "dev", "app.py", *options],
            cwd=home,
            env=inherited | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.events: list[dict[str, Any]] = []
        self.places: dict[str, str] = {}
        self._readers = [
            threading.Thread(target=self._read, args=(stream, take))
            for stream, take in ((self.process.stdout, self._place), (self.process.stderr, self._event))
        ]
        for one in self._readers:
            one.start()

    def told(self, text: str) -> list[dict[str, Any]]:
        return [one for one in self.events if text in json.dumps(one, ensure_ascii=False)]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        for one in self._readers:
            one.join()
        return code

    def _read(self, stream: IO[str], take: Callable[[str], None]) -> None:
        for line in stream:
            take(line)

    def _place(self, line: str) -> None:
        name, _, at = line.strip().partition(" ")
        self.places.setdefault(name, at.strip())

    def _event(self, line: str) -> None:
        self.events.append(json.loads(line))


def eventually(condition: Callable[[], object], running: Running, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert running.process.poll() is None, running.events
        assert time.monotonic() < deadline, running.events[-20:]
        time.sleep(0.2)


def test_all_of_an_app_and_files_that_are_saved(home: Path, receiver: str):
    app, shared = home / "app.py", home / "shared.py"
    app.write_text(APP.replace("RECEIVER", receiver))
    shared.write_text("LIMIT = 100\n")
    # What an earlier start has left, and what would stop this one.
    left = home / ".headrace" / "checkpoints" / "shop" / "large"
    (left / "offsets").mkdir(parents=True)
    (left / "offsets" / "7").write_text("nonsense")
    (home / ".headrace" / "kafka" / "data").mkdir(parents=True)
    running = Running(home, "--fresh", "--port", "0", HOOK_SECRET="sesame", HEADRACE_LIVE_BATCH="5 seconds")
    try:
        eventually(lambda: "result" in running.places, running, seconds=240)
        assert running.told("removing the checkpoints of shop")
        assert [one["errors"][0]["code"] for one in running.told("NO_SUCH")] == ["HR-412"]
        token = (home / ".headrace" / "token").read_text()
        assert "/console/?key=" in running.places["console"]
        password = (home / ".headrace" / "postgres" / "password").read_text()
        assert password not in json.dumps([running.events, running.places])

        def totals() -> dict[str, float]:
            asked = urllib.request.Request(
                f"{running.places['views']}/totals", headers={"Authorization": f"Bearer {token}"}
            )
            try:
                with urllib.request.urlopen(asked, timeout=30) as answer:
                    return {row["card"]: row["spent"] for row in json.load(answer)["rows"]}
            except OSError:
                return {}

        def hooked() -> list[str]:
            with urllib.request.urlopen(receiver) as answer:
                return sorted(json.load(answer)["rows"].get("shop.large.webhook", {}))

        def order(name: str, card: str, amount: float) -> None:
            with Producer(Connection(running.places["Kafka"])) as producer:
                producer.send("orders", {"id": name, "card": card, "amount": amount})

        order("a", "x", 150)
        order("b", "x", 50)
        eventually(lambda: totals() == {"x": 200.0}, running)
        eventually(lambda: hooked() == ["a"], running)

        good = app.read_text()
        app.write_text(good.replace('hr.sum("amount")', 'hr.sum("amonut")'))
        eventually(lambda: running.told("the app goes on as it was"), running)
        assert running.told("amonut")
        order("c", "y", 10)
        eventually(lambda: totals() == {"x": 200.0, "y": 10.0}, running)

        app.write_text(good + "\n# as before\n")
        eventually(lambda: running.told("nothing that runs has changed"), running)
        assert not running.told("starting again")

        shared.write_text("LIMIT = 20\n")
        eventually(lambda: running.told("starting again: site") and "views" in running.places, running)
        assert not running.told("starting again: followers")
        order("d", "y", 30)
        eventually(lambda: hooked() == ["a", "d"], running)
        eventually(lambda: totals() == {"x": 200.0, "y": 40.0}, running)

        app.write_text(good.replace('hr.sum("amount")', 'hr.max("amount")'))
        eventually(lambda: running.told("the app is started as it was"), running)
        assert running.told("HR-307")
        order("e", "x", 5)
        eventually(lambda: totals() == {"x": 205.0, "y": 40.0}, running)
    finally:
        code = running.stop()
    assert code == 0, running.events
    assert {one["level"] for one in running.events} == {"info", "warning", "error"}
    assert running.events[-1]["event"] == "stopping"


def test_an_app_as_an_object_in_a_program(bootstrap: str, tmp_path: Path, topic: Callable[[str], str]):
    (tmp_path / "program.py").write_text(SCRIPT)
    name = topic("shop")
    done = subprocess.run(
        [sys.executable, "program.py", name],
        cwd=tmp_path,
        env=os.environ | {"HEADRACE_BOOTSTRAP": bootstrap},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"answered {name}.large"


def test_what_is_wrong_is_told_before_anything_starts(tmp_path: Path):
    file = tmp_path / "app.py"
    file.write_text("import headrace as hr\n")
    with pytest.raises(DeclarationErrors, match="HR-023"):
        dev(file)
    assert not (tmp_path / ".headrace").exists()


def test_a_fresh_start_beside_servers_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "app.py"
    file.write_text('import headrace as hr\n\napp = hr.App("shop")\n')
    monkeypatch.setenv("HEADRACE_BOOTSTRAP", "broker:9092")
    with pytest.raises(RunError, match="HR-351"), dev(file, fresh=True):
        pass
    assert not (tmp_path / ".headrace").exists()
