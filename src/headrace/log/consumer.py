"""Reading the log: to its end, along with it, or as a group that remembers.

`read` needs no group. By default it ends where the topic ended when it was called; with `follow` it never ends.
`Consumer` is a member of a group: partitions are shared out, `commit` remembers what was read, `seek` sets back.

Records of aborted and still open transactions are not seen (`committed=False` shows them). Offsets have gaps:
transaction markers and compacted records take offsets and are never delivered. So the end is recognised by the
client's end-of-partition event, and not by counting offsets alone.

An offset that the topic no longer holds is an error (HR-225), never a silent jump: what is gone was not read.
A crash of a group member repeats what it read after its last commit; nothing is left out. A broker that goes away and
comes back is waited for: a reader that follows, and a member, go on where they were (away.py). Only a read to the end
gives up, after `STALL_S` seconds without an answer.
Partitions come interleaved; order holds within one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka import Consumer as Client

from headrace.errors import LogError
from headrace.log import away
from headrace.log import topic as topics_of
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.log.patience import begun, bounded, let_go
from headrace.log.position import Position

STALL_S = 30.0
LOOK_S = 1.0


class Edge(Enum):
    """One of the two ends of a topic."""

    BEGINNING = "beginning"
    END = "end"


BEGINNING, END = Edge.BEGINNING, Edge.END

Start: TypeAlias = Edge | datetime | Mapping[int, int] | Sequence[Position]
"""Where to begin: an edge, the first record at or after a time, or offsets (by partition, or as positions)."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())

    @property
    def position(self) -> Position:
        """Where it is."""
        return Position(self.topic, self.partition, self.offset)

    def header(self, name: str) -> str | None:
        """The first header of that name as text."""
        found = next((value for header, value in self.headers if header == name), None)
        return None if found is None else found.decode("utf-8", "replace")

    @classmethod
    def of(cls, message: Message) -> Record:
        """The record in a message of the Kafka client."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if topic is None or partition is None or offset is None:
            raise ValueError("a message without a place is not a record")
        headers: Any = message.headers() or ()
        key: Any = message.key()
        value: Any = message.value()
        return cls(topic, partition, offset, message.timestamp()[1], key, value, tuple(headers))


def read(
    connection: Connection,
    topic: str,
    *,
    start: Start = BEGINNING,
    follow: bool = False,
    limit: int | None = None,
    committed: bool = True,
) -> Iterator[Record]:
    """The records of a topic from `start` to its end as of this call, or for ever; at most `limit`.

    When `start` gives offsets, partitions that it does not name are not read.
    """
    ends = topics_of.ends(connection, topic, committed=committed)
    places = [(topic, partition) for partition in _named(start, topic, sorted(ends))]
    client = _client(connection, committed, {"group.id": "headrace.read", "fetch.wait.max.ms": 500 if follow else 20})
    with connection.translated(f"reading {topic}"):
        # Without a question first, the client finds the leaders half a second late.
        client.list_topics(topic, timeout=TIMEOUT_S)
        starts = _starts(client, places, start)
        if not follow:
            starts = _readable(connection, topic, starts, ends)
        client.assign(starts)
    return islice(_records(connection, client, {} if follow else ends, {place.partition for place in starts}), limit)


def _readable(
    connection: Connection, topic: str, starts: list[TopicPartition], ends: Mapping[int, int]
) -> list[TopicPartition]:
    """The places with something to read before the `ends`. Behind the first open transaction there is nothing, and the
    broker does not say so."""
    if all(place.offset < ends[place.partition] for place in starts):
        return starts
    written = topics_of.ends(connection, topic, committed=False)
    return [p for p in starts if p.offset < ends[p.partition] or p.offset > written[p.partition]]


def committed(connection: Connection, group: str, topics: Iterable[str]) -> dict[tuple[str, int], int]:
    """The next offsets of a group, by topic and partition, where it has any."""
    client = _client(connection, True, {"group.id": group})
    try:
        places = [TopicPartition(name, i) for name in topics for i in topics_of.partitions(connection, name)]
        with connection.translated(f"asking for the offsets of {group}"):
            found = _offsets(client, places) if places else []
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}
    finally:
        client.close()


def _offsets(client: Client, places: list[TopicPartition]) -> list[TopicPartition]:
    """The offsets of the client's group; a broker that has just begun to look after groups is asked again."""
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return client.committed(places, timeout=TIMEOUT_S)
        except KafkaException as error:
            if not away.passes(error.args[0]) or time.monotonic() > until:
                raise
        time.sleep(0.1)


def offsets_at(connection: Connection, topic: str, moment: datetime) -> dict[int, int]:
    """The offset of the first record at or after a time, by partition; the end where no record is that late."""
    ends = topics_of.ends(connection, topic)
    client = _client(connection, True, {"group.id": "headrace.read"})
    try:
        with connection.translated(f"asking for the offsets of {topic} at {moment.isoformat()}"):
            found = {place.partition: place.offset for place in _starts(client, [(topic, i) for i in ends], moment)}
    finally:
        client.close()
    return {i: offset if offset >= 0 else ends[i] for i, offset in found.items()}


def _records(connection: Connection, client: Client, ends: Mapping[int, int], unfinished: set[int]) -> Iterator[Record]:
    """Records up to the `ends`; where there are none, for ever."""
    heard = time.monotonic()
    try:
        while unfinished:
            message = client.poll(1.0)
            if message is None:
                if ends and time.monotonic() - heard > STALL_S:
                    raise connection.error(KafkaError(KafkaError._TIMED_OUT), "reading to the end")
                continue
            if _passes(message):
                continue
            heard = time.monotonic()
            if _is_end(connection, message):
                if ends:
                    unfinished.discard(_partition(message))
                continue
            record = Record.of(message)
            if ends and record.offset + 1 >= ends[record.partition]:
                unfinished.discard(record.partition)
            if not ends or record.offset < ends[record.partition]:
                yield record
    finally:
        client.close()


class Consumer:
    """A member of a consumer group; not to be shared between threads.

    `start` holds for partitions of which the group has committed nothing yet. Only `commit` commits.
    """

    def __init__(
        self,
        connection: Connection,
        group: str,
        topics: Iterable[str],
        *,
        start: Start = BEGINNING,
        committed: bool = True,
    ) -> None:
        self._connection = connection
        self._group = group
        self._start = start
        self._sought: Start | None = None
        self._begun: dict[tuple[str, int], int] = {}
        self._next: dict[tuple[str, int], int] = {}
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._committed = committed
        self._reached: dict[tuple[str, int], int] = {}
        self._sights: dict[str, away.Sight] = {}
        self._silence = away.Silence()
        for name in self._topics:
            topics_of.partitions(connection, name)
        self._client = self._joined()

    def poll(self, timeout: float = 1.0) -> Record | None:
        """The next record, or None when there is none within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            message = self._polled(min(left, LOOK_S))
            if message is None:
                if left <= LOOK_S:
                    return None
                continue
            if _passes(message):
                continue
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            ended = _is_end(self._connection, message)
            if topic is not None and partition is not None and offset is not None:
                # At the end of a partition this steps over transaction markers, so that the group's lag becomes 0.
                self._next[topic, partition] = self._reached[topic, partition] = offset if ended else offset + 1
            if not ended:
                return Record.of(message)

    def _polled(self, timeout: float) -> Message | None:
        try:
            message = self._client.poll(timeout)
        except KafkaException as error:
            raise self._connection.error(error.args[0], f"reading as the group {self._group}") from error
        if message is not None and not _passes(message):
            self._sights.clear()
            self._silence.over()
        elif message is None and self._silence.is_too_long(
            (sight, self._reached_in(topic)) for topic, sight in self._sights.items()
        ):
            self._join_again()
        return message

    def _joined(self) -> Client:
        """A client that is a member of the group, or about to become one."""
        options = {"group.id": self._group, "error_cb": self._heard}
        client = _client(self._connection, self._committed, options)
        with self._connection.translated(f"joining the group {self._group}"):
            client.subscribe(self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        return client

    def _heard(self, error: KafkaError) -> None:
        """The client has lost its broker: until something comes, the topics are looked at beside it."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._sights:
            self._sights = {
                name: away.Sight(self._connection, name, self._reached_in(name))
                for name in {topic for topic, _ in self._reached}
            }

    def _reached_in(self, topic: str) -> dict[int, int]:
        return {partition: at for (name, partition), at in self._reached.items() if name == topic}

    def _join_again(self) -> None:
        """A client whose broker went and came back may never find the coordinator of its group again (patience.py). So
        it is given up; what was read and not committed comes again."""
        given_up, self._client = self._client, self._joined()
        self._next.clear()
        begun(given_up.close, f"leaving-{self._group}")

    def __iter__(self) -> Iterator[Record]:
        """Records, for ever."""
        while True:
            if (record := self.poll()) is not None:
                yield record

    def commit(self) -> tuple[Position, ...]:
        """Remember, for the group, all that `poll` has returned; the positions from which a successor goes on."""
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in self._next.items()]
        if not places:
            return ()
        try:
            done = bounded(lambda: self._client.commit(offsets=places, asynchronous=False), TIMEOUT_S, "commit") or []
        except KafkaException as error:
            raise self._refused(error.args[0]) from error
        for place in done:
            if place.error is not None:
                raise self._refused(place.error)
        self._next.clear()
        return tuple(sorted(Position(place.topic, place.partition, place.offset) for place in done))

    def seek(self, start: Start) -> None:
        """Go on from `start`, in the partitions that this member holds (or is about to be given).

        `commit` afterwards makes the new place the group's. Offsets leave partitions they do not name where they are.
        """
        held = [(place.topic, place.partition) for place in self._client.assignment()]
        if not held:
            self._sought = start
            return
        with self._connection.translated(f"seeking in the group {self._group}"):
            moved = _starts(self._client, held, start)
            named = {(place.topic, place.partition) for place in moved}
            stay = [TopicPartition(topic, i) for topic, i in held if (topic, i) not in named]
            for place in self._client.position(stay) if stay else []:
                at = place.offset if place.offset >= 0 else self._begun[place.topic, place.partition]
                moved.append(TopicPartition(place.topic, place.partition, at))
            self._assign(moved)
        for place in named:
            self._next.pop(place, None)

    def close(self) -> None:
        """Leave the group; nothing is committed."""
        let_go(self._client.close, self._group)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _assigned(self, client: Client, places: list[TopicPartition]) -> None:
        if client is not self._client:
            return
        sought, self._sought = self._sought, None
        given = [(place.topic, place.partition) for place in places]
        self._reached = {place: at for place, at in self._reached.items() if place in given}
        moved = [] if sought is None else _starts(client, given, sought)
        named = {(place.topic, place.partition) for place in moved}
        self._assign([*moved, *self._from_group([p for p in places if (p.topic, p.partition) not in named])])

    def _assign(self, places: list[TopicPartition]) -> None:
        self._begun = {(place.topic, place.partition): place.offset for place in places}
        self._client.assign(places)

    def _from_group(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Where the group goes on, or `start` where it has committed nothing."""
        if not places:
            return []
        found = self._client.committed(list(places), timeout=TIMEOUT_S)
        known = [place for place in found if place.offset >= 0]
        fresh = [(place.topic, place.partition) for place in found if place.offset < 0]
        started = _starts(self._client, fresh, self._start)
        named = {(place.topic, place.partition) for place in started}
        return known + started + [TopicPartition(t, i, OFFSET_BEGINNING) for t, i in fresh if (t, i) not in named]

    def _revoked(self, client: Client, places: list[TopicPartition]) -> None:
        self._lost(client, places)
        for place in places if client is self._client else ():
            self._reached.pop((place.topic, place.partition), None)

    def _lost(self, client: Client, places: list[TopicPartition]) -> None:
        """The group has not heard of this member; whether anybody else has its partitions is not known."""
        for place in places if client is self._client else ():
            self._next.pop((place.topic, place.partition), None)

    def _refused(self, error: KafkaError) -> LogError:
        if error.code() in (
            KafkaError.ILLEGAL_GENERATION,
            KafkaError.UNKNOWN_MEMBER_ID,
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError._STATE,
            KafkaError._ASSIGNMENT_LOST,
            KafkaError._NO_OFFSET,
        ):
            return LogError(
                "HR-226",
                f"The group `{self._group}` has given these partitions to another member: nothing was committed",
                found=error.str(),
                fix="go on polling: the records come again, here or there; commit more often than max.poll.interval.ms",
            )
        return self._connection.error(error, f"committing for the group {self._group}")


def _client(connection: Connection, committed: bool, extra: Mapping[str, Any]) -> Client:
    options = {
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }
    with connection.translated("opening a consumer"):
        return Client(connection.client(**options, **extra))


def _named(start: Start, topic: str, partitions: Sequence[int]) -> list[int]:
    if isinstance(start, Edge | datetime):
        return list(partitions)
    named = list(start) if isinstance(start, Mapping) else [p.partition for p in start if p.topic == topic]
    for partition in named:
        if partition not in partitions:
            raise LogError(
                "HR-225",
                f"The topic `{topic}` has no partition {partition}",
                found=partition,
                fix=f"it has the partitions {', '.join(map(str, partitions))}",
            )
    return named


def _starts(client: Client, places: Sequence[tuple[str, int]], start: Start) -> list[TopicPartition]:
    """The first offset to read in each place; places that given offsets do not name are left out."""
    if isinstance(start, Edge):
        edge = OFFSET_BEGINNING if start is BEGINNING else OFFSET_END
        return [TopicPartition(topic, partition, edge) for topic, partition in places]
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise LogError(
                "HR-225",
                "A start time needs a time zone",
                found=repr(start),
                fix="use datetime(…, tzinfo=UTC), or an ISO text that ends in Z",
            )
        at = round(start.timestamp() * 1000)
        asked = [TopicPartition(topic, partition, at) for topic, partition in places]
        # Where no record is that late the answer is the end.
        return client.offsets_for_times(asked, timeout=TIMEOUT_S) if asked else []
    if isinstance(start, Mapping):
        return [TopicPartition(topic, i, start[i]) for topic, i in places if i in start]
    offsets = {(position.topic, position.partition): position.offset for position in start}
    return [TopicPartition(*place, offsets[place]) for place in places if place in offsets]


def _partition(message: Message) -> int:
    partition = message.partition()
    if partition is None:
        raise ValueError("an end without a partition")
    return partition


def _passes(message: Message) -> bool:
    """Whether it only says that a broker goes or comes."""
    error = message.error()
    return error is not None and away.passes(error)


def _is_end(connection: Connection, message: Message) -> bool:
    """Whether it is the end of a partition and no record; any other event is raised."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    where = f"{message.topic()}[{message.partition()}]"
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        raise LogError(
            "HR-225",
            f"The offset asked for is not in {where}: its records were deleted by retention, or do not exist yet",
            found=error.str(),
            fix=f"`headrace topic describe {message.topic()}` shows the offsets; start at the beginning or at a time",
        )
    if error.code() == KafkaError._MAX_POLL_EXCEEDED:
        raise LogError(
            "HR-226",
            "This member did not poll for longer than max.poll.interval.ms and lost its partitions to the group",
            found=error.str(),
            fix="go on polling: the records come again, here or there; or raise max.poll.interval.ms under [kafka]",
        )
    raise connection.error(error, f"reading {where}")
