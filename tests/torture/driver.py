"""A driver in a process of its own, to be killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

STARTED_S = 240


class Background(threading.Thread):
    """Something that goes on beside a test until it is told to stop, at the latest when the test ends."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()

    def stop(self) -> None:
        self.done.set()
        self.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Drivers:
    """Starts one after the other; whatever becomes of a test, the last one ends with it."""

    def __init__(self, app: Path, mode: str, bootstrap: str) -> None:
        headrace = str(Path(sys.executable).with_name("headrace"))
        self._command = [headrace, "run", str(app), "--mode", mode, "--bootstrap", bootstrap]
        self._log = app.parent / "run.log"
        self._last: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """`headrace run`; what it says goes to `run.log` beside the app."""
        with self._log.open("ab") as log:
            self._last = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=log)
        return self._last

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._last is not None and self._last.poll() is None:
            kill(self._last)


def kill(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """kill -9; what it leaves behind after a while."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    return psutil.wait_procs(children, timeout=30)[1]
