"""What the whole test run shares: one embedded Kafka, one embedded PostgreSQL, fresh topic names, seeds.

Servers are started on first use and end with the run, also when it is killed. With `HEADRACE_BOOTSTRAP` or
`HEADRACE_POSTGRES` set, the tests use those servers and start none. Sessions are started once per run, topics are per
test.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.engine.session import session
from headrace.parts.embedded import Parts
from headrace.settings import Settings

# A shell that runs the tests in the background lets them ignore Ctrl-C, and so would every process they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A JVM of the tests compiles plans that run a few times. Java's second compiler takes more than a third of what it
# computes in its first minutes, and gives little back. Every Spark of the run hears of it, whoever starts it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")

# The helper of `headrace check` is the run's own, and ends when its directory is gone.
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="headrace-run-")
atexit.register(shutil.rmtree, os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)


def _report(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# Servers


@pytest.fixture(scope="session")
def parts_home() -> Iterator[Path]:
    """The app directory of the shared servers; other users may enter it, for the one that runs PostgreSQL for root."""
    home = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    home.chmod(0o755)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def bootstrap(parts_home: Path) -> Iterator[str]:
    """The address of the run's Kafka."""
    with Parts.start(Settings.load(parts_home), report=_report) as parts:
        yield parts.bootstrap


@pytest.fixture(scope="session")
def postgres_url(parts_home: Path) -> Iterator[str]:
    """The address of the run's PostgreSQL, with its password."""
    with Parts.start(Settings.load(parts_home), kafka=False, postgres=True, report=_report) as parts:
        yield parts.postgres_url


@pytest.fixture
def topic() -> Callable[[], str]:
    """Makes a topic name that no other test has; `topic("orders")` begins with `orders`. The topic is not created."""

    def unique(prefix: str = "test") -> str:
        return f"{prefix}_{uuid.uuid4().hex[:12]}"

    return unique


@pytest.fixture
def seed() -> int:
    """A number for the dice of a property test, printed where it fails; `HEADRACE_SEED` gives the same again."""
    number = int(os.environ.get("HEADRACE_SEED", random.SystemRandom().randrange(2**32)))
    print(f"HEADRACE_SEED={number}")
    return number


# Spark sessions


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The run's Spark session, as the engine starts it."""
    running = session("headrace-tests", report=_report)
    yield running
    running.stop()
