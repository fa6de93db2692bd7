"""What holds for every command: exit codes, errors as text, tracebacks when asked for, a quiet end of a pipe."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import Result

from headrace.errors import RunError

Call = Callable[..., Result]
Process = Callable[..., subprocess.Popen[str]]


def test_the_version(call: Call):
    result = call("--version")
    assert (result.exit_code, result.stdout) == (0, f"headrace {version('headrace')}\n")


@pytest.mark.parametrize("arguments", [["nonsense"], ["topic", "nonsense"], ["check"], ["topic", "tail"]])
def test_a_command_that_is_not_understood_exits_with_2(call: Call, arguments: list[str]):
    result = call(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"], ["graph"], ["explain"], ["setup"], ["run"], ["dev"], ["status"],
        ["parts", "up"], ["parts", "down"], ["parts", "status"], ["parts", "env"],
        ["topic", "ls"], ["topic", "describe"], ["topic", "tail"], ["topic", "produce"],
        ["dead", "ls"], ["dead", "show"], ["dead", "replay"],
    ],
)  # fmt: skip
def test_every_command_says_what_it_does(call: Call, arguments: list[str]):
    result = call(*arguments, "--help")
    assert result.exit_code == 0
    assert f"Usage: headrace {' '.join(arguments)}" in result.stdout


@pytest.mark.parametrize("arguments", [["topic", "ls"], ["topic", "tail", "t"], ["dead", "ls"], ["dead", "show", "t"]])
def test_without_a_kafka_the_error_says_how_to_get_one(call: Call, arguments: list[str]):
    result = call(*arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("HR-340  ")
    assert "headrace parts up" in result.stderr
    assert "HEADRACE_BOOTSTRAP" in result.stderr


def test_settings_that_cannot_be_used_are_an_error(call: Call, tmp_path: Path):
    (tmp_path / "headrace.toml").write_text("bootstrp = 'x'")
    result = call("topic", "ls")
    assert result.exit_code == 1
    assert "HR-101" in result.stderr


def test_debugging_shows_the_traceback(call: Call):
    with pytest.raises(RunError):
        call("topic", "ls", HEADRACE_DEBUG="1")


def test_colours_only_on_a_terminal(call: Call):
    assert "\x1b" not in call("topic", "ls").stderr
    assert "\x1b[1;31mHR-340" in call("topic", "ls", FORCE_COLOR="1").stderr


def test_a_pipe_that_ends_early_is_quiet(process: Process):
    running = process("explain")
    assert running.stdout is not None
    running.stdout.close()
    running.stdout = None
    _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (1, "")
