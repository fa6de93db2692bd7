"""How long a query takes: from the time of a record that it reads to the time at which its result is in the log.

The kernel counts the records that a query has written in buckets of milliseconds (its Latencies), from the beginning of
the run. What was counted in the last `WINDOW_S` seconds gives the median and the 99th percentile; a query that has
written nothing in that time has none. A bucket is an eighth of its value wide, and the middle of the bucket is given.

The time of a record is its timestamp in Kafka. Live, the end is the timestamp of the result; exact, it is the end of
the transaction, because the result is not visible before. A result of several records counts from the mean of their
times; a result that only the passing of time has caused is not measured. Rows go to a Python function in groups, and
behind it each counts like the last of its group.
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
