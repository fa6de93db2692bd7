"""The process that keeps Spark warm for `headrace check`: one for each user of a machine.

Starting Spark takes seconds, and making a plan a fraction of one. So the first check starts this process, which holds a
session and answers at a Unix socket. Every check runs in a child process that is forked for it and ends with it: it
loads the file as it is now, in an empty module space, with the environment and the directory of the caller, and
whatever it does to its process is gone afterwards. What the app prints goes to the standard error of the caller.

The socket is in a directory that only the user can enter, and only that user may connect. A lock says which process
owns the socket, so that a socket that was left behind is replaced and two helpers never serve. The process ends when
nobody has asked for `IDLE_S`, after `MOST_CHECKS` (the JVM keeps a little of each plan), when its Spark or its socket
is gone, and when another version of Headrace asks, or one with other settings for Spark: the caller then starts another
helper.

A child that takes too long is interrupted, which shows its line, and killed if that does not help. A helper that is
killed takes its JVM along, and the check that waited for it asks another one; after `TRIES` of them it is done without.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import json
import os
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace.errors
from headrace.errors import HeadraceError, Location, RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHIN_S = 60.0
IDLE_S = 600.0
MOST_CHECKS = 100
MOST_AT_ONCE = 4
START_S = 60.0
TRIES = 3
GRACE_S = 5.0
STEP_S = 0.2
SOCKET = "check.sock"
_LOG = "check.log"
_LOCK = "check.lock"
_LONGEST_PATH = 100  # of a socket, in bytes
# How a child ends that has answered, and one that was asked for another Spark. A file may end it with any other code.
_ANSWERED, _OTHER = 171, 172
_LENGTH = struct.Struct("!I")
_TELLING = ("JAVA_HOME", "SPARK_HOME", "SPARK_SUBMIT_OPTS", "PYTHONPATH", "HEADRACE_CACHE", "TZ")
# It makes plans and runs nothing; Java's second compiler would cost more than it gives.
_SPARK = {"spark.driver.memory": "768m", "spark.default.parallelism": "2"}
_JAVA = "-XX:TieredStopAtLevel=1"


def place() -> Path | None:
    """The directory of the socket, which is the user's alone; None where there cannot be one."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    own = Path(given, "headrace") if given else Path(tempfile.gettempdir(), f"headrace-{os.getuid()}")
    try:
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return own if ours and len(bytes(own / SOCKET)) <= _LONGEST_PATH else None


def key() -> str:
    """What a helper must have in common with its caller: Headrace, Python, PySpark, and what Java is started with."""
    root = Path(headrace.errors.__file__).parent
    digest = hashlib.sha256(f"{sys.executable}\0{sys.version}\0{version('pyspark')}".encode())
    for name in _TELLING:
        digest.update(f"\0{name}={os.environ.get(name)}".encode())
    for directory, _, files in sorted(os.walk(root)):
        for file in sorted(files):
            if not file.endswith(".pyc"):
                state = os.stat(os.path.join(directory, file))  # noqa: PTH116, PTH118 - hundreds of files, at each check
                digest.update(f"\0{directory}/{file}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return digest.hexdigest()


def log() -> Path:
    """Where what Spark prints during a check is found."""
    directory = place()
    return directory / "spark.log" if directory else Path(os.devnull)


def ask(app: Path, modes: Sequence[str], within_s: float) -> dict[str, Any] | None:
    """What a helper answers; one is started if there is none. None when no helper can answer."""
    directory = place()
    if directory is None:
        return None
    request = {"key": key(), "app": str(app), "modes": list(modes), "within_s": within_s}
    request |= {"directory": str(Path.cwd()), "environment": dict(os.environ)}
    for _ in range(TRIES):
        try:
            helper = _connected(directory, app)
        except OSError:
            return None
        # A helper that goes while it is asked, be it killed or for another caller, is replaced by the next try.
        with contextlib.suppress(OSError, ValueError), helper:
            answer = _talk(helper, request)
            if not answer.get("other"):
                return answer
    return None


def _connected(directory: Path, app: Path) -> socket.socket:
    """A connection to the helper; OSError when there is none and none can be started."""
    until, started = time.monotonic() + START_S, None
    while True:
        helper = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            helper.connect(str(directory / SOCKET))
        except OSError as error:
            helper.close()
            if not isinstance(error, FileNotFoundError | ConnectionRefusedError) or time.monotonic() > until:
                raise
        else:
            return helper
        if started is None or started.poll() == 0:  # it found another helper, and that one has gone
            started = _start(directory, app)
        elif started.poll():
            raise ConnectionError("the helper did not start")
        time.sleep(0.02)


def _start(directory: Path, app: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace.engine.checker", str(app.absolute().parent)]
    with (directory / _LOG).open("ab") as log:
        log.truncate(0)
        return subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _talk(helper: socket.socket, request: dict[str, Any]) -> dict[str, Any]:
    """Ask, and wait for the answer; the helper gets our standard error for what the app prints."""
    data = json.dumps(request).encode()
    socket.send_fds(helper, [_LENGTH.pack(len(data))], [2])
    helper.sendall(data)
    answer = b""
    while part := helper.recv(65536):
        answer += part
    return json.loads(answer)


def told(errors: Sequence[HeadraceError], unchecked: Mapping[str, str]) -> dict[str, Any]:
    """What a check has found, for another process; `heard` is the way back."""
    return {
        "errors": [
            {
                "kind": type(error).__name__,
                "code": error.code,
                "what": error.what,
                "where": [error.where.file, error.where.line] if error.where else None,
                "found": None if error.found is None else str(error.found),
                "fix": error.fix,
            }
            for error in errors
        ],
        "unchecked": dict(unchecked),
    }


def heard(answer: Mapping[str, Any]) -> tuple[list[HeadraceError], dict[str, str]]:
    """The errors of an answer, and what was not checked and why."""
    if "late" in answer:
        return [too_long(answer["late"])], {}
    if "ended" in answer:
        return [_ended(answer["ended"])], {}
    return [
        getattr(headrace.errors, one["kind"])(
            one["code"],
            one["what"],
            where=Location(*one["where"]) if one["where"] else None,
            found=one["found"],
            fix=one["fix"],
        )
        for one in answer["errors"]
    ], answer["unchecked"]


def too_long(within_s: float, where: Location | None = None) -> RunError:
    """The error of a check that took too long."""
    return RunError(
        "HR-348",
        "The app has not come to the end of its file or of a function in the time that a check has.",
        where=where,
        found=f"{within_s:g} seconds",
        fix="let the file only declare and the functions only say what is to be computed; `--within` gives more time",
    )


def _ended(code: int) -> RunError:
    return RunError(
        "HR-349",
        "The process that has checked the app ended before it could tell what it found.",
        found=f"exit code {code}" if code >= 0 else f"signal {-code}",
        fix="look at what the file and its functions do besides declaring; `headrace check app.py --no-helper` does it"
        " in the process of the command",
    )


@dataclass
class _Child:
    """A check that runs: who asked, and until when it may."""

    connection: socket.socket
    within_s: float
    until: float


class _Helper:
    """The server, in one thread; it is the parent of the children."""

    def __init__(self, directory: Path, lock: int, options: dict[str, str]) -> None:
        self.key = key()
        self.directory = directory
        self.lock = lock
        self.options = options
        self.children: dict[int, _Child] = {}
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.inode = 0
        self.served = 0
        self.asked = time.monotonic()

    def listen(self) -> None:
        """Take the socket's place; who connects waits until Spark runs."""
        path = self.directory / SOCKET
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self.listener.bind(str(path))
        finally:
            os.umask(before)
        self.inode = path.stat().st_ino
        self.listener.listen(16)

    def is_there(self) -> bool:
        """Whether who looks for a helper finds this one."""
        try:
            return (self.directory / SOCKET).stat().st_ino == self.inode
        except OSError:
            return False

    def leave(self) -> None:
        """Let another helper take the place, at once."""
        if self.lock >= 0:
            if self.is_there():
                (self.directory / SOCKET).unlink(missing_ok=True)
            self.listener.close()
            os.close(self.lock)
            self.lock = -1

    def serve(self, spark: SparkSession) -> None:
        """Until there is a reason to end."""
        from headrace.kernel import bridge

        while True:
            for pid in list(self.children):
                self._look_after(pid)
            idle = time.monotonic() - self.asked > IDLE_S
            if bridge.has_ended() or self.served >= MOST_CHECKS or idle or not self.is_there():
                self.leave()
            if self.lock < 0:
                if not self.children:
                    return
                time.sleep(STEP_S)
                continue
            step = STEP_S / 10 if self.children else STEP_S
            ready, _, _ = select.select([self.listener] if len(self.children) < MOST_AT_ONCE else [], [], [], step)
            if ready:
                with contextlib.suppress(OSError, ValueError):
                    self._take(spark)

    def _take(self, spark: SparkSession) -> None:
        connection, _ = self.listener.accept()
        connection.settimeout(GRACE_S)
        request, error_output = _read(connection) if _is_own(connection) else ({}, -1)
        self.asked = time.monotonic()
        if request.get("key") != self.key:
            if error_output >= 0:
                os.close(error_output)
                self.leave()
                _send(connection, {"other": True})
            connection.close()
            return
        self.served += 1
        pid = os.fork()
        if pid == 0:
            try:
                self.listener.close()
                os.close(self.lock)
                os.dup2(error_output, 1)
                os.dup2(error_output, 2)
                os._exit(_answer(connection, request, spark, self.options))
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        os.close(error_output)
        connection.setblocking(False)
        within = float(request["within_s"])
        # A check has its time twice, for the file and for the functions.
        self.children[pid] = _Child(connection, within, time.monotonic() + 2 * within + GRACE_S)

    def _look_after(self, pid: int) -> None:
        child = self.children[pid]
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del self.children[pid]
            code = os.waitstatus_to_exitcode(status)
            if code == _OTHER:
                self.leave()
                _send(child.connection, {"other": True})
            elif code != _ANSWERED:
                late = time.monotonic() > child.until
                _send(child.connection, {"late": child.within_s} if late else {"ended": code})
            child.connection.close()
        elif time.monotonic() > child.until or _is_gone(child.connection):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _is_own(connection: socket.socket) -> bool:
    """Whether the caller is this user; where the system does not say so, the directory has let nobody else in."""
    asked = getattr(socket, "SO_PEERCRED", None)
    if asked is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, asked, struct.calcsize("3i")))
    return user == os.getuid()


def _is_gone(connection: socket.socket) -> bool:
    """Whether the caller has left."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _read(connection: socket.socket) -> tuple[dict[str, Any], int]:
    """A request, and the standard error that came with it."""
    head, given, _, _ = socket.recv_fds(connection, _LENGTH.size, 1)
    if len(head) < _LENGTH.size or not given:
        raise ConnectionError("cut off")
    (length,) = _LENGTH.unpack(head)
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionError("cut off")
        data += part
    return json.loads(data), given[0]


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(answer).encode())


def _answer(connection: socket.socket, request: dict[str, Any], spark: SparkSession, options: dict[str, str]) -> int:
    """The child: check, tell, and say how it went as an exit code."""
    from headrace.engine import check
    from headrace.settings import Settings

    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    app = Path(request["app"])
    # Settings that cannot be used are an error of the check.
    with contextlib.suppress(HeadraceError):
        if Settings.load(app.parent).spark != options:
            return _OTHER
    found = check.look(app, request["modes"], request["within_s"], spark=spark)
    sys.stdout.flush()
    sys.stderr.flush()
    connection.settimeout(None)
    _send(connection, told(found.errors, found.unchecked))
    return _ANSWERED


def _is_served(path: Path) -> bool:
    """Whether a helper listens there: a killed one leaves its socket, and its last thread to end has its lock."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        return connection.connect_ex(str(path)) == 0


def _lock(directory: Path) -> int | None:
    """The lock of the socket; None when another helper has it and serves."""
    descriptor = os.open(directory / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _is_served(directory / SOCKET):
                break
            time.sleep(STEP_S / 10)
        else:
            os.truncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            return descriptor
    os.close(descriptor)
    return None


def main(directory: Path) -> None:
    """Be the helper, with the settings of the app in a directory."""
    own = place()
    lock = _lock(own) if own else None
    if own is None or lock is None:
        return
    # Only this process, which nobody waits for more than once, loads Spark.
    from headrace.engine.session import end, session
    from headrace.settings import Settings

    options = Settings.load(directory).spark
    helper = _Helper(own, lock, options)
    helper.listen()
    os.environ["SPARK_SUBMIT_OPTS"] = f"{_JAVA} {os.environ.get('SPARK_SUBMIT_OPTS', '')}".strip()
    started: list[SparkSession] = []
    # A thread of Python has its own connection to the JVM. The main thread has none before it is forked, so that each
    # child makes one, and does not speak into that of another.
    starting = threading.Thread(
        target=lambda: started.append(session("headrace-check", settings={**_SPARK, **options}))
    )
    starting.start()
    starting.join()
    try:
        if started:
            gc.freeze()
            helper.serve(started[0])
    finally:
        helper.leave()
        if started:
            end(started[0])
    sys.exit(0 if started else 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
