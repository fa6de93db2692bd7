"""`run` and what only it can show; starting Spark takes long, so one process tells most of it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from typer.testing import Result

Call = Callable[..., Result]
BROKEN = Path(__file__).parents[1] / "broken_apps"
APP = """
import headrace as hr

app = hr.App("shop")
orders = app.stream("orders", schema="id string, amount double")

@app.stream
def large(orders):
    return orders.where("amount > 100")
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


def eventually(condition: Callable[[], bool], seconds: float = 240) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.mark.parametrize("command", ["run", "dev"])
def test_a_broken_app_starts_nothing(call: Call, tmp_path: Path, command: str):
    app = tmp_path / "app.py"
    app.write_text((BROKEN / "cycle.py").read_text())
    result = call(command, app)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "HR-015" in result.stderr
    assert not (tmp_path / ".headrace").exists()


def test_options_that_make_no_sense(call: Call, app: Path):
    assert call("run", app, "--for", "a while").exit_code == 2
    assert call("run", app, "--mode", "fast").exit_code == 2


def test_a_query_that_is_not_there(talk: Call, app: Path):
    before = signal.getsignal(signal.SIGTERM)
    result = talk("run", app, "--only", "small")
    assert result.exit_code == 1
    assert "HR-311" in result.stderr
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_from_its_start_to_its_end(
    call: Call, process: Callable[..., subprocess.Popen[str]], app: Path, tmp_path: Path
):
    running = process("run", app, "--mode", "exact", "--json")
    assert running.stderr is not None
    started: list[psutil.Process] = []
    try:
        said = []
        for line in running.stderr:
            said.append(line)
            if line.startswith("running large"):
                break
        assert said[-1:] == ["running large (exact)\n"], "".join(said)
        started = psutil.Process(running.pid).children(recursive=True)
        assert any("java" in one.name() for one in started)
        call(
            "topic",
            "produce",
            "orders",
            given='{"id":"a","amount":500}\n{"id":"b","amount":5}\n{"id":"c","amount":101}\n',
        )

        def results() -> list[str]:
            lines = call("topic", "tail", "large", "--from", "beginning", "--json").stdout.splitlines()
            return sorted(json.loads(json.loads(line)["value"])["id"] for line in lines)

        assert eventually(lambda: len(results()) >= 2)
        assert results() == ["a", "c"]

        def health() -> list[tuple[str, str]]:
            shown = json.loads(call("status", "--json").stdout)
            return [(one["query"], one["health"]["word"]) for one in shown]

        assert eventually(lambda: health() == [("large", "keeping-up")])
    finally:
        running.send_signal(signal.SIGTERM)
        out, errors = running.communicate(timeout=240)
    assert running.returncode == 0, errors
    assert eventually(lambda: not any(one.is_running() for one in started))
    events = [json.loads(line) for line in out.splitlines()]
    assert {event["query"] for event in events} == {"large"}
    assert events[-1]["state"] == "stopped"
    assert events[-1]["rows_in"] == 3
    assert health() == [("large", "stopped")]
