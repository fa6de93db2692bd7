"""Topics as they are declared, and as they are.

`ensure` creates what is missing and compares what is there. Only two differences are errors, because they break what
was declared: fewer partitions (keys would be spread otherwise than the plan assumes) and another clean-up policy (a
compacted stream loses events; an expiring table loses rows). Retention and other settings of an existing topic are
its operator's choice and are left alone. Several processes may ensure the same topics at once. A crash in between
leaves some topics created; the next call creates the rest.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from headrace import names as reserved
from headrace.errors import LogError
from headrace.log.connection import TIMEOUT_S, Connection

_EARLIEST: Any = OffsetSpec.earliest()
_LATEST: Any = OffsetSpec.latest()
# What a partition answers while its leader is new or moving; it passes.
_MOVING = {
    KafkaError._NOENT,  # of the client: it knows no leader of a partition
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
_NOT_THERE = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID}


HISTORY = {"min.compaction.lag.ms": str(7 * 86_400_000)}
"""How the topic of a table is configured, so that its history of the last week can be told again."""
LAST_DAY = {"min.compaction.lag.ms": str(86_400_000)}
"""How the topic of a view is configured, so that a live query finds what a row was before its last batch."""


@dataclass(frozen=True)
class Topic:
    """What a topic must look like. Without `retention_ms` the broker's default holds; -1 keeps records for ever.

    A compacted topic keeps the last record of each key; with `retention_ms` as well, keys expire.
    """

    name: str
    partitions: int = 1
    retention_ms: int | None = None
    compacted: bool = False
    config: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not reserved.is_topic(self.name):
            raise LogError(
                "HR-212",
                f"`{self.name}` cannot be a topic name",
                found=self.name,
                fix="use 1 to 249 letters, digits, dots, underscores and hyphens",
            )
        if self.partitions < 1:
            raise LogError(
                "HR-212",
                f"The topic `{self.name}` needs at least one partition",
                found=self.partitions,
                fix="declare 1 or more",
            )

    def settings(self) -> dict[str, str]:
        """The topic's configuration as Kafka names it."""
        settings = {"cleanup.policy": "delete"}
        if self.compacted:
            settings["cleanup.policy"] = "compact" if self.retention_ms is None else "compact,delete"
        if self.retention_ms is not None:
            settings["retention.ms"] = str(self.retention_ms)
        return settings | dict(self.config)


@dataclass(frozen=True)
class PartitionDescription:
    """The offsets a partition holds: `[first, next)`. Some in between may be compacted away or be no records."""

    partition: int
    first: int
    next: int


@dataclass(frozen=True)
class Committed:
    """What a consumer group has committed of a partition: the offset, and what was written beside it."""

    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True)
class TopicDescription:
    """What a topic looks like: `config` holds what was set for it, `lag` what each consumer group has yet to read."""

    name: str
    partitions: tuple[PartitionDescription, ...]
    config: Mapping[str, str] = field(hash=False)
    lag: Mapping[str, int] = field(hash=False)


def ensure(connection: Connection, topics: Iterable[Topic]) -> list[str]:
    """Create the topics that are missing; the names of those that this call created."""
    wanted = {topic.name: topic for topic in topics}
    if not wanted:
        return []
    admin, there = connection.reach()
    missing = [topic for name, topic in wanted.items() if name not in there.topics]
    with connection.translated(f"creating the topics {', '.join(wanted)}"):
        created = _create(admin, missing)
        _await(admin, lambda seen: all(_ready(seen, name) for name in wanted), f"the topics {', '.join(wanted)}")
        found = [topic for name, topic in wanted.items() if name not in created]
        _check_partitions(admin, found)
        _check_policy(connection, admin, found)
        # A leader that metadata names may not have taken over yet; one that tells its offsets has.
        for topic in missing:
            _offsets(connection, admin, topic.name, range(topic.partitions), _LATEST, committed=False)
    return created


def names(connection: Connection) -> list[str]:
    """The topics of the cluster, in order, without Kafka's own."""
    return sorted(name for name in connection.metadata().topics if not name.startswith("__"))


def partitions(connection: Connection, topic: str) -> list[int]:
    """The partitions of a topic; LogError when there is no such topic."""
    return _ids(connection, connection.metadata(), topic)


def ends(connection: Connection, topic: str, *, committed: bool = True) -> dict[int, int]:
    """The next offset of each partition; when `committed`, below the first transaction that is still open."""
    return {partition: end for (_, partition), end in ends_of(connection, [topic], committed=committed).items()}


def ends_of(connection: Connection, names: Iterable[str], *, committed: bool = True) -> dict[tuple[str, int], int]:
    """The same of several topics, by topic and partition, with one connection."""
    admin, there = connection.reach()
    return {
        (name, partition): end
        for name in names
        for partition, end in _offsets(
            connection, admin, name, _ids(connection, there, name), _LATEST, committed=committed
        ).items()
    }


def describe(connection: Connection, name: str) -> TopicDescription:
    """The topic's partitions, its own configuration and the lag of the groups that read it."""
    admin = connection.admin()
    partitions = describe_partitions(connection, name)
    config = {
        str(entry.name): entry.value or ""
        for entry in _config(connection, admin, [name])[name].values()
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    }
    return TopicDescription(
        name,
        partitions,
        config,
        _lag(connection, admin, name, {place.partition: place.next for place in partitions}),
    )


def describe_partitions(connection: Connection, name: str) -> tuple[PartitionDescription, ...]:
    """The offsets that the partitions of a topic hold, open transactions included."""
    admin, there = connection.reach()
    ids = _ids(connection, there, name)
    first = _offsets(connection, admin, name, ids, _EARLIEST, committed=False)
    following = _offsets(connection, admin, name, ids, _LATEST, committed=False)
    return tuple(PartitionDescription(i, first[i], following[i]) for i in ids)


def identities(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """What Kafka calls each topic, by its name: another one when a topic was deleted and made anew."""
    with connection.translated(f"describing {', '.join(names)}"):
        admin = connection.admin()  # an answer is lost with the client that asked
        found = {name: identity(answer) for name, answer in ask_identities(admin, names).items()}
    for name, known in found.items():
        if known is None:
            raise connection.unknown_topic(name)
    return {name: known for name, known in found.items() if known is not None}


def ask_identities(admin: AdminClient, names: Sequence[str]) -> dict[str, Future[Any]]:
    """Ask without waiting, for `identity`; the client must be kept until the answers are there."""
    return admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT_S) if names else {}


def identity(answer: Future[Any]) -> str | None:
    """The identity in an answer; None when there is no such topic."""
    try:
        return str(answer.result().topic_id)
    except KafkaException as error:
        if error.args[0].code() in _NOT_THERE:
            return None
        raise


def limit(connection: Connection, name: str) -> int:
    """The largest record batch, in bytes, that the topic takes."""
    return int(_config(connection, connection.admin(), [name])[name]["max.message.bytes"].value or 0)


def delete(connection: Connection, *topics: str) -> None:
    """Delete topics and wait until they are gone; one that is not there is fine."""
    if not topics:
        return
    admin = connection.admin()
    with connection.translated(f"deleting {', '.join(topics)}"):
        for future in admin.delete_topics(list(topics), operation_timeout=TIMEOUT_S).values():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() not in _NOT_THERE:
                    raise
        _await(admin, lambda seen: not any(name in seen.topics for name in topics), f"the end of {', '.join(topics)}")


def _create(admin: AdminClient, topics: Sequence[Topic]) -> list[str]:
    if not topics:
        return []
    new = [NewTopic(topic.name, topic.partitions, config=topic.settings()) for topic in topics]
    created = []
    for name, future in admin.create_topics(new, operation_timeout=TIMEOUT_S).items():
        try:
            future.result()
            created.append(name)
        except KafkaException as error:
            kafka: KafkaError = error.args[0]
            if kafka.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if kafka.code() in (
                KafkaError.INVALID_CONFIG,
                KafkaError.INVALID_REPLICATION_FACTOR,
                KafkaError.INVALID_PARTITIONS,
                KafkaError.POLICY_VIOLATION,
                KafkaError.TOPIC_EXCEPTION,
            ):
                raise LogError(
                    "HR-212",
                    f"The topic `{name}` cannot be created: {kafka.str()}",
                    found=next(topic for topic in topics if topic.name == name),
                    fix="correct the declaration, or create the topic by hand",
                ) from error
            raise
    return created


def _check_partitions(admin: AdminClient, topics: Sequence[Topic]) -> None:
    there = admin.list_topics(timeout=TIMEOUT_S).topics
    for topic in topics:
        found = len(there[topic.name].partitions)
        if found < topic.partitions:
            raise LogError(
                "HR-210",
                f"The topic `{topic.name}` has fewer partitions than declared",
                found=f"{found} partitions, declared {topic.partitions}",
                fix=f"declare partitions={found}; "
                + (
                    "more cannot be added, since the rows of a key must stay in one: write them into a new topic"
                    if topic.compacted
                    else f"or add some: kafka-topics --alter --topic {topic.name} --partitions {topic.partitions} "
                    "(keys move to other partitions)"
                ),
            )


def _check_policy(connection: Connection, admin: AdminClient, topics: Sequence[Topic]) -> None:
    config = _config(connection, admin, [topic.name for topic in topics])
    for topic in topics:
        found, declared = config[topic.name]["cleanup.policy"].value or "", topic.settings()["cleanup.policy"]
        if {part.strip() for part in found.split(",")} != {part.strip() for part in declared.split(",")}:
            raise LogError(
                "HR-211",
                f"The topic `{topic.name}` keeps its records otherwise than declared",
                found=f"cleanup.policy={found}, declared {declared}",
                fix=f"kafka-configs --alter --entity-type topics --entity-name {topic.name} "
                f"--add-config cleanup.policy=[{declared}], or declare another topic",
            )


def _config(connection: Connection, admin: AdminClient, topics: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
    if not topics:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    with connection.translated(f"describing {', '.join(topics)}"):
        answers = admin.describe_configs(resources, request_timeout=TIMEOUT_S)
        return {resource.name: future.result() for resource, future in answers.items()}


def _offsets(
    connection: Connection, admin: AdminClient, topic: str, ids: Sequence[int], spec: OffsetSpec, *, committed: bool
) -> dict[int, int]:
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, i): spec for i in ids}
    deadline = time.monotonic() + TIMEOUT_S
    with connection.translated(f"asking for the offsets of {topic}"):
        while True:
            answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIMEOUT_S)
            try:
                return {place.partition: future.result().offset for place, future in answers.items()}
            except KafkaException as error:
                if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)
            admin.list_topics(topic, timeout=TIMEOUT_S)


def group_offsets(connection: Connection, prefix: str) -> dict[str, list[Committed]]:
    """What every group whose name begins like this has committed, by group."""
    admin = connection.admin()
    with connection.translated("listing the consumer groups"):
        # The client takes one group a request; they are all under way before the first answer is awaited.
        answers = {
            group: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_S)
            for group in _groups(admin)
            if group.startswith(prefix)
        }
        return {
            group: [
                Committed(one.topic, one.partition, one.offset, one.metadata or "")
                for one in answer[group].result().topic_partitions
                if one.offset >= 0
            ]
            for group, answer in answers.items()
        }


def _groups(admin: AdminClient) -> list[str]:
    """All consumer groups; a broker that still reads what it knows of them is asked again."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        answer = admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
        if not answer.errors:
            return [group.group_id for group in answer.valid]
        if time.monotonic() > deadline:
            raise answer.errors[0]
        time.sleep(0.1)


def forget_groups(connection: Connection, group: str, prefix: str) -> None:
    """Delete a group, and those whose names begin like this; one that is not there is fine."""
    admin = connection.admin()
    with connection.translated(f"forgetting the group {group}"):
        gone = [one for one in _groups(admin) if one == group or one.startswith(prefix)]
        for answer in admin.delete_consumer_groups(gone, request_timeout=TIMEOUT_S).values() if gone else ():
            try:
                answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise


def _lag(connection: Connection, admin: AdminClient, topic: str, following: Mapping[int, int]) -> dict[str, int]:
    with connection.translated("listing the consumer groups"):
        kinds = {ConsumerGroupType.CONSUMER, ConsumerGroupType.CLASSIC}
        groups = admin.list_consumer_groups(types=kinds, request_timeout=TIMEOUT_S).result().valid
        # The client takes one group a request; they are all under way before the first answer is awaited.
        answers = {
            group.group_id: admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group.group_id)], request_timeout=TIMEOUT_S
            )[group.group_id]
            for group in groups
            if not reserved.is_sink(group.group_id)
        }
        lag: dict[str, int] = {}
        for group, answer in sorted(answers.items()):
            read = [place for place in answer.result().topic_partitions if place.topic == topic and place.offset >= 0]
            if read:
                lag[group] = sum(max(0, following.get(place.partition, 0) - place.offset) for place in read)
        return lag


def _ids(connection: Connection, seen: ClusterMetadata, name: str) -> list[int]:
    topic = seen.topics.get(name)
    if topic is None or topic.error is not None or not topic.partitions:
        raise connection.unknown_topic(name)
    return sorted(topic.partitions)


def _ready(seen: ClusterMetadata, name: str) -> bool:
    topic = seen.topics.get(name)
    return topic is not None and bool(topic.partitions) and all(p.leader >= 0 for p in topic.partitions.values())


def _await(admin: AdminClient, done: Callable[[ClusterMetadata], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not done(admin.list_topics(timeout=TIMEOUT_S)):
        if time.monotonic() > deadline:
            raise LogError(
                "HR-212",
                f"The brokers did not agree on {what} within {TIMEOUT_S:.0f} seconds",
                found=what,
                fix="look for brokers that are down (kafka-topics --describe --unavailable-partitions), then try again",
            )
        time.sleep(0.02)
