"""The process that stands between an embedded server and its owner, and ends the one when the other is gone.

`python guard.py SPEC` starts the server that the JSON text SPEC describes, prints its pid and waits:

- standard input is a pipe from the owner. Its end means that the owner has stopped the part or has died, also by
  kill -9; the guard then asks the server to stop and kills its whole process group if it does not. A child that the
  owner forked may hold the pipe open, so the owner's pid is watched too.
- the byte `d` on that pipe lets go of the owner: the server lives on until the guard gets SIGTERM (`parts down`).
- when the server ends, so does the guard.
- when the guard itself is killed with -9, Linux delivers `death_signal` to the server. Elsewhere the server lives on,
  and the next start finds it by its `part.json`.

The guard and the server are in sessions of their own, so that a Ctrl-C in the terminal reaches only the owner, which
may still need the server in order to stop cleanly. It is run as a file, not as a module of the package, so that it
starts at once and does not depend on what the package imports. SPEC can be seen by every user of the machine, so it
holds no secret.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

DETACH = b"d"
STOP_SECONDS = 10
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.5
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "JAVA_TOOL_OPTIONS")


@dataclass(frozen=True)
class Command:
    """How to run a server: `user` is the (uid, gid) to become, `output` receives what it prints."""

    arguments: list[str]
    directory: str
    output: str
    user: list[int] | None
    stop_signal: int
    death_signal: int
    owner: int

    def to_json(self) -> str:
        """The text that `main` takes."""
        return json.dumps(asdict(self))


def environment() -> dict[str, str]:
    """What a server is given of this environment; the rest may hold secrets, and the server may be another user's."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


def main(text: str) -> None:
    """Run one server to its end."""
    command = Command(**json.loads(text))
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: asked.append(received))
    owner = _process(command.owner)
    with Path(command.output).open("wb") as output:
        server = subprocess.Popen(
            command.arguments,
            cwd=command.directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=command.user[0] if command.user else None,
            group=command.user[1] if command.user else None,
            extra_groups=[] if command.user else None,
            preexec_fn=_die_with_parent(command.death_signal),  # noqa: PLW1509 - the guard has one thread
        )
    try:
        print(server.pid, flush=True)
        _wait(server, owner, asked)
    finally:
        _end(server, command.stop_signal)


def _wait(server: subprocess.Popen[bytes], owner: psutil.Process | None, asked: list[int]) -> None:
    pipe: list[int] = [sys.stdin.fileno()]
    while server.poll() is None and not asked:
        readable, _, _ = select.select(pipe, [], [], _POLL_SECONDS)
        if readable and os.read(pipe[0], 1) == DETACH:
            pipe, owner = [], None
        elif readable or (pipe and not _alive(owner)):
            return


def _end(server: subprocess.Popen[bytes], stop_signal: int) -> None:
    if server.poll() is None:
        server.send_signal(stop_signal)
        with suppress(subprocess.TimeoutExpired):
            server.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)  # its group outlives it if it left children
    server.wait()


def _die_with_parent(number: int) -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    libc, guard = ctypes.CDLL(None), os.getpid()

    def request() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != guard:  # it died before the request was made
            os.kill(os.getpid(), signal.SIGKILL)

    return request


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _alive(process: psutil.Process | None) -> bool:
    try:
        return process is not None and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    main(sys.argv[1])
