"""What the tests of the commands share: calling one in this process, and running one as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.command import app
from headrace.log.connection import Connection

Call = Callable[..., Result]
COMMAND = [sys.executable, "-c", "from headrace.cli import main; main()"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Call a command in an empty directory, with no settings but those given; an unforeseen exception is raised."""
    for name in [name for name in os.environ if name.startswith("HEADRACE_") and name != "HEADRACE_CACHE"]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, given: str | bytes | None = None, **environment: str) -> Result:
        return CliRunner().invoke(
            app, [str(one) for one in arguments], input=given, env=environment, catch_exceptions=False
        )

    return run


@pytest.fixture
def talk(call: Call, bootstrap: str) -> Call:
    """The same, with the run's Kafka in the settings."""

    def run(*arguments: object, given: str | bytes | None = None) -> Result:
        return call(*arguments, given=given, HEADRACE_BOOTSTRAP=bootstrap)

    return run


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start a command as a process of its own, in an empty directory."""

    def start(*arguments: object, **environment: str) -> subprocess.Popen[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
        return subprocess.Popen(
            [*COMMAND, *(str(one) for one in arguments)],
            cwd=tmp_path,
            env=inherited | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start
