"""The payments app on a Spark cluster with a secret: two workers, one of which is killed with -9 while it works."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pyspark
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from headrace import names
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic, delete, ends, ensure
from headrace.parts import java

EXAMPLE = Path(__file__).parents[2] / "examples" / "payments" / "app.py"
STARTED_S = 240
SECRET = uuid.uuid4().hex


class Cluster:
    """A standalone master and two workers, from the scripts inside pyspark."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = _free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.master = self._class("master.Master", "--port", str(self.port), "--webui-port", str(_free_port()))
        _until(lambda: _answers(self.port), "the master answers")
        self.workers = [self._worker(number) for number in range(2)]

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        work = self.home / f"worker-{number}"
        options = ["--cores", "8", "--memory", "2g", "--webui-port", str(_free_port()), "--work-dir", str(work)]
        return self._class("worker.Worker", *options, self.url)

    def _class(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        script = Path(pyspark.__file__).parent / "bin" / "spark-class"
        log = (self.home / f"{name}.log").open("ab")
        secret = f"-Dspark.authenticate=true -Dspark.authenticate.secret={SECRET}"
        environment = {**os.environ, "JAVA_HOME": str(java.find().home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_MASTER_OPTS": secret, "SPARK_WORKER_OPTS": secret}
        command = [str(script), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *options]
        return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def executors(self, worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
        return psutil.Process(worker.pid).children(recursive=True)

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            if process.poll() is None:
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
                process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        cluster = Cluster(tmp_path)
        stack.callback(cluster.stop)
        yield cluster


@pytest.mark.timeout(900)
def test_a_killed_worker_loses_nothing(cluster: Cluster, bootstrap: str, tmp_path: Path):
    app = tmp_path / "app.py"
    shutil.copy(EXAMPLE, app)
    authenticate = f'"spark.authenticate" = "true"\n"spark.authenticate.secret" = "{SECRET}"\n'
    (tmp_path / "headrace.toml").write_text(f"[spark]\n{authenticate}", encoding="utf-8")
    connection = Connection(bootstrap)
    ensure(connection, [Topic("transactions", 2), Topic("alerts", 2)])
    command = [
        str(Path(sys.executable).with_name("headrace")),
        "run",
        str(app),
        "--mode",
        "live",
        "--master",
        cluster.url,
    ]
    command += ["--bootstrap", bootstrap, "--checkpoints", str(tmp_path / "checkpoints")]
    log = tmp_path / "run.log"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log.open("wb"), env=environment)
    try:
        sent: set[str] = set()
        _send(connection, sent, 200)
        _until(lambda: sent <= _alerted(connection) or _failed(run, log), "the first alerts")
        busy = next(worker for worker in cluster.workers if len(cluster.executors(worker)) > 0)
        victims = [psutil.Process(busy.pid), *cluster.executors(busy)]
        for victim in victims:
            victim.kill()
        _send(connection, sent, 200)
        _until(lambda: sent <= _alerted(connection) or _failed(run, log), "every alert after the kill")
        # What the lost executor had told last keeps nobody from telling how far the query is.
        _until(lambda: _behind(connection) == 0 or _failed(run, log), "everything is committed")
        doors = [door for process in _every(run, cluster) for door in _listening(process)]
        assert len(doors) > 8
        assert [door for door in doors if not ipaddress.ip_address(door).is_loopback] == []
        assert run.poll() is None, log.read_text()
        # A run that is ended right after a failure tells of it.
        _until(lambda: "keeping up" in log.read_text().splitlines()[-1] or _failed(run, log), "the query has settled")
        run.terminate()
        assert run.wait(120) == 0, log.read_text()
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
        delete(connection, "transactions", "alerts")  # names that other apps have too


def _send(connection: Connection, sent: set[str], count: int) -> None:
    """Transactions that alert by their amount, every one twice."""
    with Producer(connection) as producer:
        for _ in range(count):
            name = f"cluster-{time.time_ns()}"
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            event = {"id": name, "card": "c1", "amount": 5000.0, "country": "DE", "home": "DE", "at": at}
            for _ in range(2):
                producer.send("transactions", event, key="c1")
            sent.add(name)


def _alerted(connection: Connection) -> set[str]:
    return {json.loads(record.value or b"{}")["id"] for record in read(connection, "alerts")}


def _behind(connection: Connection) -> int:
    group = ConsumerGroupTopicPartitions(names.group("payments", "alerts"))
    admin = connection.admin()  # an answer that comes when it is gone is lost
    places = admin.list_consumer_group_offsets([group])[group.group_id].result(60).topic_partitions
    done = {place.partition: place.offset for place in places}
    return sum(end - done.get(partition, 0) for partition, end in ends(connection, "transactions").items())


def _every(run: subprocess.Popen[bytes], cluster: Cluster) -> list[psutil.Process]:
    there = [psutil.Process(one.pid) for one in (run, cluster.master, *cluster.workers) if one.poll() is None]
    return [one for process in there for one in (process, *process.children(recursive=True))]


def _listening(process: psutil.Process) -> list[str]:
    """The addresses at which a process listens; Java has those of IPv4 inside of IPv6."""
    with suppress(psutil.NoSuchProcess):  # Spark starts some that live for a moment
        there = process.net_connections("inet")
        return [one.laddr.ip.removeprefix("::ffff:") for one in there if one.status == psutil.CONN_LISTEN]
    return []


def _failed(run: subprocess.Popen[bytes], log: Path) -> bool:
    assert run.poll() is None, log.read_text()
    return False


def _until(done: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + STARTED_S
    while not done():
        assert time.monotonic() < until, f"not within {STARTED_S} s: {what}"
        time.sleep(0.5)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
