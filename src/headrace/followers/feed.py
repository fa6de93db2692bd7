"""A topic from given positions on, in batches of what has arrived.

A batch waits only for its first record and then takes what is there, so a single change is passed on at once and a
follower that is behind gets full batches. Positions step over transaction markers at the end of a partition, so that
they equal the end offset there. Only committed records are seen.

A position that the topic does not hold is an error that names the lost range (HR-404), never a jump. Compaction loses
nothing: what it removes was replaced by a later record. A deletion is different: Kafka forgets it after
`delete.retention.ms`, and a follower that was away for longer would keep the row for ever. That is an error too
(HR-405).

A topic that is deleted and made again while it is read may soon hold the next offset, and the client goes on there
without an error. So the id of the topic is asked for at most a second after records came. What was applied until then
is of the new topic; the store keeps the id that it was opened with, so that a restart finds out as well.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from headrace import duration, names
from headrace.errors import FollowError
from headrace.followers.store import Positions
from headrace.log import away
from headrace.log import topic as topics
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.log.consumer import Record
from headrace.log.patience import let_go

# How long the broker holds an empty answer back; the end of a partition is noticed that much later.
END_MS = 100
_LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
_GONE |= {KafkaError.UNKNOWN_TOPIC_ID, KafkaError.INCONSISTENT_TOPIC_ID}
_SURELY_KEPT_S = 600
_CHECK_S = 1.0


@dataclass(frozen=True)
class Batch:
    """Records in the order they came, and the positions after them; only partitions that moved are named."""

    records: Sequence[Record]
    positions: Positions


class Feed:
    """Reads one topic for one follower; a partition that `start` does not name is read from its beginning."""

    def __init__(
        self, connection: Connection, topic: str, start: Positions, *, follower: str, topic_id: str, age_s: float
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._id = topic_id
        self._admin: AdminClient | None = None
        self._answer: Future[Any] | None = None
        self._unchecked = False
        self._checked = 0.0
        self._follower = follower
        options = {
            "group.id": names.follow_group(follower),
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": END_MS,
            "queued.max.messages.kbytes": 32 * 1024,
        }
        with connection.translated(f"following {topic}"):
            self._client = Client(connection.client(**options))
            try:
                self.positions = self._begin(start)
                self._check_deletions(start, age_s)
                places = [TopicPartition(topic, i, offset) for i, offset in self.positions.items()]
                self._client.assign(places)
            except BaseException:
                self.close()
                raise

    def gather(self, most: int, timeout: float) -> Batch:
        """What has arrived, at most so many records; empty when nothing has within `timeout` seconds."""
        self._check_id()
        with self._connection.translated(f"following {self._topic}"):
            first = self._client.poll(timeout)
            if first is None:
                return Batch((), {})
            messages = [first, *(self._client.consume(most - 1, 0) if most > 1 else ())]
        records: list[Record] = []
        moved: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition(), message.offset()
            error = message.error()
            if error is None and partition is not None and offset is not None:
                records.append(Record.of(message))
                moved[partition] = offset + 1
            elif error is not None and error.code() == KafkaError._PARTITION_EOF and partition is not None:
                if offset is not None and offset > moved.get(partition, self.positions[partition]):
                    moved[partition] = offset
            elif error is not None and not away.passes(error):
                raise self._failed(error, message)
        self.positions |= moved
        self._unchecked |= bool(records)
        return Batch(records, moved)

    def ends(self) -> dict[int, int]:
        """The end of each partition for a reader of committed records, asked of the broker."""
        places = [TopicPartition(self._topic, partition, -1) for partition in self.positions]
        with self._connection.translated(f"asking for the ends of {self._topic}"):
            # For a reader of committed records the client asks for the last stable offset.
            return {p.partition: p.offset for p in self._client.offsets_for_times(places, timeout=TIMEOUT_S)}

    def close(self) -> None:
        let_go(self._client.close, self._follower)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, start: Positions) -> dict[int, int]:
        begun: dict[int, int] = {}
        for partition, (low, high) in self._bounds().items():
            begun[partition] = start.get(partition, low)
            if not low <= begun[partition] <= high:
                raise self._lost(partition, begun[partition], low, high)
        missing = sorted(set(start) - set(begun))
        if missing:
            raise self._lost(missing[0], start[missing[0]], 0, 0)
        return begun

    def _bounds(self) -> dict[int, tuple[int, int]]:
        found = self._client.list_topics(self._topic, timeout=TIMEOUT_S).topics.get(self._topic)
        if found is None or found.error is not None or not found.partitions:
            raise self._connection.unknown_topic(self._topic)
        bounds: dict[int, tuple[int, int]] = {}
        for partition in sorted(found.partitions):
            place = TopicPartition(self._topic, partition)
            bounds[partition] = self._client.get_watermark_offsets(place, timeout=TIMEOUT_S) or (0, 0)
        return bounds

    def _check_deletions(self, start: Positions, age_s: float) -> None:
        if age_s < _SURELY_KEPT_S or not any(self._bounds()[i][1] > offset for i, offset in start.items()):
            return
        admin = self._connection.admin()
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        config = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result()
        kept_s = int(config["delete.retention.ms"].value or 0) / 1000
        if "compact" in (config["cleanup.policy"].value or "") and age_s > kept_s:
            away, kept = (duration.describe(round(seconds) * 1000) for seconds in (age_s, kept_s))
            raise FollowError(
                "HR-405",
                f"The follower `{self._follower}` was away for {away}, and the topic `{self._topic}` keeps deletions "
                f"for {kept}: rows that were deleted meanwhile might stay for ever.",
                found=f"last applied {away} ago, delete.retention.ms={kept_s * 1000:.0f}",
                fix=_rebuild(self._follower),
            )

    def _check_id(self) -> None:
        """Ask for the id of the topic, beside the reading, and look at the last answer."""
        if self._answer is not None and self._answer.done():
            answer, self._answer = self._answer, None
            try:
                found = topics.identity(answer)
            except KafkaException:
                self._unchecked = True  # the broker is away: ask again
                return
            if found is None:
                raise self._connection.unknown_topic(self._topic)
            if found != self._id:
                raise made_again(self._follower, self._topic, self.positions, self._id, found)
        if self._unchecked and self._answer is None and time.monotonic() - self._checked > _CHECK_S:
            self._admin = self._admin or self._connection.admin()
            self._answer = topics.ask_identities(self._admin, [self._topic])[self._topic]
            self._unchecked, self._checked = False, time.monotonic()

    def _failed(self, error: KafkaError, message: Message) -> Exception:
        partition = message.partition()
        if error.code() in _LOST and partition is not None:
            low, high = self._bounds().get(partition, (0, 0))
            return self._lost(partition, self.positions[partition], low, high)
        if error.code() in _GONE:
            return self._connection.unknown_topic(self._topic)
        return self._connection.error(error, f"following {self._topic}")

    def _lost(self, partition: int, at: int, low: int, high: int) -> FollowError:
        place = f"{self._topic}[{partition}]"
        if at < low:
            what = f"{place} begins at offset {low}: the offsets {at} to {low - 1} were deleted and never applied."
        else:
            what = f"{place} ends at offset {high}, and {at} was to come next: it was deleted and made again."
        return FollowError(
            "HR-404",
            f"The follower `{self._follower}` cannot go on where it was. {what}",
            found=f"next offset {at}, the topic holds [{low}, {high})",
            fix=_rebuild(self._follower),
        )


def made_again(follower: str, topic: str, kept: Mapping[int, int], before: str, after: str) -> FollowError:
    """The error for a topic that has the same name, and is not the one that was followed."""
    offsets = ", ".join(f"[{partition}] 0 to {offset - 1}" for partition, offset in kept.items() if offset) or "none"
    return FollowError(
        "HR-404",
        f"The topic `{topic}` was deleted and made again: it is not the one that `{follower}` has applied.",
        found=f"topic id {after}, applied was {before} (offsets {offsets})",
        fix=_rebuild(follower),
    )


def _rebuild(follower: str) -> str:
    name = follower.partition(".")[2] or follower
    return f"build it again from what the topic holds: `headrace follow app.py --rebuild {name}`"
