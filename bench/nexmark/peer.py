"""The programs that run the queries, each in a new process: Headrace's in this environment, Flink's in one of its own.

Flink's environment is made once, in the per-user cache, from packages by name; its Kafka connector is resolved like
every other jar.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ground import note
from headrace.errors import HeadraceError
from headrace.parts import jars, java
from headrace.parts.cache import made_once
from headrace.parts.jars import JarSet

PACKAGES = ("apache-flink==2.3.0", "psutil>=6")
CONNECTOR = JarSet(
    "", "Flink's Kafka connector", ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",), transitive=False
)
_REPOSITORY = Path(__file__).parent.parent.parent


class RunFailedError(Exception):
    """A program did not end well; the text is the end of what it said."""


@dataclass(frozen=True)
class Timing:
    """One run of a query."""

    seconds: float
    events_per_second: int
    cpu_seconds: float
    load: float


@dataclass(frozen=True)
class Flink:
    """An environment with Flink, and its connector."""

    python: Path
    jar: Path

    def run(self, **request: Any) -> list[Timing]:
        """Run a query; `flink.py` says what it can be asked."""
        program = str(Path(__file__).with_name("flink.py"))
        return _run([str(self.python), "-P", program], {**request, "jar": str(self.jar)})


def flink() -> Flink | None:
    """Flink, installed once; None, with a note, when that cannot be done."""
    key = hashlib.sha256(repr((PACKAGES, sys.version_info[:2])).encode()).hexdigest()[:16]
    try:
        jar = jars.files(CONNECTOR, note)[0]
        place = made_once("flink", key, _install)
    except (RunFailedError, HeadraceError) as error:
        note(f"Flink cannot be installed, so there are no figures of it: {error}")
        return None
    return Flink(place / "bin" / "python", jar)


def ours(**request: Any) -> list[Timing]:
    """Run a query on Headrace; `ours.py` says what it can be asked."""
    return _run([sys.executable, "-m", "bench.nexmark.ours"], request)


def _install(place: Path) -> None:
    note(f"installing {', '.join(PACKAGES)}")
    _call([sys.executable, "-m", "venv", str(place)])
    _call([str(place / "bin" / "python"), "-m", "pip", "--quiet", "--no-input", "install", *PACKAGES])


def _run(command: list[str], request: dict[str, Any]) -> list[Timing]:
    said = _call([*command, json.dumps(request)])
    return [Timing(**json.loads(line)) for line in said.splitlines() if line.startswith("{")]


def _call(command: list[str]) -> str:
    """What a program wrote to standard output."""
    done = subprocess.run(
        command, cwd=_REPOSITORY, env=java.find().environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RunFailedError((done.stderr or done.stdout).strip()[-2000:])
    return done.stdout
