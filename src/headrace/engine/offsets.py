"""Consumed offsets and lag, where every Kafka tool can see them.

Spark keeps its offsets in the checkpoint. What a query has consumed is also committed to the group
`headrace.<app>.<query>`, for monitoring only: nothing is ever started from it. In live mode that is what has been read;
in exact mode what a finished batch has covered.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace import names
from headrace.kernel.bridge import Gauge

Offsets = Mapping[tuple[str, int], int]
_SECONDS = 5.0


def read_so_far(gauges: Iterable[Gauge], query: str) -> dict[tuple[str, int], int]:
    """The next offsets of what a query has decoded."""
    return {(g.of, g.partition): g.next_offset for g in gauges if g.query == query and g.next_offset >= 0}


def covered(end_offsets: Iterable[str]) -> dict[tuple[str, int], int]:
    """The next offsets after a finished batch, from the JSON of its sources."""
    found: dict[tuple[str, int], int] = {}
    for text in end_offsets:
        for topic, partitions in json.loads(text or "{}").items():
            found |= {(topic, int(partition)): int(offset) for partition, offset in partitions.items()}
    return found


def commit(admin: AdminClient, app: str, query: str, offsets: Offsets) -> None:
    """Write the offsets of a query to its group."""
    if not offsets:
        return
    places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
    asked = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(names.group(app, query), places)])
    for answer in asked.values():
        answer.result(_SECONDS)


def ends(admin: AdminClient, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The next offset that will be written, by topic and partition. KafkaException when the log does not answer."""
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in places}
    if not wanted:
        return {}
    answers = admin.list_offsets(wanted, request_timeout=_SECONDS)  # pyright: ignore[reportArgumentType]
    return {(place.topic, place.partition): answer.result(_SECONDS).offset for place, answer in answers.items()}
