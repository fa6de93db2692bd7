"""How far the topics of an app are: the end of every partition, once a second, and how fast it grows.

One question to Kafka covers all topics of the app. When Kafka does not answer, the last ends stay and `away` says
since when. A rate is measured over the last `RATE_S` seconds. The marks that transactions leave in a topic count as
records here, because Kafka gives offsets and no counts.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import TimeoutError as NoAnswer
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.log.connection import Connection

POINTS = 600
RATE_S = 5.0
ANSWER_S = 3.0
TOPICS_S = 10.0
_LATEST: Any = OffsetSpec.latest()


@dataclass
class TopicGrowth:
    """A topic: the end of each partition, when it last moved, and (time, records per second) of the last minutes."""

    ends: dict[int, int] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    moved: float | None = None
    points: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=POINTS))
    _seen: deque[tuple[float, Mapping[int, int]]] = field(default_factory=deque)

    @property
    def records(self) -> int:
        """The sum of the ends."""
        return sum(self.ends.values())

    @property
    def per_second(self) -> float:
        """Over all partitions."""
        return sum(self.rates.values())

    def take(self, at: float, ends: Mapping[int, int]) -> None:
        """Take the ends of this moment."""
        if sum(ends.values()) != self.records and self.ends:
            self.moved = at
        self.ends = dict(ends)
        self._seen.append((at, self.ends))
        while len(self._seen) > 2 and self._seen[1][0] <= at - RATE_S:
            self._seen.popleft()
        then, before = self._seen[0]
        passed = at - then
        self.rates = {i: max(0, end - before.get(i, end)) / passed for i, end in ends.items()} if passed else {}
        self.points.append((at, self.per_second))


class Topics:
    """The topics of an app; `look` from one thread at a time, the rest from any."""

    def __init__(self, connection: Connection, topics: Iterable[str]) -> None:
        self._connection = connection
        self._topics: frozenset[str] = frozenset(topics)
        self._admin: AdminClient | None = None
        self._partitions: dict[str, list[int]] = {}
        self._listed = 0.0
        self.away: float | None = None
        self.looked: float | None = None
        self.growth: dict[str, TopicGrowth] = {}

    def ask_for(self, topics: Iterable[str]) -> None:
        """Ask for these topics from now on."""
        self._topics, self._listed = frozenset(topics), 0.0

    def look(self) -> None:
        """Ask Kafka once."""
        try:
            ends = self._ends()
        except (KafkaException, NoAnswer):
            self.away = self.away or time.time()
            self._listed = 0.0
            return
        now = time.time()
        for topic, found in ends.items():
            self.growth.setdefault(topic, TopicGrowth()).take(now, found)
        for gone in self.growth.keys() - ends.keys():
            del self.growth[gone]
        self.away, self.looked = None, now

    def _ends(self) -> dict[str, dict[int, int]]:
        if self._admin is None:
            self._admin = AdminClient(self._connection.client())
        if time.monotonic() - self._listed > TOPICS_S:
            there = self._admin.list_topics(timeout=ANSWER_S).topics
            self._partitions = {name: sorted(there[name].partitions) for name in sorted(self._topics & there.keys())}
            self._listed = time.monotonic()
        asked = {TopicPartition(topic, i): _LATEST for topic, found in self._partitions.items() for i in found}
        ends: dict[str, dict[int, int]] = {topic: {} for topic in self._partitions}
        if asked:
            answers = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_S
            )
            for place, answer in answers.items():
                ends[place.topic][place.partition] = answer.result(ANSWER_S + 1).offset
        if any(offset < 0 for found in ends.values() for offset in found.values()):
            raise NoAnswer  # a broker that goes away while it is asked
        return ends
