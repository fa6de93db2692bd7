"""Run a declared app in this process, step by step, against real Spark and real Kafka.

    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("transactions", [{"id": "a", "amount": 950.0, "at": now}])
        driver.advance()
        assert driver.read("alerts") == [...]

Each driver has topics and checkpoints of its own, so many may share one broker and one session, one after the other.
Time is event time: it moves when events are pushed, never by waiting. In `exact` mode `advance` returns when everything
pushed has been worked off; in `live` mode when everything has been read and the outputs have come to rest.

`crash` is what kill -9 leaves behind at its worst moment: the last batch is written but not recorded, so `resume` runs
it again. In `live` mode it is a stop in the middle of a batch, which has the same effect.
"""

from __future__ import annotations

import dataclasses
import heapq
import random
import shutil
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.app import App
from headrace.engine import checkpoint, topics
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress
from headrace.engine.run import Run
from headrace.graph.graph import Graph
from headrace.graph.node import Source
from headrace.graph.plan import plan
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.dead import DeadLetter, dead_letters
from headrace.log.producer import Producer
from headrace.settings import Settings
from headrace.testing import change
from headrace.testing.change import Event
from headrace.testing.outcome import Outcome

REST_S = 0.5
_NEVER_MS = 10 * 365 * 86_400_000


class Driver(Outcome):
    """A context manager; `mode` is `exact` or `live`, and `live_batch` how long a batch of the latter lasts."""

    def __init__(
        self,
        app: App,
        *,
        spark: SparkSession,
        bootstrap: str,
        mode: Mode = Mode.EXACT,
        live_batch: str | None = None,
    ) -> None:
        self.graph = isolated(app.graph(), f"t{uuid.uuid4().hex[:8]}")
        self.mode = mode
        self.spark = spark
        self.connection = Connection(bootstrap)
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-driver-"))
        settings = Settings.load(self._directory)
        self._settings = settings.model_copy(update={"live_batch": live_batch}) if live_batch else settings
        self._run: Run | None = None
        topic.ensure(self.connection, topics.needed(self.graph, plan(self.graph)))
        self._producer = Producer(self.connection, linger_ms=1)

    def push(self, source: str, events: Sequence[Event], *, partition: int | None = None) -> None:
        """Write events to a source's topic, in this order; bytes are written as they are. Rows with the same id go to
        the same partition, unless one is named. A table gets its rows under their keys, and `Delete`."""
        node = self.graph.node(source)
        for event in events:
            key, value = change.record(node, event)
            self._producer.send(node.topic, value, key=key, partition=partition)
        self._producer.flush()

    def advance(self, *, seconds: float = 300.0) -> None:
        """Work off everything that was pushed; starts the app when it does not run."""
        self.resume()
        assert self._run is not None
        if self.mode is Mode.EXACT:
            self._run.finish_input()
            self._run.check()
        else:
            self._rest(time.monotonic() + seconds)

    def resume(self) -> None:
        """Start the app, again after `crash` or `stop`; does nothing when it runs."""
        if self._run is None:
            bootstrap = self.connection.bootstrap
            self._run = Run.start(
                self.graph, mode=self.mode, settings=self._settings, bootstrap=bootstrap, spark=self.spark
            )

    def stop(self) -> None:
        """End the run in good order."""
        if self._run is not None:
            self._run.stop()
            self._run = None

    def crash(self, *, seed: int | None = None) -> None:
        """End the run so that the last batch of each query is run again. With a seed, each query is hit or spared."""
        self.stop()
        dice = random.Random(seed)
        for query in plan(self.graph):
            if seed is None or dice.random() < 0.7:
                place = checkpoint.local(checkpoint.location(self._settings, self.graph.app, query.name))
                assert place is not None
                forget_last_commit(place)

    def dead(self, source: str) -> list[DeadLetter]:
        """The dead letters of a source, each once."""
        return list(dead_letters(self.connection, self.graph.node(source).topic))

    def progress(self) -> dict[str, Progress]:
        """The last progress event of every query."""
        return {event.query: event for event in self._run.progress()} if self._run else {}

    def close(self) -> None:
        """Stop, and remove topics and checkpoints."""
        self.stop()
        topic.delete(self.connection, *(t.name for t in topics.needed(self.graph, plan(self.graph))))
        shutil.rmtree(self._directory, ignore_errors=True)

    def _oldest_first(self, topic: str) -> list[Record]:
        """The records of a topic: in order within a partition, by the time of writing between partitions."""
        partitions: dict[int, list[Record]] = defaultdict(list)
        for record in read(self.connection, topic):
            partitions[record.partition].append(record)
        return list(heapq.merge(*(partitions[i] for i in sorted(partitions)), key=lambda r: r.timestamp_ms))

    def _rest(self, until: float) -> None:
        """Until every query has worked off its topics and no topic has grown for a while: what the clocks of the
        sources bring about comes a moment later."""
        assert self._run is not None
        written = [query.node.topic for query in plan(self.graph)]
        quiet_since, before = time.monotonic(), None
        while time.monotonic() < until:
            self._run.check()
            now = topic.ends_of(self.connection, written)
            if now != before or any(self._run.left(query) for query in self._run.queries):
                quiet_since, before = time.monotonic(), now
            elif time.monotonic() - quiet_since > REST_S:
                return
            time.sleep(0.05)
        raise TimeoutError(f"the app did not come to rest: {self._run.progress()}")


def isolated(graph: Graph, prefix: str) -> Graph:
    """The app with a name and topics of its own, in which nobody is taken for idle."""
    nodes = tuple(
        dataclasses.replace(node, topic=f"{prefix}-{node.topic}", idle_ms=_NEVER_MS)
        if isinstance(node, Source)
        else dataclasses.replace(node, topic=f"{prefix}-{node.topic}")
        for node in graph.nodes
    )
    return Graph(f"{graph.app}_{prefix}", nodes)


def forget_last_commit(place: Path) -> None:
    """Leave a checkpoint as a kill between the sink's commit and Spark's does: the last batch will be run again.

    Where the next batch was begun already, that one will be, and nothing is to be done; so after a live start, since a
    live batch is written all the time and the one before it was finished for good.
    """
    if checkpoint.live_since(str(place)) is not None:
        return
    begun, finished = (checkpoint.batches(place / log) for log in checkpoint.LOGS)
    if finished and begun[-1] == finished[-1]:
        checkpoint.forget(place / "commits", finished[-1])
