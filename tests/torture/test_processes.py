"""A run is two processes, Python and Spark's. Whichever is killed with -9, the other one ends, and nobody else writes
to the checkpoint before; between them they open no door to the network, and no secret goes from one to the other that
it does not need.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from tests.torture.driver import STARTED_S

from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ends, ensure

SECRETS = {
    "HEADRACE_TOKEN": "secret-of-serve",
    "HEADRACE_SOURCE": "postgresql://somebody:secret-of-source@127.0.0.1:1/shop",
    "HEADRACE_POSTGRES": "postgresql://somebody:secret-of-views@127.0.0.1:1/shop",
    "HEADRACE_KAFKA__CLIENT.ID": "secret-of-kafka",
    "PGPASSWORD": "secret-of-libpq",
    "HOOK_SECRET": "secret-of-webhook",
}
APP = """
import headrace as hr

app = hr.App("processes")
app.stream("payments", topic="{source}", schema="id string, at timestamp", event_time="at", id="id")


@app.stream(topic="{result}")
def unique(payments):
    return hr.dedupe(payments, by="id", within="10 minutes")


app.follow(unique, hr.webhook("https://example.com/", secret_env="HOOK_SECRET"))
"""


class Running:
    """`headrace run` of the app, with its output in a file."""

    def __init__(self, app: Path, mode: str, bootstrap: str) -> None:
        self.log = app.parent / "run.log"
        self.command = [str(Path(sys.executable).with_name("headrace")), "run", str(app), "--mode", mode]
        self.command += ["--bootstrap", bootstrap]
        with self.log.open("wb") as out:
            environment = {**os.environ, **SECRETS}
            self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=out, env=environment)

    def until(self, done: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + STARTED_S
        while not done():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, f"{what}: {self.log.read_text()}"
            time.sleep(0.1)

    @property
    def all(self) -> list[psutil.Process]:
        python = psutil.Process(self.process.pid)
        return [python, *python.children(recursive=True)]

    @property
    def spark(self) -> psutil.Process:
        return next(one for one in self.all if one.name() == "java")


@pytest.fixture
def running(bootstrap: str, tmp_path: Path, topic: Callable[[str], str]) -> Iterator[Callable[[str], Running]]:
    """Starts the app and returns when it writes; whatever becomes of the test, all of it ends."""
    connection, source, result = Connection(bootstrap), topic("payments"), topic("unique")
    ensure(connection, [Topic(source, 2), Topic(result, 2)])
    app = tmp_path / "app.py"
    app.write_text(APP.format(source=source, result=result))
    (tmp_path / "headrace.toml").write_text('[spark]\n"spark.hadoop.fs.s3a.secret.key" = "secret-of-s3"\n')
    started: list[psutil.Process] = []

    def start(mode: str) -> Running:
        run = Running(app, mode, bootstrap)
        started.append(psutil.Process(run.process.pid))
        with Producer(connection) as producer:
            for number in range(20):
                event = {"id": f"p{number}", "at": datetime.now(UTC)}
                producer.send(source, event, key=event["id"])
        run.until(lambda: sum(ends(connection, result).values()) >= 20, "no output")
        started.extend(run.all)
        return run

    yield start
    for process in started:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _listening(process: psutil.Process) -> list[str]:
    """The addresses at which a process listens; Java has those of IPv4 inside of IPv6."""
    with suppress(psutil.NoSuchProcess):  # Spark starts some that live for a moment
        there = process.net_connections("inet")
        return [one.laddr.ip.removeprefix("::ffff:") for one in there if one.status == psutil.CONN_LISTEN]
    return []


@pytest.mark.timeout(600)
def test_a_live_run_listens_for_itself_alone_and_ends_when_spark_is_killed(running: Callable[[str], Running]):
    run = running("live")
    doors = {one: _listening(one) for one in run.all}
    # Python's calls, the driver, its blocks, and the two writers of the shuffle in front of `dedupe`.
    assert len(doors[run.spark]) >= 5
    assert [at for found in doors.values() for at in found if not ipaddress.ip_address(at).is_loopback] == []

    told = run.spark.environ()
    assert "PATH" in told
    assert [name for name, value in told.items() if "secret" in value] == []
    assert [word for word in run.spark.cmdline() if "secret" in word] == []

    run.spark.kill()
    assert run.process.wait(60) == 1, run.log.read_text()
    assert "HR-318" in run.log.read_text()
    assert "Traceback" not in run.log.read_text()


@pytest.mark.timeout(600)
def test_as_long_as_spark_runs_nobody_else_may_write(running: Callable[[str], Running]):
    run = running("exact")
    spark, rest = run.spark, run.all[1:]
    spark.send_signal(signal.SIGSTOP)  # it cannot end, as on a machine that is busy with something else
    run.process.kill()
    run.process.wait()
    second = subprocess.run([*run.command, "--for", "1s"], capture_output=True, text=True, check=False, timeout=300)
    assert second.returncode == 1, second.stderr
    assert second.stderr.splitlines()[0].startswith("HR-306"), second.stderr
    assert f"process {spark.pid} " in second.stderr
    assert spark.is_running()

    spark.send_signal(signal.SIGCONT)
    assert psutil.wait_procs(rest, timeout=10)[1] == [], "left behind by the killed driver"
