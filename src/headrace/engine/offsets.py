"""Consumed offsets and lag, where every Kafka tool can see them.

Spark keeps its offsets in the checkpoint. What a query has consumed is also committed to the group
`headrace.<app>.<query>`, for monitoring and for readers who wait for what they wrote: nothing is ever started from it.
In exact mode that is what a finished batch has covered; in live mode what is completed (completed.py).

It is committed by a consumer that reads nothing. An admin client could do it too, but one that asks a group's
coordinator while a broker goes away may abort the whole process (librdkafka issue 4605).
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec

from headrace import names
from headrace.kernel.bridge import Gauge
from headrace.log import topic as topics
from headrace.log.connection import Connection

Offsets = Mapping[tuple[str, int], int]
_SECONDS = 5.0
_RETENTION_S = 7 * 86_400.0
_AGAIN_S = 60.0  # the log forgets the offsets of a group that commits nothing for long


def read_so_far(gauges: Iterable[Gauge], query: str) -> dict[tuple[str, int], int]:
    """The next offsets of what a query has decoded; where it reads a topic more than once, of the slowest reader."""
    found: dict[tuple[str, int], int] = {}
    for gauge in gauges:
        if gauge.query == query and gauge.next_offset >= 0:
            place = gauge.topic, gauge.partition
            found[place] = min(gauge.next_offset, found.get(place, gauge.next_offset))
    return found


class ConsumerGroups:
    """The consumer groups of an app's queries; `close` leaves them."""

    def __init__(self, connection: Connection, app: str) -> None:
        self._connection = connection
        self._app = app
        self._members: dict[str, Consumer] = {}
        self._answers: list[KafkaError | None] = []
        self._known: dict[str, tuple[float, Offsets]] = {}

    def commit(self, query: str, offsets: Offsets) -> None:
        """Write the offsets of a query to its group. KafkaException when the log does not answer."""
        at, known = self._known.get(query, (0.0, {}))
        if not offsets or (offsets == known and time.monotonic() - at < _AGAIN_S):
            return
        member = self._members.get(query) or self._join(query)
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
        until = time.monotonic() + _SECONDS
        self._answers.clear()
        member.commit(offsets=places, asynchronous=True)
        while not self._answers and time.monotonic() < until:
            member.poll(0.02)
        error = self._answers[0] if self._answers else KafkaError(KafkaError._TIMED_OUT)
        if error is not None:
            raise KafkaException(error)
        self._known[query] = (time.monotonic(), dict(offsets))

    def committed(self, query: str) -> Offsets:
        """What was committed last for a query."""
        return self._known.get(query, (0.0, {}))[1]

    def _join(self, query: str) -> Consumer:
        group = {"group.id": names.group(self._app, query), "enable.auto.commit": False}
        options = self._connection.client(**group, on_commit=lambda error, _: self._answers.append(error))
        self._members[query] = Consumer(options)
        return self._members[query]

    def close(self) -> None:
        """Leave every group."""
        for member in self._members.values():
            member.close()
        self._members.clear()


def lost(connection: Connection, reached: Offsets) -> list[str]:
    """Which of the records after these offsets cannot be read any more, as text."""
    found: list[str] = []
    for name in sorted({name for name, _ in reached}):
        for place in topics.describe_partitions(connection, name):
            at = reached.get((name, place.partition))
            if at is not None and at < place.first:
                found.append(
                    f"{name}[{place.partition}] offsets {at} to {place.first - 1}, which retention has deleted"
                )
            elif at is not None and at > place.next:
                found.append(
                    f"{name}[{place.partition}] offset {at}, where the topic ends at {place.next}: it was made anew"
                )
    return found


def retention_s(connection: Connection) -> float:
    """How long the log remembers the offsets of a group that nobody is in; Kafka's default where it does not say."""
    admin = connection.admin()
    try:
        broker = next(iter(admin.list_topics(timeout=_SECONDS).brokers))
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
        (answer,) = admin.describe_configs([resource], request_timeout=_SECONDS).values()
        return float(answer.result()["offsets.retention.minutes"].value) * 60
    except (KafkaException, KeyError, ValueError, StopIteration):
        return _RETENTION_S


def ends(admin: AdminClient, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Where readers of committed records come to an end, by topic and partition. KafkaException when the log does not
    answer, also when no place is asked for."""
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in places}
    if not wanted:
        admin.list_topics(timeout=_SECONDS)
        return {}
    try:
        return _ends(admin, wanted, isolation_level=IsolationLevel.READ_COMMITTED)
    except KafkaException:
        admin.list_topics(timeout=_SECONDS)  # a client that goes on with the leaders it knows is refused for ever
        return _ends(admin, wanted, isolation_level=IsolationLevel.READ_COMMITTED)


def visible(connection: Connection, names: Iterable[str], *, seconds: float) -> bool:
    """Wait until readers of committed records see all that is in these topics; whether they do in time.

    A commit is certain when the log has noted it, and visible when it is marked in every partition, a moment later.
    """
    admin = connection.admin()
    places = list(topics.ends_of(connection, names))
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in places}
    until = time.monotonic() + seconds
    while wanted:
        seen = _ends(admin, wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        written = _ends(admin, wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        if all(seen[place] >= written[place] for place in places):
            break
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def _ends(admin: AdminClient, wanted: dict[TopicPartition, Any], **options: Any) -> dict[tuple[str, int], int]:
    answers = admin.list_offsets(wanted, request_timeout=_SECONDS, **options)
    found = {(place.topic, place.partition): answer.result().offset for place, answer in answers.items()}
    if any(offset < 0 for offset in found.values()):  # of a broker that goes away while it is asked
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return found
