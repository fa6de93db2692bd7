"""The keys that a topic holds: those whose last record is no tombstone.

Records of the transaction that is open here count, so that a table which is filled and emptied in one transaction comes
out empty. The topic is read from its beginning; when it is long, several times, each time for a part of its keys, so
that the memory that this takes is bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping

from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.topic import describe_partitions, ends

AT_ONCE = 300_000
"""How many keys are kept in memory."""
EVERY = 5_000


def keys(
    connection: Connection, topic: str, *, below: Mapping[int, int] | None = None, alive: Callable[[], None]
) -> Iterator[bytes]:
    """The keys whose last record is no tombstone, and is older than the offsets `below` if they are given.

    Everything that was sent must have been flushed. `alive` is called now and then.
    """
    places = describe_partitions(connection, topic)
    committed = ends(connection, topic)
    rounds = 1 + sum(place.next - place.first for place in places) // AT_ONCE
    for part in range(rounds):
        found: dict[bytes, None] = {}
        for count, record in enumerate(_records(connection, topic, committed)):
            if count % EVERY == 0:
                alive()
            key = record.key
            if key is None or zlib.crc32(key) % rounds != part:
                continue
            if record.value is None or (below is not None and record.offset >= below.get(record.partition, 0)):
                found.pop(key, None)
            else:
                found[key] = None
        yield from found


def offsets(connection: Connection, topic: str) -> dict[int, int]:
    """The next offset of each partition."""
    return ends(connection, topic, committed=False)


def _records(connection: Connection, topic: str, committed: Mapping[int, int]) -> Iterator[Record]:
    yield from read(connection, topic)
    # What stands behind the last committed record is ours: there is no other writer.
    ours = offsets(connection, topic)
    unsettled = {partition: start for partition, start in committed.items() if ours[partition] > start}
    if unsettled:
        yield from read(connection, topic, start=unsettled, committed=False)
