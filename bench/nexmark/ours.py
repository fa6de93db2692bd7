"""Runs a query of Nexmark on Headrace, in exact mode: micro-batches from Kafka, state in RocksDB, checkpoints.

    python -m bench.nexmark.ours '{"query": "q5", "topic": "events", "bootstrap": "…", "directory": "…",
                                   "events": 2000000, "runs": 3}'

prints a JSON object for each run: `seconds` from the start of the query to its end, `cpu_seconds` of this process and
those below it. The first run is cold, as this process is new. `measure` discards the rows, `emit` writes them to
topics. `load_labels` writes the table that q13 reads.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

import headrace as hr
from bench.ground import note
from bench.nexmark.flink import cpu_seconds
from bench.nexmark.queries import QUERIES, app, labels, labels_topic
from bench.result import load_average
from headrace import names
from headrace.engine.frames import Frames
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.engine.session import session
from headrace.graph.plan import plan
from headrace.kernel import bridge
from headrace.log import topic as topics
from headrace.log.codec import encode
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic
from headrace.settings import Settings

MASTER = "local[2]"
WINDOW_OF_PROCESSING_TIME_S = 10


def measure(spark: SparkSession, connection: Connection, declared: hr.App, checkpoint: Path) -> float:
    """Run the one query of an app over all that its topics hold, to the noop sink; the seconds from start to end."""
    graph = declared.graph()
    query = plan(graph)[0]
    bridge.forget(spark, query.name)
    run = uuid.uuid4().hex
    rows, _ = Frames(spark, graph, Mode.EXACT, connection, run).result(query)
    writer = rows.writeStream.format("noop").queryName(query.name).outputMode("update")
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    begun = time.perf_counter()
    writer.start().awaitTermination()
    seconds = time.perf_counter() - begun
    bridge.close(spark, run)
    shutil.rmtree(checkpoint)
    group, sink = names.group(graph.app, query.name), names.sink(graph.app, query.name)
    topics.forget_groups(connection, group, f"{sink}.")
    return seconds


def emit(
    spark: SparkSession,
    bootstrap: str,
    queries: Sequence[str],
    *,
    topic: str,
    results: str,
    closing: Iterable[bytes] = (),
    directory: Path | None = None,
) -> None:
    """Run queries as the product does, until their topics `<results>.<query>` hold the answers.

    `closing` are the records that end the windows of processing time, written when those have passed. Checkpoints lie
    in `directory`, or where temporary files do.
    """
    with tempfile.TemporaryDirectory(prefix="nexmark-", dir=directory, ignore_cleanup_errors=True) as home:
        settings = Settings.model_construct(directory=Path(home))
        for of in ("event", "number", "processing"):
            chosen = [query for query in queries if QUERIES[query].time == of]
            if not chosen:
                continue
            declared = app(chosen, topic=topic, results=results)
            with Run.start(declared, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark) as run:
                run.finish_input()
                if of == "processing":
                    time.sleep(WINDOW_OF_PROCESSING_TIME_S + 1)
                    _send(bootstrap, topic, closing)
                    run.finish_input()


def load_labels(connection: Connection, topic: str) -> None:
    """The table of q13, for the events of a topic."""
    name = labels_topic(topic)
    topics.ensure(connection, [Topic(name, compacted=True)])
    with Producer(connection) as producer:
        for row in labels():
            producer.send(name, row, key=encode({"k": row["k"]}))


def _send(bootstrap: str, topic: str, records: Iterable[bytes]) -> None:
    producer = Producer(Connection(bootstrap))
    for partition, record in enumerate(records):
        producer.send(topic, record, partition=partition)
    producer.flush()


def main(*, query: str, topic: str, bootstrap: str, directory: str, events: int, runs: int) -> None:
    """Measure a query so many times."""
    with tempfile.TemporaryDirectory(prefix="ours-", dir=directory, ignore_cleanup_errors=True) as home:
        place = Path(home)
        spark = session("headrace-bench-nexmark", master=MASTER, log=place / "spark.log", report=note)
        for number in range(runs):
            declared = app([query], topic=topic, results="nexmark")
            used = cpu_seconds()
            seconds = measure(spark, Connection(bootstrap), declared, place / f"checkpoint-{number}")
            line = {"seconds": seconds, "events_per_second": round(events / seconds)}
            line |= {"cpu_seconds": cpu_seconds() - used, "load": load_average()}
            print(json.dumps(line), flush=True)
        spark.stop()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
