"""A driver in a process of its own, to be killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

STARTED_S = 240


def start(app: Path, mode: str, bootstrap: str) -> subprocess.Popen[bytes]:
    """`headrace run`; what it says goes to `run.log` beside the app."""
    headrace = str(Path(sys.executable).with_name("headrace"))
    command = [headrace, "run", str(app), "--mode", mode, "--bootstrap", bootstrap]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=(app.parent / "run.log").open("ab"))


def kill(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """kill -9; what it leaves behind after a while."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    return psutil.wait_procs(children, timeout=30)[1]
