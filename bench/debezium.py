"""The peer of capture: Debezium's PostgreSQL connector in Kafka Connect, started as their documentation says.

Kafka Connect is resolved like every other jar, into the per-user cache. Debezium's own parent is not published where
its jars are, so that it cannot be resolved; its plug-in archive, which holds all that it needs, is fetched from where
Connect came from. The settings are Debezium's defaults, with JSON without schemas; `TUNED` are the larger batches that
its documentation names for throughput. It is a process of its own, which ends with the block.
"""

from __future__ import annotations

import re
import socket
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from psycopg.conninfo import conninfo_to_dict

from headrace.parts import jars, java
from headrace.parts.cache import made_once, root
from headrace.parts.jars import JarSet, Report

CONNECT = JarSet(
    "",
    "Kafka Connect",
    (
        "org.apache.kafka:connect-runtime:4.3.1",
        "org.apache.kafka:connect-json:4.3.1",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.1",
    ),
    transitive=True,
)
RELEASE = "3.6.2.Final"
VERSION = "Debezium 3.6.2 in Kafka Connect 4.3.1"
TUNED = {"max.batch.size": "20480", "max.queue.size": "81920", "poll.interval.ms": "10"}
_JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class Peer:
    """A connector that runs; `log` is what it says."""

    process: psutil.Process
    log: Path

    @property
    def megabytes(self) -> float:
        """The memory that it holds."""
        return self.process.memory_info().rss / 1e6


@contextmanager
def running(
    place: Path,
    bootstrap: str,
    url: str,
    *,
    prefix: str,
    tables: Sequence[str],
    options: Mapping[str, str] | None = None,
    report: Report = lambda line: None,
) -> Iterator[Peer]:
    """Run a connector for the tables; its topics are `<prefix>.<schema>.<table>`, its state is kept in `place`."""
    files = [*jars.files(CONNECT, report), *plugin(report)]
    given = conninfo_to_dict(url)
    place.mkdir(parents=True, exist_ok=True)
    worker, connector, log = place / "worker.properties", place / "connector.properties", place / "connect.log"
    _write(
        worker,
        {
            "bootstrap.servers": bootstrap,
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(place / "offsets"),
            "offset.flush.interval.ms": "1000",
            "listeners": f"HTTP://127.0.0.1:{_free_port()}",
            "plugin.discovery": "only_scan",
            "producer.compression.type": "lz4",
            "producer.linger.ms": "5",
            "producer.batch.size": "1000000",
        },
    )
    _write(
        connector,
        {
            "name": prefix,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": str(given.get("host")),
            "database.port": str(given.get("port")),
            "database.user": str(given.get("user")),
            "database.password": str(given.get("password")),
            "database.dbname": str(given.get("dbname")),
            "topic.prefix": prefix,
            "table.include.list": ",".join(tables),
            "slot.name": f"debezium_{prefix}".lower(),
            "publication.name": f"debezium_{prefix}".lower(),
            "publication.autocreate.mode": "filtered",
            "topic.creation.default.partitions": "2",
            "topic.creation.default.replication.factor": "1",
            **(options or {}),
        },
    )
    connector.chmod(0o600)
    home = java.find()
    command = [str(home.executable), "-Xmx1g", "-Dlog4j2.level=WARN", "-cp", ":".join(map(str, files))]
    command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(worker), str(connector)]
    with log.open("ab") as out:
        started = subprocess.Popen(
            command, cwd=place, env=home.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield Peer(psutil.Process(started.pid), log)
    finally:
        started.terminate()
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        time.sleep(0.2)  # the server needs a moment to see that the slot's reader has gone


def plugin(report: Report) -> list[Path]:
    """The jars of Debezium's connector; fetched once."""
    name = f"debezium-connector-postgres-{RELEASE}"

    def fetch(place: Path) -> None:
        report(f"downloading {name}")
        known = root() / "ivy" / "cache" / "org.apache.kafka" / "connect-runtime" / "ivydata-4.3.1.properties"
        found = re.search(r"location=(\S+)/org/apache/kafka/", known.read_text(encoding="utf-8").replace("\\", ""))
        if found is None:
            raise RuntimeError(f"{known} does not say where the jars of Kafka Connect came from")
        address = f"{found[1]}/io/debezium/debezium-connector-postgres/{RELEASE}/{name}-plugin.tar.gz"
        with urllib.request.urlopen(address, timeout=120) as answer, tarfile.open(fileobj=answer, mode="r|gz") as all_:
            for member in all_:
                if member.isfile() and member.name.endswith(".jar"):
                    member.name = Path(member.name).name
                    all_.extract(member, place, filter="data")

    return sorted(made_once("debezium", RELEASE, fetch).glob("*.jar"))


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def _write(file: Path, settings: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
