"""kill -9 inside a Kafka transaction: committed readers see nothing of it, and afterwards everything once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ends, ensure

RECORDS = 60_000
PATIENCE_S = 240
# Each row is widened, so that a batch writes for several seconds.
APP = """
import headrace as hr

app = hr.App("inside")
app.stream("readings", topic="{source}", schema="n bigint", partitions=1)


@app.stream(topic="{result}", partitions=1)
def wide(readings):
    return readings.selectExpr("n", "repeat(sha2(string(n), 512), 20) as text")
"""


def start(app: Path, bootstrap: str) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("headrace")), "run", str(app), "--bootstrap", bootstrap]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=(app.parent / "run.log").open("ab"))


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.02)


def kill(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    psutil.wait_procs(children, timeout=30)


@pytest.mark.timeout(900)
def test_readers_of_committed_records_see_nothing_of_it(bootstrap: str, tmp_path: Path, topic: Callable[[str], str]):
    connection, source, result = Connection(bootstrap), topic("readings"), topic("wide")
    ensure(connection, [Topic(source, 1), Topic(result, 1)])
    with Producer(connection) as producer:
        for n in range(RECORDS):
            producer.send(source, {"n": n})
    app, log = tmp_path / "app.py", tmp_path / "run.log"
    app.write_text(APP.format(source=source, result=result))

    process = start(app, bootstrap)
    wait_for(lambda: ends(connection, result, committed=False)[0] > 0, process, log)
    kill(process)
    written, committed = ends(connection, result, committed=False)[0], ends(connection, result)[0]
    assert 0 < written < RECORDS, "the kill came too late to be inside the transaction"
    assert committed == 0
    assert list(read(connection, result)) == []

    process = start(app, bootstrap)
    wait_for(lambda: sum(1 for _ in read(connection, result)) >= RECORDS, process, log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0, log.read_text()
    found = Counter(json.loads(record.value or b"")["n"] for record in read(connection, result))
    assert found == Counter(range(RECORDS))
