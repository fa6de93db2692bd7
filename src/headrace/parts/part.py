"""A part: an embedded server, described by `part.json` in its directory, so that another process can find it.

A part is looked for before it is started, under a lock, so that of two processes that need it at once one starts it and
the other finds it. A process that found a part does not stop it. What is found is checked: the pid must belong to the
same process (its start time tells), and it must answer.

Crashes: the guard (guard.py) ends the server with its owner. A start right after that waits until the old server is
gone. A `part.json` of a process that has ended is stale and replaced. A start that fails leaves nothing running.

Limits: a part listens on the loopback address only. The lock and the pids are of one machine; do not share a state
directory over the network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from headrace.errors import PartError
from headrace.parts import guard
from headrace.parts.lock import locked

LOOPBACK = "127.0.0.1"
RECORD = "part.json"
START_SECONDS = 60
LEAST_FREE_BYTES = 100_000_000
_PORT_ATTEMPTS = 5
_LOG_LINES = 15
_PORT_TAKEN = re.compile(r"address already in use|could not bind|BindException", re.IGNORECASE)


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one with the same pid by its start time."""

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process that has this pid; psutil.NoSuchProcess if none has."""
        return cls(pid, psutil.Process(pid).create_time())

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.started) < 2 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


@dataclass(frozen=True)
class Record:
    """What `part.json` says: `owner` is None for a part that lives until `headrace parts down`."""

    name: str
    server: Process
    guard: Process
    owner: Process | None
    address: str
    data: str


@dataclass(frozen=True)
class Launch:
    """One attempt to start a server: how to run it, where it will listen, and how to know that it answers."""

    arguments: list[str]
    address: str
    directory: Path
    data: Path
    logs: list[Path]
    answers: Callable[[], bool]
    stop_signal: signal.Signals
    death_signal: signal.Signals
    user: tuple[int, int] | None = None


@dataclass(frozen=True)
class Part:
    """A running part; `process` is its guard if it was started here, and None if it was found."""

    directory: Path
    record: Record
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return self.record.address

    def stop(self) -> None:
        """End the part if it was started here and is not detached; returns when it is gone."""
        if self.process is not None and self.process.returncode is None and self.record.owner is not None:
            _abandon(self.directory, self.process, self.record)


def obtain(
    name: str,
    state: Path,
    ports: int,
    launch: Callable[[Path, list[int]], Launch],
    *,
    detached: bool,
    answers: Callable[[Path, str], bool],
) -> Part:
    """Find the part in the state directory, or start it.

    `launch(directory, ports)` prepares the data and describes the start; `answers(directory, address)` checks a part
    that was found. A detached part lives on after this process.
    """
    directory = state / name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _require_space(directory)
        with locked(directory / "start.lock"):
            if (record := find(directory)) is not None:
                if not _wait(lambda: answers(directory, record.address), 10):
                    raise _failure(
                        name, f"The {name} of pid {record.server.pid} does not answer at {record.address}.", ""
                    )
                return Part(directory, record)
            return _start(name, directory, ports, launch, detached=detached)
    except OSError as error:
        raise PartError(
            "HR-106",
            f"The state directory {directory} cannot be used: {error.strerror or error}.",
            found=error.filename or directory,
            fix="free some space, correct its permissions, or run the app from a directory that you can write",
        ) from error


def read(directory: Path) -> Record | None:
    """What `part.json` says; None when there is none that can be read."""
    try:
        values = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        owner = values.pop("owner")
        return Record(
            server=Process(**values.pop("server")),
            guard=Process(**values.pop("guard")),
            owner=Process(**owner) if owner else None,
            **values,
        )
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return None


def find(directory: Path) -> Record | None:
    """The record of the part that runs; what a dead process left is finished off and removed first."""
    record = read(directory)
    if record is not None and record.server.alive and (record.owner is None or record.owner.alive):
        return record
    if record is not None:
        end(directory, record)
    return None


def end(directory: Path, record: Record) -> None:
    """Stop a part and wait until it is gone; kills what does not stop."""
    if record.guard.alive:
        _signal(record.guard, signal.SIGTERM)
    _wait(lambda: not record.guard.alive and not record.server.alive, guard.STOP_SECONDS + 5)
    for process in (record.guard, record.server):
        if process.alive:
            _signal(process, signal.SIGKILL)
    _wait(lambda: not record.server.alive, 5)
    (directory / RECORD).unlink(missing_ok=True)


def _start(
    name: str, directory: Path, ports: int, launch: Callable[[Path, list[int]], Launch], *, detached: bool
) -> Part:
    said = ""
    for attempt in range(_PORT_ATTEMPTS):
        chosen = (_last_ports(directory, ports) if attempt == 0 else None) or _bindable([0] * ports)
        if chosen is None:
            break
        (directory / "ports").write_text(json.dumps(chosen), encoding="utf-8")
        part, said = _attempt(name, directory, launch(directory, chosen), detached=detached)
        if part is not None:
            return part
        if not _PORT_TAKEN.search(said):
            raise _failure(name, f"The embedded {name} did not start.", said)
    raise PartError(
        "HR-108",
        f"The embedded {name} found no free port on {LOOPBACK} in {_PORT_ATTEMPTS} attempts.",
        found=said or "no port that can be bound",
        fix="end what takes the ports of this machine, or set the address of an existing server in the settings",
    )


def _attempt(name: str, directory: Path, plan: Launch, *, detached: bool) -> tuple[Part | None, str]:
    """The part, or what its logs say about why there is none."""
    output = directory / "server.out"
    command = guard.Command(
        arguments=plan.arguments,
        directory=str(plan.directory),
        output=str(output),
        user=list(plan.user) if plan.user else None,
        stop_signal=plan.stop_signal,
        death_signal=plan.death_signal,
        owner=os.getpid(),
    )
    guard_log = directory / "guard.log"
    with guard_log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", guard.__file__, command.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=directory,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    record: Record | None = None
    try:
        with process.stdout as answer:
            server = int(answer.readline() or 0)
        if server and (record := _record(name, server, process.pid, plan)) is not None:
            _write(directory, record)
            alive = record.server
            _wait(lambda: not alive.alive or plan.answers(), START_SECONDS)
            if alive.alive and plan.answers():
                if detached:
                    record = Record(**{**vars(record), "owner": None})
                    _write(directory, record)
                    process.stdin.write(guard.DETACH)
                    process.stdin.close()
                return Part(directory, record, process), ""
        said = _tail([*plan.logs, output, guard_log])
        _abandon(directory, process, record)
    except BaseException:
        _abandon(directory, process, record)
        raise
    return None, said


def _abandon(directory: Path, process: subprocess.Popen[bytes], record: Record | None) -> None:
    if process.stdin is not None:
        process.stdin.close()
    if record is not None:
        end(directory, record)
    process.wait()


def _record(name: str, server: int, guard_pid: int, plan: Launch) -> Record | None:
    try:
        return Record(
            name, Process.of(server), Process.of(guard_pid), Process.of(os.getpid()), plan.address, str(plan.data)
        )
    except psutil.NoSuchProcess:
        return None


def _write(directory: Path, record: Record) -> None:
    written = directory / f"{RECORD}.writing"
    written.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
    written.rename(directory / RECORD)


def _signal(process: Process, number: signal.Signals) -> None:
    try:
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)  # guard and server each lead a group of their own
        else:
            os.kill(process.pid, number)
    except ProcessLookupError:
        pass


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _last_ports(directory: Path, count: int) -> list[int] | None:
    """The ports of the last run if they are free, so that addresses stay what they were."""
    try:
        last = json.loads((directory / "ports").read_text(encoding="utf-8"))
        return _bindable(last) if len(last) == count else None
    except (OSError, ValueError, TypeError):
        return None


def _bindable(wanted: list[int]) -> list[int] | None:
    """The wanted loopback ports (0 means any), if all can be bound at this moment; another program may be faster."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in wanted]
        try:
            for opened, port in zip(sockets, wanted, strict=True):
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                opened.bind((LOOPBACK, port))
        except OSError:
            return None
        return [opened.getsockname()[1] for opened in sockets]


def _tail(logs: list[Path]) -> str:
    lines: list[str] = []
    for log in logs:
        try:
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        except OSError:
            continue
    return "\n".join(lines)


def _require_space(directory: Path) -> None:
    free = shutil.disk_usage(directory).free
    if free < LEAST_FREE_BYTES:
        raise OSError(f"only {free // 1_000_000} MB are free on its disk")


def _failure(name: str, what: str, said: str) -> PartError:
    return PartError(
        "HR-107",
        what,
        found=("the last lines of its log:\n" + said) if said else "no log",
        fix=f"correct what the log names, or stop what is left with `headrace parts down` and delete {name}/ in the"
        " state directory to begin with empty data",
    )
