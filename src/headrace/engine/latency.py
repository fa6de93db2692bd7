"""How long a query takes: from the time of a record that it reads to the time at which its result is in the log.

The kernel counts the records that a query has written in buckets of milliseconds (its Latencies), from the beginning of
the run. What was counted in the last `WINDOW_S` seconds tells the median and the 99th percentile; a query that has
written nothing in that time tells none. A bucket is an eighth of its value wide, and its middle is told.

The time of a record is the one that it has in Kafka. Live, a result is measured by its own such time; exact, by the end
of the transaction, for it is not seen before. A result that takes several records at once counts from the mean of their
times; one that was brought forth by time alone is not measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import zip_longest

WINDOW_S = 10.0
_FINE = 8


class Latency:
    """The latencies of one query, looked at about once a second."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Sequence[int]]] = deque([(0.0, ())])

    def look(self, now: float, counts: Sequence[int]) -> tuple[float, float] | None:
        """Take the counts of this moment; the median and the 99th percentile of the last seconds in milliseconds."""
        self._seen.append((now, counts))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW_S:
            self._seen.popleft()
        fresh = [after - before for after, before in zip_longest(counts, self._seen[0][1], fillvalue=0)]
        return None if sum(fresh) <= 0 else (percentile(fresh, 0.5), percentile(fresh, 0.99))


def percentile(counts: Sequence[int], share: float) -> float:
    """The milliseconds below which this share of what was counted is."""
    wanted, passed = share * sum(counts), 0
    for bucket, count in enumerate(counts):
        passed += count
        if count and passed >= wanted:
            return (least(bucket) + least(bucket + 1) - 1) / 2
    return 0.0


def least(bucket: int) -> int:
    """The least number of milliseconds of a bucket."""
    if bucket < 2 * _FINE:
        return bucket
    power = bucket // _FINE
    return (bucket - power * _FINE + _FINE) << (power - 1)
