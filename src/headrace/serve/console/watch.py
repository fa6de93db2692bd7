"""What the pages show, gathered in the background: from the progress files, from Kafka, from the catalogue.

Each source has a thread of its own that looks again and again, so that one that is slow or away holds up neither the
others nor a page. Pages read what was gathered last and never wait.

The graph is the declared one in the versions that are current, as the catalogue says. When another version of a view
becomes current, `graph` is another object with another topic, and pages that were drawn of the old one are drawn anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace import duration, names
from headrace.engine import version
from headrace.engine.health import Health, health, is_alive
from headrace.engine.progress import Progress
from headrace.errors import LogError
from headrace.graph.graph import Graph
from headrace.graph.node import Source
from headrace.graph.plan import plan
from headrace.log.connection import Connection
from headrace.serve.console.levels import Level, Levels
from headrace.serve.console.trail import Query, Trail, seconds
from headrace.settings import Settings

LOOK_S = 1.0
VERSIONS_S = 3.0
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
        self.trail = Trail(settings, graph.app)
        self.levels = Levels(connection, _topics(graph))
        self._declared = graph
        self._connection = connection
        self._ending = threading.Event()
        looks = (
            ("trail", self.trail.look, LOOK_S),
            ("levels", self.levels.look, LOOK_S),
            ("versions", self.choose, VERSIONS_S),
        )
        self._threads = [
            threading.Thread(target=self._repeat, args=(look, every), name=f"console {name}", daemon=True)
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
        """Look which versions are current; while the log is away those stand that were."""
        try:
            found = version.current(self._declared, self._connection)
        except LogError:
            return
        if [node.version for node in found.derived] != [node.version for node in self.graph.derived]:
            self.levels.ask_for(_topics(found))
            self.graph, self.plan = found, {query.name: query for query in plan(found)}

    def standings(self) -> list[Standing]:
        """The queries in the order of the plan, then followers, captures and what else runs."""
        queries, planned = dict(self.trail.queries), self.plan
        beside = [name for name in sorted(queries.keys() - planned.keys()) if not _is_past(queries[name])]
        order = [*(name for name in planned if name in queries), *beside]
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
            (last.rows_out_per_second if moving else 0.0) if planned else None,
            _latency(last) if moving else None,
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

    def _repeat(self, look: Callable[[], None], every: float) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            look()
            self._ending.wait(max(0.05, every - (time.monotonic() - began)))


def _topics(graph: Graph) -> set[str]:
    topics = {node.topic for node in graph.nodes}
    return topics | {beside(topic) for topic in topics for beside in (names.dead_topic, names.late_topic)}


def _latency(last: Progress) -> tuple[float, float] | None:
    p50, p99 = last.latency_p50_ms, last.latency_p99_ms
    return None if p50 is None or p99 is None else (p50, p99)


def _is_past(query: Query) -> bool:
    """Whether it is a query that the app no longer has, or not in this version, and that has ended."""
    return query.last.mode not in (FOLLOW, names.CAPTURE) and not is_alive(query.last)


def rough(seconds: float) -> str:
    """A time in its largest unit: `3m`, `2h`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return duration.describe(int(seconds) * 1000)


def _delay_s(graph: Graph, name: str) -> float:
    node = graph.node(name)
    return node.delay_ms / 1000 if isinstance(node, Source) else 0.0
