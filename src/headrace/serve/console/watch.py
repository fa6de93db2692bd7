"""What the pages show, gathered in the background: from the progress files, from Kafka, from the results.

Each source has a thread of its own that looks once a second, so that one that is slow or away holds up neither the
others nor a page. Pages read what was gathered last and never wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace import duration, names
from headrace.engine.health import Health, health, is_alive
from headrace.graph.graph import Graph, inputs_of
from headrace.graph.node import Derived, Source
from headrace.graph.plan import plan
from headrace.log.connection import Connection
from headrace.serve.console.latency import Latency
from headrace.serve.console.levels import Level, Levels
from headrace.serve.console.trail import Query, Trail, seconds
from headrace.settings import Settings

LOOK_S = 1.0
HELD_BACK_S = 60.0
SILENT_S = 10.0
FOLLOW = "follow"


@dataclass(frozen=True)
class Standing:
    """A query or follower as the overview shows it; rates are records a second, latencies milliseconds."""

    name: str
    mode: str
    health: Health
    per_second: float
    out_per_second: float | None
    latency: tuple[float, float] | None
    behind: int
    dead: int
    late: int
    rows: int

    @property
    def is_follower(self) -> bool:
        return self.mode == FOLLOW


class Watch:
    """The background of a console; `start` once, `stop` at the end."""

    def __init__(self, graph: Graph, settings: Settings, connection: Connection) -> None:
        self.graph = graph
        self.plan = {query.name: query for query in plan(graph)}
        topics = {node.topic for node in graph.nodes}
        beside = {beside(topic) for topic in topics for beside in (names.dead_topic, names.late_topic)}
        self.trail = Trail(settings, graph.app)
        self.levels = Levels(connection, topics | beside)
        self.latency = Latency(connection, self.levels, event_times(graph))
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(look,), name=f"console {name}", daemon=True)
            for name, look in (("trail", self.trail.look), ("levels", self.levels.look), ("latency", self.latency.look))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(5)

    def standings(self) -> list[Standing]:
        """The queries in the order of the plan, then the followers."""
        queries = dict(self.trail.queries)
        order = [*(name for name in self.plan if name in queries), *sorted(queries.keys() - self.plan.keys())]
        return [self.standing(name, queries[name]) for name in order]

    def standing(self, name: str, query: Query) -> Standing:
        """One of them."""
        last = query.last
        planned = self.plan.get(name)
        alive = is_alive(last)
        found = health(last, datetime.now(UTC), alive)
        if found.word == "keeping-up":
            found = self._held_back(name, query) or found
        moving = found.word not in ("lost", "stopped", "failed")
        return Standing(
            name,
            last.mode,
            found,
            last.rows_per_second if moving else 0.0,
            self.rate(planned.node.topic) if planned else None,
            self.latency.of(planned.node.topic) if planned else None,
            sum(last.lag.values()),
            last.dead,
            last.late,
            last.rows_in,
        )

    def level(self, topic: str) -> Level | None:
        """How far a topic is; None while it is not known."""
        return self.levels.topics.get(topic)

    def rate(self, topic: str) -> float | None:
        """Records a second of a topic; None while it is not known, or the log is away."""
        level = self.level(topic)
        return None if level is None or self.levels.away is not None else level.per_second

    def _held_back(self, name: str, query: Query) -> Health | None:
        """Whether one input is silent while others bring events, and time stands still because of it."""
        planned = self.plan.get(name)
        mark, newest = seconds(query.last.watermark), seconds(query.last.event_time)
        if planned is None or mark is None or newest is None or len(planned.reads) < 2:
            return None
        levels = {one: self.level(self.graph.node(one).topic) for one in planned.reads}
        now = time.time()
        silent = {one: now - (at.moved or 0) for one, at in levels.items() if at and now - (at.moved or 0) > SILENT_S}
        delay = max((_delay_s(self.graph, one) for one in planned.reads), default=0.0)
        if not silent or len(silent) == len(levels) or newest - mark < delay + HELD_BACK_S:
            return None
        longest = max(silent, key=lambda one: silent[one])
        since = levels[longest]
        idle = f"idle for {rough(silent[longest])}" if since and since.moved else "which has brought nothing yet"
        return Health("held-back", f"held back by {self.graph.node(longest).kind} {longest}, {idle}")

    def _repeat(self, look: Callable[[], None]) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            look()
            self._ending.wait(max(0.05, LOOK_S - (time.monotonic() - began)))


def event_times(graph: Graph) -> dict[str, str]:
    """The event time column of each result topic: that of the sources it comes from, where they agree on one."""
    found: dict[str, str] = {}
    known: dict[str, set[str]] = {}
    for node in graph.topological():
        if isinstance(node, Source):
            known[node.name] = {node.event_time} if node.event_time else set()
        else:
            known[node.name] = set().union(*(known.get(name, set()) for name in inputs_of(node)))
        if isinstance(node, Derived) and len(known[node.name]) == 1:
            (found[node.topic],) = known[node.name]
    return found


def rough(seconds: float) -> str:
    """A time in its largest unit: `3m`, `2h`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return duration.describe(int(seconds) * 1000)


def _delay_s(graph: Graph, name: str) -> float:
    node = graph.node(name)
    return node.delay_ms / 1000 if isinstance(node, Source) else 0.0
