"""Sets the topic of a live view back to where the query's checkpoint is, before the query starts.

A live query writes as records come, and saves its state only at the end of a batch. So after a crash or a stop the
topic is ahead of the state, by what the unfinished batch has written. That batch is run again, and its results need not
be the same: rows of several partitions come in another order. A key that only the first run has written would stay in
the view for ever.

So every key whose last record is of an unfinished batch gets the value that it had before: that of its last record that
is of a finished batch or of another writer, or none. Then the topic says what the state says, and the second run leads
to the right view. Records of other checkpoints count as those of another writer (unfinished.py), so a deleted
checkpoint removes nothing.

**Readers** see rows of the last minutes go back and come again. What is written here has no header, goes to the
partition of the record that it follows, and is in the log before the query starts.

**A crash** in between is harmless: a key that was set back ends in a record that needs nothing, and the next start does
the others.

**The cost**, where nothing is to be done, is a look at the end of every partition, back to the last record of a
finished batch. Where keys are to be set back, a second look goes back from the end until each has its earlier value;
for a key that had none, that is the whole partition. Only those keys and their values are in memory.

**Limits.** Compaction may have removed an earlier value: the topic of a view is configured so that its last day is not
compacted (`log/topic.py`). What an executor still writes when it outlives its driver comes too late to be found. A
checkpoint that is not on a file system cannot be asked, and then nothing is set back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.engine.checkpoint import Finished
from headrace.engine.unfinished import batch_of, look_back
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.producer import Producer
from headrace.log.topic import describe_partitions

Key: TypeAlias = tuple[int, bytes]
"""A key in a partition."""


@dataclass(frozen=True, slots=True)
class Change:
    """The value that a key had before; without one it had none."""

    partition: int
    key: bytes
    value: bytes | None


def due(connection: Connection, topic: str, finished: Finished, since: Mapping[int, int] | None = None) -> list[Change]:
    """What has to be written so that the topic says what it said when the batch was finished; what was written before
    the offsets of `since`, by partition, is not of an unfinished batch."""
    places = describe_partitions(connection, topic)
    touched: set[Key] = set()

    def ends(records: Iterable[Record]) -> set[int]:
        found, seen = unfinished(records, finished)
        touched.update(found)
        return seen

    look_back(connection, topic, places, ends, since)
    before: dict[Key, bytes | None] = {}

    def values(records: Iterable[Record]) -> set[int]:
        before.update(settled(records, finished, touched))
        missing = {partition for partition, key in touched if (partition, key) not in before}
        return {place.partition for place in places} - missing

    hit = {partition for partition, _ in touched}
    look_back(connection, topic, [place for place in places if place.partition in hit], values)
    return [Change(partition, key, before.get((partition, key))) for partition, key in sorted(touched)]


def write(connection: Connection, topic: str, changes: Sequence[Change]) -> None:
    """Write the changes; when it returns they are in the log."""
    with Producer(connection) as producer:
        for change in changes:
            producer.send(topic, change.value, key=change.key, partition=change.partition)


def unfinished(records: Iterable[Record], finished: Finished) -> tuple[set[Key], set[int]]:
    """The keys whose last record is of an unfinished batch, and the partitions where one of a finished batch is among
    the records: none before it is of an unfinished one."""
    found: set[Key] = set()
    seen: set[int] = set()
    for record in records:
        batch = batch_of(record, finished.query)
        if batch is not None and batch <= finished.batch:
            seen.add(record.partition)
        if record.key is None:
            continue
        if batch is not None and batch > finished.batch:
            found.add((record.partition, record.key))
        else:
            found.discard((record.partition, record.key))
    return found, seen


def settled(records: Iterable[Record], finished: Finished, keys: Collection[Key]) -> dict[Key, bytes | None]:
    """The last values of these keys that are not of an unfinished batch; None where that was a deletion."""
    found: dict[Key, bytes | None] = {}
    for record in records:
        if record.key is None or (record.partition, record.key) not in keys:
            continue
        batch = batch_of(record, finished.query)
        if batch is None or batch <= finished.batch:
            found[record.partition, record.key] = record.value
    return found
