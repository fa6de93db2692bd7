"""The loop of a follower: it reads a topic and keeps one store equal to what the topic says.

    open the store, which gives its positions → read the topic from there → apply what has arrived, over and over

**A store or a log that is away** is waited for with pauses that grow from 0.2 to 30 seconds; then the store is opened
again and reading goes on from its positions. Nothing is read meanwhile, so nothing piles up. A broker that goes and
comes back while nothing is being applied is the client's affair: it connects again. One that brings nothing for
long, although the topic holds more, is given up for another (`Silence`).

**The status** is measured: the positions of the store against the end of the topic, which is asked for beside the loop
(log/away.py), the age of the oldest record that is not applied, and the time of the last step of the loop (pulse.py).

**A poison change** is one that the store can never take. When the store does not know which change of a batch it is,
the batch is halved until the change is alone. It goes to `<topic>.dead` with the reason, is counted, and the rest goes
on. The dead letter is written before the position moves past the change: a crash in between writes it again, and
readers of dead letters recognise the repeat. The store keeps its earlier row. A poison change that a later one of its
key replaces in the same batch is never looked at.

**Two followers** of the same store never both apply: the store lets one in only, or finds that its positions are not
those that it gave, and rolls back.

**What needs a person** ends the loop (FollowError): positions that the topic no longer holds, a table with other
columns, a store that refuses. `rebuild` clears the store first and applies the topic from its beginning.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from confluent_kafka import KafkaError

from headrace.errors import FollowError, LogError
from headrace.followers import feed as feeds
from headrace.followers.feed import Feed
from headrace.followers.store import Poison, Positions, Store, StoreAway
from headrace.log import away, dead
from headrace.log import topic as topics
from headrace.log.away import Pause, Sight, Silence
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.producer import Producer

POLL_S = 0.2
WAIT_S = 1.0
# The longest pause while the log is away: one that is back should be noticed soon.
LONGEST_LOG_PAUSE_S = 5.0
# How often a follower that has nothing to do writes its positions, so that they do not look abandoned.
SIGN_OF_LIFE_S = 60.0

State = Literal["starting", "running", "waiting", "stopped", "failed"]


@dataclass(frozen=True)
class Status:
    """The status of a follower; `applied` counts records, repeats included, and `waiting` says for what.

    `lag` is known once the end of the topic is. `oldest` is the time of the oldest record that was read and is not
    applied. `doing` is the step of the loop, and `step` when that began.
    """

    state: State = "starting"
    applied: int = 0
    dead: int = 0
    lag: Mapping[int, int] = field(default_factory=dict)
    last: str | None = None
    waiting: str | None = None
    error: FollowError | None = None
    oldest: str | None = None
    doing: str = "starting"
    step: str | None = None


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
        self._oldest: str | None = None
        self._positions: dict[int, int] = {}
        self._sight: Sight | None = None
        self._away: float | None = None
        self._silence = Silence()
        self._pause, self._log_pause = Pause(), Pause(LONGEST_LOG_PAUSE_S)

    @property
    def status(self) -> Status:
        """The status at this moment."""
        state, waiting, sight, pulse = self._state, self._waiting, self._sight, self._store.pulse
        if sight is not None and state not in ("stopped", "failed"):
            sight.look()
            waiting = sight.away or waiting
        ends = {} if sight is None else sight.ends
        lag = {i: max(0, ends[i] - at) for i, at in sorted(self._positions.items()) if i in ends}
        told = (state, self._applied, self._dead, lag, self._last, waiting, self._error)
        return Status(*told, oldest=self._oldest, doing=pulse.doing, step=_moment(pulse.at))

    def run(self, stop: threading.Event) -> None:
        """Follow until `stop` is set; FollowError when it cannot go on by itself."""
        self._run(stop, to_the_end=False)

    def catch_up(self, stop: threading.Event | None = None) -> int:
        """Apply what the topic holds by the time the store is open, and give how many records that were."""
        before = self._applied
        self._run(stop or threading.Event(), to_the_end=True)
        return self._applied - before

    def _run(self, stop: threading.Event, *, to_the_end: bool) -> None:
        self._store.pulse.stopping = stop
        try:
            while not stop.is_set():
                try:
                    self._follow(stop, to_the_end)
                    if to_the_end:
                        break
                except StoreAway as gone:
                    self._wait(stop, gone.reason, max(gone.retry_after, self._pause.next()))
                except LogError as error:
                    self._producer = None
                    self._wait(stop, self._reason(error), self._log_pause.next())
        except FollowError as error:
            self._state, self._error, self._waiting = "failed", error, None
            raise
        finally:
            self._store.close()
            if self._state != "failed":
                self._state, self._waiting = "stopped", None

    def _follow(self, stop: threading.Event, to_the_end: bool) -> None:
        self._store.pulse.beat("asking for its topic")
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
            if self._sight is None or set(self._positions) != set(feed.positions):
                self._sight = Sight(self._connection, self.topic, feed.positions)
            self._positions = dict(feed.positions)
            alive = time.monotonic()
            while not stop.is_set() and not (to_the_end and _reached(feed.positions, ends)):
                self._store.pulse.beat("reading")
                batch = feed.gather(self._store.batch, POLL_S)
                if batch.positions:
                    self._oldest = _written(min(batch.records, key=_time, default=None))
                    self._apply(batch.records, batch.positions)
                    self._last = _written(batch.records[-1] if batch.records else None) or self._last
                    self._positions, self._oldest = dict(feed.positions), None
                    self._silence.over()
                    alive = time.monotonic()
                elif self._silence.is_too_long([(self._sight, self._positions)]):
                    silence = KafkaError(KafkaError._TIMED_OUT, "nothing is brought, although there is more")
                    raise self._connection.error(silence, f"following {self.topic}")
                elif time.monotonic() - alive > SIGN_OF_LIFE_S:
                    self._store.apply((), feed.positions)
                    alive = time.monotonic()
                self._goes_on()

    def _apply(self, records: Sequence[Record], positions: Positions) -> None:
        while True:
            try:
                self._store.apply(records, positions)
            except Poison as poison:
                if poison.changes:
                    for change, reason in poison.changes:
                        self._write_dead_letter(change, reason)
                    refused = {(change.partition, change.offset) for change, _ in poison.changes}
                    records = [one for one in records if (one.partition, one.offset) not in refused]
                elif len(records) > 1:
                    half = len(records) // 2
                    self._apply(records[:half], {one.partition: one.offset + 1 for one in records[:half]})
                    records = records[half:]
                elif records:
                    self._write_dead_letter(records[0], poison.reason)
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

    def _write_dead_letter(self, change: Record, reason: str) -> None:
        if self._producer is None:
            topics.ensure(self._connection, [dead.declaration(self.topic)])
            self._producer = Producer(self._connection)
        self._producer.send(**dead.to_record(change, reason=reason, query=self.name))
        self._producer.flush()
        self._dead += 1

    def _goes_on(self) -> None:
        """What had arrived is applied, so nothing is waited for. That the store could be opened would not be enough."""
        self._state, self._waiting, self._away = "running", None, None
        self._pause.over()
        self._log_pause.over()

    def _reason(self, error: LogError) -> str:
        """What is waited for: the log, since it was first away, or what the log says."""
        if error.code != "HR-201":
            return error.what
        self._away = self._away or time.time()
        return away.since(self._away)

    def _wait(self, stop: threading.Event, reason: str, seconds: float) -> None:
        self._state, self._waiting = "waiting", reason
        self._store.close()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop.is_set():
            self._store.pulse.beat("waiting")
            stop.wait(min(left, WAIT_S))


def _time(record: Record) -> int:
    return record.timestamp_ms


def _written(record: Record | None) -> str | None:
    return None if record is None else _moment(record.timestamp_ms / 1000)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _reached(positions: Positions, ends: Positions) -> bool:
    return all(positions[partition] >= end for partition, end in ends.items())
