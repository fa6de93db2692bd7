"""What a live query has written to its topic after its checkpoint: records of a batch that was begun and not finished.

Each record of a live query has the id that Spark gave the query, and the batch that wrote it, in the header
`headrace.batch`. Batches follow one another, so in a partition no record before one of a finished batch is of an
unfinished batch. A look begins with the last `FIRST_LOOK` records and takes `FURTHER` times as many as long as it has
to, so at most a seventh is read twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headrace import names
from headrace.engine.checkpoint import Finished
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.topic import PartitionDescription, describe_partitions

FIRST_LOOK = 2_000
FURTHER = 8


def records(connection: Connection, topic: str, finished: Finished, since: Mapping[int, int]) -> list[Record]:
    """Those records, in order within each partition. None is before the offset that `since` has for its partition."""
    places = describe_partitions(connection, topic)
    found: dict[int, list[Record]] = {}

    def look(seen: Iterable[Record]) -> set[int]:
        found_here, enough = of(seen, finished)
        found.update(found_here)
        return enough

    look_back(connection, topic, places, look, since)
    return [record for partition in sorted(found) for record in found[partition]]


def of(seen: Iterable[Record], finished: Finished) -> tuple[dict[int, list[Record]], set[int]]:
    """The records of unfinished batches among these, by partition, and the partitions where no earlier one can be."""
    found: dict[int, list[Record]] = {}
    enough: set[int] = set()
    for record in seen:
        batch = batch_of(record, finished.query)
        mine = found.setdefault(record.partition, [])
        if batch is None:
            continue
        if batch > finished.batch:
            mine.append(record)
        else:
            enough.add(record.partition)
    return found, enough


def batch_of(record: Record, query: str) -> int | None:
    """The batch of this query that wrote a record; None when anybody else did."""
    of, _, batch = (record.header(names.HEADER_BATCH) or "").rpartition(":")
    return int(batch) if of == query and batch.isdecimal() else None


def look_back(
    connection: Connection,
    topic: str,
    places: Sequence[PartitionDescription],
    look: Callable[[Iterable[Record]], set[int]],
    since: Mapping[int, int] | None = None,
) -> None:
    """Show the last records of the partitions, ever more of them, until `look` names a partition as seen enough of, or
    its beginning, or what `since` says of it, is reached."""
    size = FIRST_LOOK
    least = {place.partition: max(place.first, (since or {}).get(place.partition, 0)) for place in places}
    while places:
        start = {place.partition: max(least[place.partition], place.next - size) for place in places}
        seen = look(read(connection, topic, start=start))
        places = [p for p in places if p.partition not in seen and start[p.partition] > least[p.partition]]
        size *= FURTHER
