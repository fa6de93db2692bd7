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


def test_the_addresses_for_other_programs(call: Call, bootstrap: str, postgres_url: str):
    servers = {"HEADRACE_BOOTSTRAP": bootstrap, "HEADRACE_POSTGRES": postgres_url}
    printed = call("parts", "env", **servers).stdout
    shell = f'{printed}echo "$HEADRACE_BOOTSTRAP $HEADRACE_POSTGRES"'
    assert subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout == (
        f"{bootstrap} {postgres_url}\n"
    )
    assert json.loads(call("parts", "env", "--json", **servers).stdout) == servers
    # Of what does not run nothing is said.
    assert call("parts", "env", HEADRACE_BOOTSTRAP=bootstrap).stdout == f"export HEADRACE_BOOTSTRAP={bootstrap}\n"
    nothing = call("parts", "env")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert "HR-115" in nothing.stderr


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
        assert json.loads(call("parts", "env", "--json").stdout) == {
            "HEADRACE_BOOTSTRAP": shown[0]["address"],
            "HEADRACE_POSTGRES": shown[1]["url"],
        }
        # The commands that need a Kafka find it by themselves.
        assert call("topic", "ls", "--json").stdout == "[]\n"
    finally:
        down = call("parts", "down")
    assert down.stdout == "stopped postgres and kafka\n"
    assert not any(psutil.pid_exists(part["pid"]) for part in shown)
