"""A new app, run as `headrace new` says: in processes of its own, until an answer has come."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

PATIENCE_S = 300
BEGINNING = ("pip install headrace", "headrace new shop", "headrace dev shop/app.py")
"""What README and the tutorial begin with; tests/test_packaging.py carries it out in a clean environment."""
READY = {"headrace dev": r"(?m)^result +\w+", "generate.py$": "writing orders"}
"""What a command prints when the next one may begin."""


def answer(template: str, directory: Path, environment: dict[str, str]) -> str:
    """The first record of the app's result, as the last of the commands prints it."""
    told = _bash(f"headrace new shop --template {template}", directory, environment)
    *commands, tail = [line.strip() for line in told.partition("next:\n")[2].splitlines()]
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    try:
        for number, command in enumerate(commands):
            if "parts up" in command:
                _bash(command, directory, environment)
            else:
                log = directory / f"output-{number}.log"
                running.append((command, _start(command, directory, environment, log)))
        return _bash(tail.replace("--follow", "--follow --from beginning -n 1"), directory, environment)
    finally:
        while running:
            command, process = running.pop()
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0 or "|" in command, f"$ {command}"
        if any("parts up" in command for command in commands):
            _bash("headrace parts down --directory shop", directory, environment)


def _bash(command: str, directory: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _start(command: str, directory: Path, environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ready = [text for part, text in READY.items() if re.search(part, command)]
    until = time.monotonic() + PATIENCE_S
    while ready and not re.search(ready[0], said := log.read_text(encoding="utf-8")):
        assert process.poll() is None, f"$ {command}\nended:\n{said}"
        assert time.monotonic() < until, f"$ {command}\nprinted only\n{said}"
        time.sleep(0.2)
    return process
