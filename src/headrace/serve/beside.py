"""A console, or the views with it, beside a run: a process of its own, which ends with the one that started it.

The engine and the pages do not share an interpreter, so that neither slows the other. The process holds one end of a
pipe as its standard input; when the other end is gone, also by kill -9, it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.errors import ServeError
from headrace.serve import server

LEASH_VARIABLE = "HEADRACE_CONSOLE_LEASH"
PORT = 8600
HOST = "127.0.0.1"
STARTING_S = 30.0
STOPPING_S = 5.0
_COMMAND = "from headrace.cli import main; main()"


class Beside:
    """A server that was started: `link` opens its console once, `views` is the address of the views. Use it with
    `with`, or `stop` it."""

    def __init__(
        self,
        app: Path,
        *,
        port: int | None = None,
        bootstrap: str | None = None,
        directory: Path | None = None,
        views: bool = False,
        console: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        arguments = ["serve" if views else "console", str(app), "--port", str(_free(port))]
        arguments += [] if console else ["--no-console"]
        arguments += ["--directory", str(directory)] if directory else []
        arguments += ["--bootstrap", bootstrap] if bootstrap else []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, *arguments],
            env={**os.environ, **(environment or {}), LEASH_VARIABLE: "1", "HEADRACE_LOG": "text"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C in the terminal is for the run, which stops this in its turn
        )
        self.link: str | None = None
        self.views: str | None = None
        self._wants = {name for name, wanted in (("console", console), ("views", views)) if wanted}
        self.failure: str | None = None
        self._told = threading.Event()
        self._complaints: deque[str] = deque(maxlen=50)
        for stream, take in ((self._process.stdout, self._hear), (self._process.stderr, self._complain)):
            threading.Thread(target=_lines, args=(stream, take), daemon=True).start()

    def wait(self, seconds: float = STARTING_S) -> str | None:
        """The link, or without a console the address of the views, as soon as there is one; None when it did not
        start."""
        until = seconds
        while until > 0 and not self._told.wait(0.2) and self._process.poll() is None:
            until -= 0.2
        if not self._told.is_set():
            self.failure = "".join(self._complaints).strip() or f"it gave no sign of life for {seconds:.0f} seconds"
        return self.link or self.views

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(STOPPING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _hear(self, line: str) -> None:
        if "http" not in line:
            return
        told = "views" if line.startswith("the views ") else "console"
        if told == "views":
            self.views = line.rsplit(maxsplit=1)[-1]
        else:
            self.link = line.rsplit(maxsplit=1)[-1]
        self._wants.discard(told)
        if not self._wants:
            self._told.set()

    def _complain(self, line: str) -> None:
        self._complaints.append(line)


def _lines(stream: Iterable[str], take: Callable[[str], None]) -> None:
    for line in stream:
        take(line)


def _free(port: int | None) -> int:
    """The port that is asked for; else the usual one, or any if that is taken."""
    if port is not None:
        return port
    try:
        server.bind(HOST, PORT).close()
    except ServeError:
        return 0
    return PORT
