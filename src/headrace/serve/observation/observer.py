"""What is known of a running app, gathered in the background: from the progress files, from Kafka, from the catalogue.

Each source has a thread of its own that looks again and again, so a slow or missing source delays neither the others
nor a reader. Readers get what was gathered last and never wait. A look that fails, whatever the reason, is named in
`failing` and taken again.

The graph is the declared one in the versions that are current, as the catalogue says. When another version of a view
becomes current, `graph` is another object with another topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from headrace import duration, names
from headrace.engine import health, version
from headrace.engine.health import Health
from headrace.engine.progress import Progress
from headrace.errors import LogError
from headrace.graph.graph import Graph
from headrace.graph.node import Source
from headrace.graph.plan import plan
from headrace.log.connection import Connection
from headrace.serve.observation.history import History, seconds
from headrace.serve.observation.progress_files import ProgressFiles
from headrace.serve.observation.summary import FOLLOW, Summary
from headrace.serve.observation.topics import TopicGrowth, Topics
from headrace.settings import Settings

LOOK_S = 1.0
VERSIONS_S = 3.0
HELD_BACK_S = 60.0
SILENT_S = 10.0


class Observer:
    """Observes one app; `start` once, `stop` at the end."""

    def __init__(self, graph: Graph, settings: Settings, connection: Connection) -> None:
        self.graph = graph
        self.plan = {query.name: query for query in plan(graph)}
        self.topics = Topics(connection, _topics(graph))
        self._files = ProgressFiles(settings, graph.app)
        self._declared = graph
        self._connection = connection
        self._failing: dict[str, str] = {}
        self._ending = threading.Event()
        looks = (
            ("progress files", self._files.look, LOOK_S),
            ("topics", self.topics.look, LOOK_S),
            ("versions", self.choose, VERSIONS_S),
        )
        self._threads = [
            threading.Thread(target=self._repeat, args=(name, look, every), name=f"observe {name}", daemon=True)
            for name, look, every in looks
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(5)

    def choose(self) -> None:
        """Look which versions are current; while the log is away, the last known ones stay."""
        try:
            found = version.current(self._declared, self._connection)
        except LogError:
            return
        if [node.version for node in found.derived] != [node.version for node in self.graph.derived]:
            self.topics.ask_for(_topics(found))
            self.graph, self.plan = found, {query.name: query for query in plan(found)}

    @property
    def histories(self) -> Mapping[str, History]:
        """What the queries, followers and captures have written of themselves, by name."""
        return self._files.histories

    def summaries(self) -> list[Summary]:
        """The queries in the order of the plan, then followers, captures and what else runs."""
        histories, planned = dict(self.histories), self.plan
        others = [name for name in sorted(histories.keys() - planned.keys()) if not _is_past(histories[name])]
        order = [*(name for name in planned if name in histories), *others]
        return [self.summary(name, histories[name]) for name in order]

    def summary(self, name: str, history: History) -> Summary:
        """One of them."""
        last = history.last
        found = health.current(last)
        if found.word == "keeping-up":
            found = self._held_back(name, history) or found
        moving = found.word not in ("lost", "stopped", "failed")
        return Summary(
            name,
            last.mode,
            found,
            last.rows_per_second if moving else 0.0,
            (last.rows_out_per_second if moving else 0.0) if name in self.plan else None,
            _latency(last) if moving else None,
            sum(last.lag.values()),
            last.dead,
            last.late,
            last.rows_in,
        )

    def growth(self, topic: str) -> TopicGrowth | None:
        """How far a topic is; None while it is not known."""
        return self.topics.growth.get(topic)

    def rate(self, topic: str) -> float | None:
        """Records a second of a topic; None while it is not known, or the log is away."""
        growth = self.growth(topic)
        return None if growth is None or self.topics.away is not None else growth.per_second

    def _held_back(self, name: str, history: History) -> Health | None:
        """Whether one input is silent while others bring events, and the watermark stands still because of it."""
        planned = self.plan.get(name)
        watermark, newest = seconds(history.last.watermark), seconds(history.last.event_time)
        if planned is None or watermark is None or newest is None or len(planned.reads) < 2:
            return None
        inputs = {one: self.growth(self.graph.node(one).topic) for one in planned.reads}
        now = time.time()
        silent = {one: now - (at.moved or 0) for one, at in inputs.items() if at and now - (at.moved or 0) > SILENT_S}
        delay = max((_delay_s(self.graph, one) for one in planned.reads), default=0.0)
        if not silent or len(silent) == len(inputs) or newest - watermark < delay + HELD_BACK_S:
            return None
        longest = max(silent, key=lambda one: silent[one])
        since = inputs[longest]
        idle = f"idle for {rough(silent[longest])}" if since and since.moved else "which has brought nothing yet"
        return Health("held-back", f"held back by {self.graph.node(longest).kind} {longest}, {idle}")

    @property
    def failing(self) -> str | None:
        """Which looks fail at the moment, and how, as text."""
        return "; ".join(f"{name}: {how}" for name, how in sorted(self._failing.items())) or None

    def _repeat(self, name: str, look: Callable[[], None], every: float) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                look()
                self._failing.pop(name, None)
            except Exception as error:  # whatever it is, the next look may go well
                self._failing[name] = f"{type(error).__name__}: {error}"[:300]
            self._ending.wait(max(0.05, every - (time.monotonic() - began)))


def _topics(graph: Graph) -> set[str]:
    topics = {node.topic for node in graph.nodes}
    return topics | {beside(topic) for topic in topics for beside in (names.dead_topic, names.late_topic)}


def _latency(last: Progress) -> tuple[float, float] | None:
    p50, p99 = last.latency_p50_ms, last.latency_p99_ms
    return None if p50 is None or p99 is None else (p50, p99)


def _is_past(history: History) -> bool:
    """Whether it is a query that the app no longer has, or not in this version, and that has ended."""
    return history.last.mode not in (FOLLOW, names.CAPTURE) and not health.is_alive(history.last)


def rough(seconds: float) -> str:
    """A time in its largest unit: `3m`, `2h`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return duration.describe(int(seconds) * 1000)


def _delay_s(graph: Graph, name: str) -> float:
    node = graph.node(name)
    return node.delay_ms / 1000 if isinstance(node, Source) else 0.0
