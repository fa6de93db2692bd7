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


def test_what_cannot_run_live_ends_with_an_error_however_short_the_run(
    process: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    """The type of the function is told as text at the top of the file, where Spark does not run yet."""
    app = tmp_path / "app.py"
    twice = '\nfrom pyspark.sql import functions as F\n\n@F.udf("double")\ndef twice(x):\n    return 2 * x\n'
    used = APP.replace("orders.where", 'orders.withColumn("amount", twice("amount")).where')
    app.write_text(used.replace("\n@app.stream", f"{twice}\n@app.stream"))
    checked = process("check", app)
    out, errors = checked.communicate(timeout=120)
    assert (checked.returncode, out) == (1, "")
    assert "In live mode: `large` cannot run live: Spark's real-time mode does not take a Python function" in errors
    out, errors = process("run", app, "--mode", "live", "--for", "1s").communicate(timeout=240)
    assert "HR-308" in errors
    assert "running" not in errors + out


def test_every_mistake_is_told_before_a_server_is_started(
    process: Callable[..., subprocess.Popen[str]], tmp_path: Path
):
    app = tmp_path / "app.py"
    wrong = APP.replace("amount >", "amonut >")
    app.write_text(f'{wrong}\n@app.view(key="card")\ndef cards(orders):\n    return orders.select("id")\n')
    running = process("run", app, "--mode", "exact")
    out, errors = running.communicate(timeout=240)
    assert (running.returncode, out) == (1, "")
    assert [line.split()[0] for line in errors.splitlines() if line.startswith("HR-")] == ["HR-302", "HR-303"]
    assert "Kafka" not in errors
    assert sorted(one.name for one in (tmp_path / ".headrace").iterdir()) == ["spark.log", "spark.out"]


def test_a_run_from_its_start_to_its_end(
    call: Call, process: Callable[..., subprocess.Popen[str]], app: Path, tmp_path: Path
):
    running = process("run", app, "--mode", "exact", "--json")
    assert running.stderr is not None
    started: list[psutil.Process] = []
    try:
        said = []
        for line in running.stderr:
            said.append(json.loads(line))
            if said[-1]["event"].startswith("running large"):
                break
        assert [one["event"] for one in said[-1:]] == ["running large (exact)"], said
        assert {one["level"] for one in said} == {"info"}
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
