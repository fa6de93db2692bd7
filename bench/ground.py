"""Where a bench runs: its own Kafka and its own Spark session in a temporary directory that goes with them.

The settings are the product's defaults; the environment and any headrace.toml are left out, so that two runs compare.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace.engine.session import session
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.topic import Topic
from headrace.parts.embedded import Parts
from headrace.settings import Settings

_LOADING = {
    "compression.type": "lz4",
    "linger.ms": 50,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 500_000,
    "partitioner": "murmur2_random",
}
_BY_KEY = -1


@dataclass(frozen=True)
class Ground:
    """Kafka, Spark and a directory."""

    settings: Settings
    connection: Connection
    spark: SparkSession

    def load(self, name: str, records: Iterable[bytes], *, partitions: int) -> int:
        """Write the records to a topic, record n to partition n mod partitions; how many there are."""
        return self._load(Topic(name, partitions), ((None, record) for record in records))

    def load_table(self, name: str, rows: Iterable[tuple[bytes, bytes]], *, partitions: int) -> int:
        """Write keys, each different from the others, with their rows to a compacted topic; how many there are."""
        return self._load(Topic(name, partitions, compacted=True), rows)

    def _load(self, into: Topic, records: Iterable[tuple[bytes | None, bytes]]) -> int:
        name = into.name
        note(f"writing the records of {name}")
        topic.ensure(self.connection, [into])
        before = sum(topic.ends(self.connection, name).values())
        producer = Producer(self.connection.client(**_LOADING))
        written = 0
        for key, record in records:
            partition = written % into.partitions if key is None else _BY_KEY
            while True:
                try:
                    producer.produce(name, record, key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
            written += 1
        producer.flush()
        there = sum(topic.ends(self.connection, name).values()) - before
        if there != written:
            sys.exit(f"Kafka took {there:,} of {written:,} records of {name}: look at the space on the disk")
        return written


@contextmanager
def ground(name: str, *, master: str | None = None) -> Iterator[Ground]:
    """Start it; it ends with the block, also by SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", ignore_cleanup_errors=True) as home:
        settings = Settings.model_construct(directory=Path(home))
        with Parts.start(settings, report=note) as parts:
            log = settings.state / "spark.log"
            spark = session(f"headrace-bench-{name}", master=master, log=log, report=note)
            yield Ground(settings, Connection.of(settings, parts.bootstrap), spark)
            # Not after an error: what interrupts a call to the JVM leaves no way to make another. It ends with Python.
            spark.stop()


def note(line: str) -> None:
    """Tell the person in front of the terminal."""
    print(line, file=sys.stderr, flush=True)
