from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
from typer.testing import Result

Call = Callable[..., Result]


def test_nothing_runs_at_first(call: Call):
    shown = {part["name"]: part for part in json.loads(call("parts", "status", "--json").stdout)}
    assert {name: part["health"] for name, part in shown.items()} == {"kafka": "not running", "postgres": "not running"}
    assert call("parts", "down").stdout == "nothing was running\n"


def test_a_server_of_the_settings_is_used_and_not_started(talk: Call, bootstrap: str):
    result = talk("parts", "up", "--no-postgres", "--json")
    kafka = json.loads(result.stdout)[0]
    assert (kafka["embedded"], kafka["health"], kafka["address"], kafka["pid"]) == (False, "answers", bootstrap, None)


def test_a_server_of_the_settings_that_is_down(call: Call):
    kafka = json.loads(call("parts", "status", "--json", HEADRACE_BOOTSTRAP="127.0.0.1:1").stdout)[0]
    assert kafka["health"] == "does not answer"


def test_up_lives_on_until_down(call: Call, process: Callable[..., subprocess.Popen[str]], tmp_path: Path):
    tmp_path.chmod(0o755)
    up = process("parts", "up")
    _, errors = up.communicate(timeout=240)
    try:
        assert up.returncode == 0, errors
        result = call("parts", "status")
        lines = result.stdout.splitlines()
        assert [line.split()[:2] for line in lines[1:]] == [["kafka", "answers"], ["postgres", "answers"]]
        assert lines[1].endswith("until `headrace parts down`")
        shown = json.loads(call("parts", "status", "--json", "--show-url").stdout)
        password = (tmp_path / ".headrace" / "postgres" / "password").read_text()
        assert password in shown[1]["url"]
        assert password not in result.output + call("parts", "status", "--json").output
        assert str(tmp_path / ".headrace" / "postgres" / "password") in result.stderr
        # The commands that need a Kafka find it by themselves.
        assert call("topic", "ls", "--json").stdout == "[]\n"
    finally:
        down = call("parts", "down")
    assert down.stdout == "stopped postgres and kafka\n"
    assert not any(psutil.pid_exists(part["pid"]) for part in shown)
