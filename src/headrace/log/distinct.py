"""Records without their repeats.

In live mode a query that crashed writes some results again. Each result carries an id (the header `headrace.id`) that
is made of what it came from, so that the same result has the same id, and a reader can drop what it has seen.

Ids are remembered for each partition, the last `within` of them: a repeat is recognised as long as no more than that
many other records lie between it and the first. A crash repeats at most what a batch of the live mode had written, so
`within` has to be larger than that. What is remembered ends with the reader; records without an id all pass.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from headrace.log.consumer import Record
from headrace.names import HEADER_ID

WITHIN = 100_000


def distinct(records: Iterable[Record], within: int = WITHIN) -> Iterator[Record]:
    """The records whose id is not among the last `within` of their partition, in their order."""
    seen: dict[tuple[str, int], OrderedDict[bytes, None]] = {}
    for record in records:
        identity = next((value for name, value in record.headers if name == HEADER_ID), None)
        if identity is not None:
            ids = seen.setdefault((record.topic, record.partition), OrderedDict())
            if identity in ids:
                continue
            ids[identity] = None
            if len(ids) > within:
                ids.popitem(last=False)
        yield record
