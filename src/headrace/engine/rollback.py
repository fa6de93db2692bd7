"""The topic of a live view is taken back to where the query's checkpoint is, before the query starts.

A live query writes as records come, and keeps its state only where a batch ends. So after a crash or a stop the topic
is ahead of the state, by what the unfinished batch has written. That batch is run again, and need not take the same
course: rows of several partitions come in another order. What the first run has told and the second does not would
stand in the view for ever.

So every key whose last record is of an unfinished batch gets the value that it had before: that of its last record of a
finished batch or of anybody else, or none. Then the topic says what the state says, and whatever the second run tells
leads to the right view. Each record of a live view has the id of its query and its batch in the header
`headrace.batch`; those of other checkpoints are anybody else's, so that a deleted one takes nothing with it.

**Readers** see rows of the last minutes go back and come again. What is written here has no header, goes to the
partition of the record that it follows, and is in the log before the query starts.

**A crash** in between is harmless: a key that was taken back ends in a record that needs nothing, and the next start
does the others.

**The cost** where nothing is to be done is a look at the end of every partition, back to the last record of a finished
batch. Where there are keys to take back, a second look goes back from the end until each has its value before; for a
key that had none that is the whole partition. Each look begins with the last `FIRST_LOOK` records and takes
`FURTHER` times as many as long as it has to, so at most a seventh is read twice. In memory are only those keys and
their values.

**Limits.** Compaction may have taken a value before: a view's topic is made so that it leaves the last day alone
(`log/topic.py`). What an executor still writes when it outlives its driver comes too late to be found. A checkpoint
that is not on a file system cannot be asked, and then nothing is taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace import names
from headrace.engine.checkpoint import Finished
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.producer import Producer
from headrace.log.topic import PartitionDescription, describe_partitions

FIRST_LOOK = 2_000
FURTHER = 8

Key: TypeAlias = tuple[int, bytes]
"""A key in a partition."""


@dataclass(frozen=True, slots=True)
class Change:
    """The value that a key had before; without one it had none."""

    partition: int
    key: bytes
    value: bytes | None


def due(connection: Connection, topic: str, finished: Finished) -> list[Change]:
    """What has to be written so that the topic says what it said when the batch was finished."""
    places = describe_partitions(connection, topic)
    touched: set[Key] = set()

    def ends(records: Iterable[Record]) -> set[int]:
        found, seen = unfinished(records, finished)
        touched.update(found)
        return seen

    _look_back(connection, topic, places, ends)
    before: dict[Key, bytes | None] = {}

    def values(records: Iterable[Record]) -> set[int]:
        before.update(settled(records, finished, touched))
        missing = {partition for partition, key in touched if (partition, key) not in before}
        return {place.partition for place in places} - missing

    hit = {partition for partition, _ in touched}
    _look_back(connection, topic, [place for place in places if place.partition in hit], values)
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
        batch = _batch(record, finished.query)
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
        batch = _batch(record, finished.query)
        if batch is None or batch <= finished.batch:
            found[record.partition, record.key] = record.value
    return found


def _look_back(
    connection: Connection,
    topic: str,
    places: Sequence[PartitionDescription],
    look: Callable[[Iterable[Record]], set[int]],
) -> None:
    """Show the last records of the partitions, ever more of them, until `look` names a partition as seen enough of, or
    its beginning is reached."""
    size = FIRST_LOOK
    while places:
        start = {place.partition: max(place.first, place.next - size) for place in places}
        seen = look(read(connection, topic, start=start))
        places = [p for p in places if p.partition not in seen and start[p.partition] > p.first]
        size *= FURTHER


def _batch(record: Record, query: str) -> int | None:
    """The batch of this query that wrote a record; None when anybody else did."""
    of, _, batch = (record.header(names.HEADER_BATCH) or "").rpartition(":")
    return int(batch) if of == query and batch.isdecimal() else None
