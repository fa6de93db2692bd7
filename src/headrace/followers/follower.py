"""The loop of a follower: it reads a topic and keeps one store at what the topic says.

    open the store, which tells its positions → read the topic from there → apply what has arrived, over and over

**A store or a log that is away** is waited for with pauses that grow from 0.2 to 30 seconds; then the store is opened
again and reading goes on from the positions that it has. Nothing is read meanwhile, so nothing piles up.

**A poison change** is one that the store can never take. When the store does not know which of a batch it is, the
batch is halved until it is alone. It goes to `<topic>.dead` with the reason, is counted, and the rest goes on. The
letter is written before the position moves past the change: a crash in between writes the letter again, which readers
of dead letters know as a repeat. Of that row the store keeps what it had. A poison change that a later one of its key
replaces in the same batch is never looked at.

**Two followers** of the same store never both apply: the store holds the one off or finds, when it compares the
positions, that they are not those it told, and rolls back.

**What needs a person** ends the loop (FollowError): positions that the topic no longer holds, a table with other
columns, a store that refuses. `rebuild` forgets the store first and applies the topic from its beginning.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from headrace.errors import FollowError, LogError
from headrace.followers import feed as feeds
from headrace.followers.feed import Feed
from headrace.followers.store import Poison, Positions, Store, StoreAway
from headrace.log import dead
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.producer import Producer

POLL_S = 0.2
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 30.0
# How often a follower that has nothing to do says that it is there, so that its positions do not look forsaken.
SIGN_OF_LIFE_S = 60.0

State = Literal["starting", "running", "waiting", "stopped", "failed"]


@dataclass(frozen=True)
class Status:
    """How a follower does; `applied` counts records, repeats included, and `waiting` says for what."""

    state: State = "starting"
    applied: int = 0
    dead: int = 0
    lag: Mapping[int, int] = field(default_factory=dict)
    last: str | None = None
    waiting: str | None = None
    error: FollowError | None = None


class Follower:
    """Follows one topic into one store; `run` in a thread of its own, `status` from any."""

    def __init__(self, name: str, topic: str, store: Store, connection: Connection, *, rebuild: bool = False) -> None:
        self.name = name
        self.topic = topic
        self._store = store
        self._connection = connection
        self._rebuild = rebuild
        self._producer: Producer | None = None
        self._state: State = "starting"
        self._waiting: str | None = None
        self._error: FollowError | None = None
        self._applied = self._dead = 0
        self._last: str | None = None
        self._lag: dict[int, int] = {}
        self._pause = FIRST_PAUSE_S

    @property
    def status(self) -> Status:
        """How it does at this moment."""
        return Status(self._state, self._applied, self._dead, dict(self._lag), self._last, self._waiting, self._error)

    def run(self, stop: threading.Event) -> None:
        """Follow until `stop` is set; FollowError when it cannot go on by itself."""
        self._run(stop, to_the_end=False)

    def catch_up(self, stop: threading.Event | None = None) -> int:
        """Apply what the topic holds by the time the store is open, and give how many records that were."""
        before = self._applied
        self._run(stop or threading.Event(), to_the_end=True)
        return self._applied - before

    def _run(self, stop: threading.Event, *, to_the_end: bool) -> None:
        try:
            while not stop.is_set():
                try:
                    self._follow(stop, to_the_end)
                    if to_the_end:
                        break
                except StoreAway as away:
                    self._wait(stop, away.reason, away.retry_after)
                except LogError as error:
                    self._wait(stop, error.what)
        except FollowError as error:
            self._state, self._error, self._waiting = "failed", error, None
            raise
        finally:
            self._store.close()
            if self._state != "failed":
                self._state, self._waiting = "stopped", None

    def _follow(self, stop: threading.Event, to_the_end: bool) -> None:
        topic_id = topics.identities(self._connection, [self.topic])[self.topic]
        if self._rebuild:
            self._store.clear()
            self._rebuild = False
        kept = self._store.open(topic_id)
        if kept.topic_id not in (None, topic_id):
            raise feeds.made_again(self.name, self.topic, kept.positions, str(kept.topic_id), topic_id)
        options = {"follower": self.name, "topic_id": topic_id, "age_s": kept.age_s}
        with Feed(self._connection, self.topic, kept.positions, **options) as feed:
            if set(feed.positions) - set(kept.positions):
                self._store.apply((), {i: at for i, at in feed.positions.items() if i not in kept.positions})
            ends = feed.ends() if to_the_end else {}
            self._state, self._waiting, self._pause = "running", None, FIRST_PAUSE_S
            alive = time.monotonic()
            while not stop.is_set() and not (to_the_end and _reached(feed.positions, ends)):
                batch = feed.gather(self._store.batch, POLL_S)
                if batch.positions:
                    self._apply(batch.records, batch.positions)
                    self._heard(batch.records)
                    alive = time.monotonic()
                elif time.monotonic() - alive > SIGN_OF_LIFE_S:
                    self._store.apply((), feed.positions)
                    alive = time.monotonic()
                self._waiting = None if feed.away is None else f"log unreachable: {feed.away}"
                self._lag = feed.lag

    def _apply(self, records: Sequence[Record], positions: Positions) -> None:
        while True:
            try:
                self._store.apply(records, positions)
            except Poison as poison:
                if poison.changes:
                    for change, reason in poison.changes:
                        self._bury(change, reason)
                    refused = {(change.partition, change.offset) for change, _ in poison.changes}
                    records = [one for one in records if (one.partition, one.offset) not in refused]
                elif len(records) > 1:
                    half = len(records) // 2
                    self._apply(records[:half], {one.partition: one.offset + 1 for one in records[:half]})
                    records = records[half:]
                elif records:
                    self._bury(records[0], poison.reason)
                    records = ()
                else:
                    raise FollowError(
                        "HR-410",
                        f"The store of `{self.name}` refuses its positions.",
                        found=poison.reason,
                        fix="look at the reason above; this is a fault of Headrace, please report it",
                    ) from poison
            else:
                self._applied += len(records)
                return

    def _bury(self, change: Record, reason: str) -> None:
        if self._producer is None:
            topics.ensure(self._connection, [dead.declaration(self.topic)])
            self._producer = Producer(self._connection)
        self._producer.send(**dead.to_record(change, reason=reason, query=self.name))
        self._producer.flush()
        self._dead += 1

    def _heard(self, records: Sequence[Record]) -> None:
        if records:
            moment = datetime.fromtimestamp(records[-1].timestamp_ms / 1000, UTC)
            self._last = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _wait(self, stop: threading.Event, reason: str, retry_after: float = 0.0) -> None:
        self._state, self._waiting = "waiting", reason
        self._store.close()
        spread = 0.8 + 0.4 * random.random()  # noqa: S311 - followers that wait for one store do not come all at once
        stop.wait(max(retry_after, self._pause * spread))
        self._pause = min(LONGEST_PAUSE_S, 2 * self._pause)


def _reached(positions: Positions, ends: Positions) -> bool:
    return all(positions[partition] >= end for partition, end in ends.items())
