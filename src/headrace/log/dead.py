"""Dead letters: records that could not be used, kept whole, with the reason, until somebody puts them back.

A dead letter of the topic `t` is a record of `t.dead`: key and value are the source record's, byte for byte; the
`headrace.` headers say, as UTF-8 text, where it came from, why and by which query it was refused; its other headers
are the source record's.

**Repeats.** A query that crashes and replays may write the same letter again. A letter is told by its source position
and query; listing shows the first of its repeats only.

**Putting back.** `replay` writes raw records to the partition they came from, with their key and headers and the
header `headrace.replayed`, whose value is the letter's position. Their Kafka timestamp is the time of the replay: with
the original one, which the header `headrace.timestamp` keeps, retention would delete an old record again at once. A
source record goes back once, however many queries refused it and however often they did.

Two things remember what went back, both written in the transaction that put it there:

- the offset of the group `headrace.replay.<topic>`: every letter below it is settled; every Kafka tool
  shows its lag.
- marks: records of the dead topic without a value, in the partition of the letter they settle, written only for
  letters behind one that stays pending (when single ones were chosen, or left by `transform`). The mark's key is the
  source position. A mark is younger than its letter, so retention removes the letter first.

So a crash or kill -9 at any moment neither loses nor doubles a record (for readers of committed records), and of two
replays at once the older one is fenced off and fails.

Limits: a letter that retention has removed cannot be put back, and a repeat of it that comes later counts as new.
Settled positions are held in memory while a replay runs, a few hundred bytes a letter. Records of the dead topic
without these headers are no dead letters; they are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, TypedDict

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as Writer

from headrace import names
from headrace.duration import parse
from headrace.errors import LogError
from headrace.log import topic as topics
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.log.consumer import Record, read
from headrace.log.position import Position
from headrace.log.producer import LARGEST_RECORD, OPTIONS
from headrace.log.topic import Topic

RETENTION_MS = parse("30 days")
LARGEST_LETTER = LARGEST_RECORD + 1024 * 1024
_BATCH_RECORDS = 500
_BATCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be used: `position` is the letter's, `source` the record's."""

    position: Position
    source: Position
    timestamp_ms: int | None
    reason: str
    query: str
    key: bytes | None = field(repr=False)
    raw: bytes | None = field(repr=False)
    headers: tuple[tuple[str, bytes | None], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, record: Record) -> DeadLetter | None:
        """The letter in a record of a dead topic; None when it is not one."""
        topic, partition, offset = (
            record.header(name) for name in (names.HEADER_TOPIC, names.HEADER_PARTITION, names.HEADER_OFFSET)
        )
        if topic is None or not (partition or "").isdecimal() or not (offset or "").isdecimal():
            return None
        timestamp = record.header(names.HEADER_TIMESTAMP) or ""
        return cls(
            position=record.position,
            source=Position(topic, int(partition or 0), int(offset or 0)),
            timestamp_ms=int(timestamp) if timestamp.isdecimal() else None,
            reason=record.header(names.HEADER_REASON) or "",
            query=record.header(names.HEADER_QUERY) or "",
            key=record.key,
            raw=record.value,
            headers=_foreign(record),
        )


@dataclass(frozen=True)
class ReplayReport:
    """How many records a replay put back, and how many are still pending."""

    replayed: int
    pending: int


class DeadRecord(TypedDict):
    """A dead letter to be written; the arguments of `Producer.send`."""

    topic: str
    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, str | bytes | None]]


def declaration(topic: str, partitions: int = 1) -> Topic:
    """The dead letter topic of a topic: letters are kept for 30 days, and may be larger than the records they hold."""
    config = {"max.message.bytes": str(LARGEST_LETTER)}
    return Topic(names.dead_topic(topic), partitions, retention_ms=RETENTION_MS, config=config)


def to_record(source: Record, *, reason: str, query: str) -> DeadRecord:
    """The dead letter of a record that `query` refuses; write it with `producer.send(**to_record(…))`."""
    return {
        "topic": names.dead_topic(source.topic),
        "value": source.value,
        "key": source.key,
        "headers": [
            (names.HEADER_TOPIC, source.topic),
            (names.HEADER_PARTITION, str(source.partition)),
            (names.HEADER_OFFSET, str(source.offset)),
            (names.HEADER_TIMESTAMP, str(source.timestamp_ms)),
            (names.HEADER_REASON, reason),
            (names.HEADER_QUERY, query),
            *_foreign(source),
        ],
    }


def dead_letters(
    connection: Connection, topic: str, *, pending_only: bool = False, limit: int | None = None
) -> Iterator[DeadLetter]:
    """The dead letters of a source topic, each once; when `pending_only`, without those that were put back."""
    if not _has_letters(connection, topic):
        return iter(())
    settled = _survey(connection, topic).settled if pending_only else set[Position]()
    return _letters(read(connection, names.dead_topic(topic)), settled, limit)


def pending(connection: Connection, topic: str) -> int:
    """How many source records a replay of all would put back."""
    return _survey(connection, topic).pending if _has_letters(connection, topic) else 0


def replay(
    connection: Connection,
    topic: str,
    *,
    positions: Collection[Position] | None = None,
    transform: Callable[[DeadLetter], bytes | None] | None = None,
) -> ReplayReport:
    """Put pending dead letters of a source topic back: all, or those at `positions` (of the dead topic).

    `transform` gives the value to write instead of the raw one; None leaves the letter pending. When it raises,
    letters before it may have been put back already; calling again goes on from there.
    """
    if not _has_letters(connection, topic):
        if positions:
            raise _no_letter(topic, min(positions))
        return ReplayReport(0, 0)
    writing = _Replay(connection, topic)
    # The writer first: it ends what an interrupted replay left open, so that the survey sees it settled or not at all.
    survey = _survey(connection, topic)
    chosen = None if positions is None else _sources(survey, topic, positions)
    ends = topics.ends(connection, names.dead_topic(topic))
    settled, left = set(survey.settled), set[Position]()
    writing.offsets = {partition: max(0, offset) for partition, offset in survey.below.items()}
    for record in read(connection, names.dead_topic(topic)):
        letter = DeadLetter.of(record)
        if letter is None or letter.source in settled:
            writing.step_over(record.position)
            continue
        value = letter.raw
        if letter.source in left or (chosen is not None and letter.source not in chosen):
            writing.leave(letter)
        elif transform is not None and (value := transform(letter)) is None:
            left.add(letter.source)
            writing.leave(letter)
        else:
            settled.add(letter.source)
            writing.put_back(letter, value)
    writing.finish(ends)
    return ReplayReport(writing.replayed, len(survey.sources - settled))


class _Replay:
    """Puts letters back in transactions that are open for milliseconds, with the bookkeeping described above."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.replayed = 0
        self._connection = connection
        self._topic = topic
        self.offsets: dict[int, int] = {}
        self._held: set[int] = set()
        self._batch: list[dict[str, Any]] = []
        self._count = self._bytes = 0
        group = names.replay_group(topic)
        # The metadata of a consumer that never joins: offsets are committed for the group from outside it.
        outsider = Client(connection.client(**{"group.id": group}))
        self._group = outsider.consumer_group_metadata()
        outsider.close()
        try:
            self._writer = Writer(connection.client(**OPTIONS, **{"transactional.id": group, "linger.ms": 0}))
            self._writer.init_transactions(3 * TIMEOUT_S)
        except KafkaException as error:
            raise self._failed(error) from error

    def step_over(self, position: Position) -> None:
        if position.partition not in self._held:
            # Reading starts at the beginning: what is below the group's offset must not take it back.
            self.offsets[position.partition] = max(self.offsets[position.partition], position.offset + 1)

    def leave(self, letter: DeadLetter) -> None:
        self._held.add(letter.position.partition)

    def put_back(self, letter: DeadLetter, value: bytes | None) -> None:
        position, source = letter.position, letter.source
        original = [] if letter.timestamp_ms is None else [(names.HEADER_TIMESTAMP, str(letter.timestamp_ms))]
        self._batch.append(
            {
                "topic": source.topic,
                "partition": source.partition,
                "value": value,
                "key": letter.key,
                "headers": [*letter.headers, *original, (names.HEADER_REPLAYED, str(position))],
            }
        )
        self.step_over(position)
        if position.partition in self._held:
            self._batch.append(
                {
                    "topic": position.topic,
                    "partition": position.partition,
                    "value": None,
                    "key": str(source),
                    "headers": [(names.HEADER_REPLAYED, str(position))],
                }
            )
        self._count += 1
        self._bytes += len(value or b"")
        if self._count >= _BATCH_RECORDS or self._bytes >= _BATCH_BYTES:
            self._commit()

    def finish(self, ends: dict[int, int]) -> None:
        """Commit the rest; then step over what follows the last letter (transaction markers).

        A committed transaction is visible a moment later. Kafka lets the next one write only then, so the last one,
        which has only offsets, also waits until readers see everything that was put back.
        """
        if self._batch:
            self._commit()
        for partition, end in ends.items():
            if partition not in self._held:
                self.offsets[partition] = max(end, self.offsets[partition])
        self._commit()

    def _commit(self) -> None:
        dead = names.dead_topic(self._topic)
        try:
            self._writer.begin_transaction()
            for record in self._batch:
                self._writer.produce(**record)
            moved = [TopicPartition(dead, partition, offset) for partition, offset in self.offsets.items()]
            self._writer.send_offsets_to_transaction(moved, self._group, TIMEOUT_S)
            self._writer.commit_transaction(3 * TIMEOUT_S)
        except KafkaException as error:
            self._roll_back(error)
            raise self._failed(error) from error
        self.replayed += self._count
        self._batch.clear()
        self._count = self._bytes = 0

    def _roll_back(self, error: KafkaException) -> None:
        try:
            self._writer.abort_transaction(TIMEOUT_S)
        except KafkaException as second:
            # The broker aborts it anyway: at the next replay, or when the transaction times out.
            error.add_note(f"and the transaction could not be aborted: {second}")

    def _failed(self, error: KafkaException) -> LogError:
        kafka: KafkaError = error.args[0]
        if kafka.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED):
            return LogError(
                "HR-236",
                f"Another replay of the dead letters of `{self._topic}` has taken over; this one stopped",
                found=f"{self.replayed} records put back by this one",
                fix="let the other one finish; what both did counts once",
            )
        return self._connection.error(kafka, f"putting back dead letters of {self._topic}")


@dataclass(frozen=True)
class _Survey:
    """The whole dead topic without the records: the source of each letter, the group's offsets, what is settled."""

    below: dict[int, int]
    letters: dict[Position, Position] = field(default_factory=dict)
    settled: set[Position] = field(default_factory=set)

    @property
    def sources(self) -> set[Position]:
        return set(self.letters.values())

    @property
    def pending(self) -> int:
        return len(self.sources - self.settled)


def _survey(connection: Connection, topic: str) -> _Survey:
    survey = _Survey(_settled_below(connection, topic))
    for record in read(connection, names.dead_topic(topic)):
        letter = DeadLetter.of(record)
        if letter is not None:
            survey.letters[letter.position] = letter.source
            if record.offset < survey.below[record.partition]:
                survey.settled.add(letter.source)
        elif record.value is None and record.key is not None and record.header(names.HEADER_REPLAYED) is not None:
            survey.settled.add(Position.parse(record.key.decode()))
    return survey


def _settled_below(connection: Connection, topic: str) -> dict[int, int]:
    dead = names.dead_topic(topic)
    asked = [TopicPartition(dead, partition) for partition in topics.partitions(connection, dead)]
    options = {"group.id": names.replay_group(topic), "isolation.level": "read_committed"}
    with connection.translated(f"asking what was put back into {topic}"):
        client = Client(connection.client(**options))
        try:
            return {place.partition: place.offset for place in client.committed(asked, timeout=TIMEOUT_S)}
        finally:
            client.close()


def _letters(records: Iterator[Record], settled: set[Position], limit: int | None) -> Iterator[DeadLetter]:
    seen: set[tuple[str, Position]] = set()
    for record in records:
        if limit is not None and len(seen) >= limit:
            return
        letter = DeadLetter.of(record)
        if letter is None or letter.source in settled or (letter.query, letter.source) in seen:
            continue
        seen.add((letter.query, letter.source))
        yield letter


def _sources(survey: _Survey, topic: str, positions: Collection[Position]) -> set[Position]:
    for position in positions:
        if position not in survey.letters:
            raise _no_letter(topic, position)
    return {survey.letters[position] for position in positions}


def _no_letter(topic: str, position: Position) -> LogError:
    return LogError(
        "HR-235",
        f"There is no dead letter of `{topic}` at {position}",
        found=position,
        fix=f"`headrace dead ls {topic}` shows the positions, such as {names.dead_topic(topic)}[0]@42",
    )


def _has_letters(connection: Connection, topic: str) -> bool:
    """Whether there is a dead letter topic; a source topic without one has no dead letters."""
    there = connection.metadata().topics
    if topic not in there and names.dead_topic(topic) not in there:
        raise connection.unknown_topic(topic)
    return names.dead_topic(topic) in there


def _foreign(record: Record) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(header for header in record.headers if not header[0].startswith(names.HEADER_PREFIX))
