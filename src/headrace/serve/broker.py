"""What Kafka knows about topics and groups, asked without delaying anybody else.

One admin client answers all questions. A question that Kafka does not answer is a LogError, as everywhere. The client
is then made to look for the leaders of partitions again, because a client that keeps the old ones is refused for ever.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from headrace.log.connection import TIMEOUT_S, Connection
from headrace.serve.positions import digest

Place = tuple[str, int]
_EARLIEST: Any = OffsetSpec.earliest()
_LATEST: Any = OffsetSpec.latest()
_KNOWN_S = 30.0
LEARN_S = 3.0


@dataclass(frozen=True)
class Facts:
    """A topic: its digest, its partitions, and for how many seconds a deletion is kept (None: for ever)."""

    digest: str
    partitions: int
    deletions_s: float | None


class Broker:
    """Questions to one cluster."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._admin: AdminClient | None = None
        self._opening = asyncio.Lock()
        self._facts: dict[str, tuple[float, Facts]] = {}

    async def facts(self, topic: str) -> Facts:
        """What the topic is; remembered for half a minute."""
        known = self._facts.get(topic)
        if known is not None and time.monotonic() - known[0] < _KNOWN_S:
            return known[1]
        admin = await self._client()
        resource = ConfigResource(ResourceType.TOPIC, topic)
        try:
            described = admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)[topic]
            configured = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource]
            found, config = await asyncio.wrap_future(described), await asyncio.wrap_future(configured)
        except KafkaException as error:
            await self._learn(admin)
            raise self._error(error, topic) from error
        compacted = "compact" in (config["cleanup.policy"].value or "")
        kept = int(config["delete.retention.ms"].value or 0) / 1000 if compacted else None
        facts = Facts(digest(str(found.topic_id)), len(found.partitions), kept)
        self._facts[topic] = time.monotonic(), facts
        return facts

    async def ends(self, topic: str) -> dict[int, int]:
        """The next offset of each partition, below the first transaction that is still open."""
        return await self._offsets(topic, _LATEST)

    async def firsts(self, topic: str) -> dict[int, int]:
        """The first offset that each partition still holds."""
        return await self._offsets(topic, _EARLIEST)

    async def committed(self, group: str, places: Iterable[Place]) -> dict[Place, int]:
        """The next offset that a group has yet to read; places of which it has read nothing are left out."""
        admin = await self._client()
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(*place) for place in places])
        try:
            answers = admin.list_consumer_group_offsets([asked], request_timeout=TIMEOUT_S)
            found = await asyncio.wrap_future(answers[group])
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return {}
            raise self._error(error, group) from error
        return {(place.topic, place.partition): place.offset for place in found.topic_partitions if place.offset >= 0}

    async def _offsets(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        admin = await self._client()
        partitions = (await self.facts(topic)).partitions
        asked = {TopicPartition(topic, i): spec for i in range(partitions)}
        try:
            answers = admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
            )
            return {place.partition: _there((await asyncio.wrap_future(one)).offset) for place, one in answers.items()}
        except KafkaException as error:
            self._facts.pop(topic, None)
            await self._learn(admin)
            raise self._error(error, topic) from error

    async def _client(self) -> AdminClient:
        if self._admin is None:
            async with self._opening:
                if self._admin is None:
                    self._admin = await asyncio.to_thread(self.connection.admin)
        return self._admin

    async def _learn(self, admin: AdminClient) -> None:
        with suppress(KafkaException):
            await asyncio.to_thread(admin.list_topics, timeout=LEARN_S)

    def _error(self, error: KafkaException, about: str) -> Exception:
        return self.connection.error(error.args[0], f"asking about {about}")


def _there(offset: int) -> int:
    """The offset; KafkaException where a broker that goes away while it is asked gives none."""
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return offset
