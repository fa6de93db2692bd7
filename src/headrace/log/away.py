"""A log that is away, for all who read it in a loop: what counts as that, how it is told, how it is waited for.

A broker that is stopped, killed or frozen and comes back is no error of a reader. The client connects again by itself
and reads on from where it was; what the loop around it must do is to stay: `passes` says which answers of a broker that
goes or comes are of that kind. What a loop cannot go on with it makes anew, after a `Pause`. Meanwhile it says «log
unreachable since …», in the same words everywhere.

A client that hears nothing does not know whether there is nothing to hear: from a frozen broker no error comes for a
minute. So a `Sight` asks for the end of the topic beside the reading, and the answer, or that there is none, is what
counts. It also tells a client that does not find its broker again from one that has nothing to hear (`Silence`).
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.log.connection import UNREACHABLE, Connection

ASK_S = 1.0
ANSWER_S = 4.0
SILENCE_S = 20.0
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
_LATEST: Any = OffsetSpec.latest()
_COMING = {
    KafkaError._WAIT_COORD,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
}


def passes(error: KafkaError) -> bool:
    """Whether a broker that goes or comes answers so, and the client goes on by itself."""
    return error.code() in UNREACHABLE or error.code() in _COMING


def since(seconds: float) -> str:
    """How it is told, of a log that is away since then (seconds since 1970)."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"log unreachable since {moment}"


class Pause:
    """Pauses that grow from 0.2 to `longest` seconds, spread so that those who wait for one thing come one by one."""

    def __init__(self, longest: float = LONGEST_PAUSE_S) -> None:
        self._longest = longest
        self._next = FIRST_PAUSE_S

    def next(self) -> float:
        """How long to wait this time."""
        this, self._next = self._next, min(self._longest, 2 * self._next)
        return this * (0.8 + 0.4 * random.random())  # noqa: S311 - no secret hangs on it

    def over(self) -> None:
        """What was waited for is there."""
        self._next = FIRST_PAUSE_S


class Sight:
    """Where the partitions of a topic end for a reader of committed records, and since when that cannot be read.

    `look` from any thread, again and again: it asks once a second and never waits for the answer.
    """

    def __init__(self, connection: Connection, topic: str, partitions: Iterable[int]) -> None:
        self.ends: dict[int, int] = {}
        self._connection = connection
        self._asked_for: dict[TopicPartition, Any] = {TopicPartition(topic, one): _LATEST for one in partitions}
        self._admin: AdminClient | None = None
        self._answers: dict[TopicPartition, Future[Any]] = {}
        self._asked = 0.0
        self._asked_at = 0.0
        self._since: float | None = None
        self._lock = threading.Lock()

    @property
    def away(self) -> str | None:
        """That the log cannot be reached, while it cannot."""
        gone = self._since
        return None if gone is None else since(gone)

    def look(self) -> None:
        """Take the answers that are there, and ask again when it is time."""
        with self._lock:
            if self._answers and all(answer.done() for answer in self._answers.values()):
                self._take()
            elif self._answers and time.monotonic() - self._asked > ANSWER_S:
                self._since = self._since or self._asked_at
            if not self._answers and self._asked_for and time.monotonic() - self._asked > ASK_S:
                self._ask()

    def _ask(self) -> None:
        self._asked, self._asked_at = time.monotonic(), time.time()
        try:
            # One that was refused goes on with the leaders it knew, so another one is made.
            self._admin = self._admin or AdminClient(self._connection.client())
            self._answers = dict(
                self._admin.list_offsets(
                    self._asked_for, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_S
                )
            )
        except KafkaException:
            self._admin = None

    def _take(self) -> None:
        answers, self._answers = self._answers, {}
        try:
            ends = {place.partition: answer.result().offset for place, answer in answers.items()}
        except KafkaException as error:
            self._admin = None
            if passes(error.args[0]):
                self._since = self._since or self._asked_at
            else:
                self._since = None  # it was refused, and so it is there
            return
        if any(offset < 0 for offset in ends.values()):  # of a broker that goes away while it is asked
            self._admin = None
            self._since = self._since or self._asked_at
            return
        self.ends, self._since = ends, None


class Silence:
    """That a reader hears nothing, although the log holds more than it has read. After `SILENCE_S` seconds of it the
    client is to be given up for another: it may never be heard of again (patience.py)."""

    def __init__(self) -> None:
        self._since: float | None = None

    def over(self) -> None:
        """Something was heard."""
        self._since = None

    def is_too_long(self, sights: Iterable[tuple[Sight, Mapping[int, int]]]) -> bool:
        """Look again at topics in which the reader has come to these positions; call it when nothing was heard."""
        seen = list(sights)
        for sight, _ in seen:
            sight.look()
        more = any(sight.ends.get(i, 0) > at for sight, positions in seen for i, at in positions.items())
        if not more or any(sight.away for sight, _ in seen):
            self._since = None
            return False
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since <= SILENCE_S:
            return False
        self._since = None
        return True
