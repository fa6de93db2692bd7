"""The embedded Kafka: one real broker in KRaft mode, on two free loopback ports, with its data in `<state>/kafka`.

Everything that a cluster replicates has one copy here, topics are only made on request, and a member that joins a group
learns its partitions in half a second. Records survive a restart
and kill -9 of the broker (Kafka recovers its log), not the loss of the disk. It is meant for a laptop, tests and
benchmarks: at most 512 MB of heap, but with every optimisation of the JVM. Set-up rehearses its start, so that its
classes are ready (archive.py).
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.errors import PartError
from headrace.parts import archive, java, part
from headrace.parts.cache import made_once
from headrace.parts.jars import BROKER, Report, files, pyspark_jars
from headrace.parts.part import LOOPBACK, Launch, Part

NAME = "kafka"

# Paths in the two files are relative to the part's directory: both formats give a meaning to some characters of a path.
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=BROKER://{host}:{broker},CONTROLLER://{host}:{controller}
advertised.listeners=BROKER://{host}:{broker}
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
inter.broker.listener.name=BROKER
log.dirs=data
auto.create.topics.enable=false
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=5
group.initial.rebalance.delay.ms=0
group.share.min.heartbeat.interval.ms=500
group.share.heartbeat.interval.ms=500
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=500
message.max.bytes=10485760
replica.fetch.max.bytes=10485760
log.retention.hours=168
log.segment.bytes=268435456
num.recovery.threads.per.data.dir=2
"""

# The last run's log is kept as server.log.1, so that the log of a start that failed holds that start only.
_LOGGING = """\
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName=server.log
appender.file.filePattern=server.log.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %m (%c{1})%n
appender.file.policies.type=Policies
appender.file.policies.start.type=OnStartupTriggeringPolicy
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=10MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.fileIndex=min
appender.file.strategy.max=1
rootLogger.level=WARN
rootLogger.appenderRef.file.ref=file
logger.server.name=kafka.server.KafkaRaftServer
logger.server.level=INFO
"""


def obtain(state: Path, report: Report, *, detached: bool = False) -> Part:
    """The broker of the state directory: found, or started."""

    def launch(place: Path, ports: list[int]) -> Launch:
        report("starting the embedded Kafka")
        return _launch(place, ports, report, archive.options(java.find(), _jars(report)))

    return part.obtain(NAME, state, 2, launch, detached=detached, answers=lambda _, address: answers(address))


def rehearse(report: Report) -> None:
    """Record the classes of a broker that starts and does its first work, once."""

    def run(options: list[str]) -> list[str]:
        report("recording which classes Kafka loads, so that it starts faster")
        with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as scratch:
            broker = part.obtain(
                NAME,
                Path(scratch),
                2,
                lambda place, ports: _launch(place, ports, report, options),
                detached=False,
                answers=lambda _, address: answers(address),
            )
            try:
                with suppress(KafkaException):
                    _use(broker.address)
            finally:
                broker.stop()
        return ["-cp", _class_path(report)]

    archive.record(java.find(), _jars(report), run, report)


def answers(address: str) -> bool:
    """Whether a broker at host:port answers a client's question for the cluster's metadata."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        client = AdminClient({"bootstrap.servers": address, "log_level": 0})
        return bool(client.list_topics(timeout=5).brokers)
    except (OSError, KafkaException):
        return False


def _use(address: str) -> None:
    """What an app begins with: a topic, a transaction, a group."""
    given = {"bootstrap.servers": address, "log_level": 0}
    admin = AdminClient(given)
    admin.create_topics([NewTopic("rehearsal", 1, 1)])["rehearsal"].result(30)
    producer = Producer({**given, "transactional.id": "rehearsal"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("rehearsal", b"")
    producer.commit_transaction(30)
    consumer = Consumer({**given, "group.id": "rehearsal", "auto.offset.reset": "earliest"})
    consumer.subscribe(["rehearsal"])
    consumer.poll(30)
    consumer.close()


def _launch(place: Path, ports: list[int], report: Report, options: Sequence[str]) -> Launch:
    home = java.find()
    broker, controller = ports
    properties = _PROPERTIES.format(host=LOOPBACK, broker=broker, controller=controller)
    (place / "server.properties").write_text(properties, encoding="utf-8")
    (place / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    run = [str(home.executable), *options, "-cp", _class_path(report), "-Dlog4j2.configurationFile=log4j2.properties"]
    _format(place, [*run, "kafka.tools.StorageTool", "format", "--config=server.properties"])
    return Launch(
        arguments=[*run, "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "kafka.Kafka", "server.properties"],
        address=f"{LOOPBACK}:{broker}",
        directory=place,
        data=place / "data",
        logs=[place / "server.log"],
        answers=lambda: answers(f"{LOOPBACK}:{broker}"),
        stop_signal=signal.SIGTERM,
        death_signal=signal.SIGKILL,
    )


def _class_path(report: Report) -> str:
    return ":".join(map(str, _jars(report)))


def _jars(report: Report) -> list[Path]:
    # The resolver leaves out what Spark always has; the broker runs outside Spark and needs that one jar too. It is
    # copied, so that the class path, and with it the archive, is the same for every environment of the user.
    scala = next(pyspark_jars().glob("scala-library-*.jar"))

    def copy(place: Path) -> None:
        shutil.copy(scala, place)

    return [*files(BROKER, report), made_once("jars", scala.stem, copy) / scala.name]


def _format(place: Path, command: list[str]) -> None:
    """Format the data directory once; without the mark an earlier format did not finish, and nothing was written."""
    mark, data = place / "formatted", place / "data"
    if mark.exists():
        return
    shutil.rmtree(data, ignore_errors=True)
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    done = subprocess.run([*command, f"--cluster-id={cluster}"], cwd=place, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PartError(
            "HR-107",
            f"The data directory {data} of the embedded Kafka cannot be formatted.",
            found="\n".join((done.stdout + done.stderr).splitlines()[-15:]),
            fix=f"correct what the message names; delete {place} to begin with empty data",
        )
    mark.touch()
