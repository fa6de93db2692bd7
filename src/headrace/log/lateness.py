"""How late events come, as seen in a topic: what a delay of so much would have covered.

An event is as late as the newest event of its partition before it is ahead of it: that is how long a watermark would
have had to wait for it. Records that have no readable event time are counted and left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from headrace.log.consumer import Record

_MILLISECOND = timedelta(milliseconds=1)
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)


@dataclass(frozen=True)
class Lateness:
    """The lateness of each event in milliseconds, in order, and how many records told none."""

    milliseconds: tuple[int, ...]
    unread: int

    def delay(self, share: float) -> int:
        """The shortest delay, in milliseconds, that this share of the events does not exceed."""
        if not self.milliseconds:
            raise ValueError("no event was seen")
        place = max(0, -(-len(self.milliseconds) * round(share * 1_000_000) // 1_000_000) - 1)
        return self.milliseconds[min(place, len(self.milliseconds) - 1)]

    def covered(self, delay_ms: int) -> float:
        """The share of the events that a delay would have waited for."""
        return sum(1 for one in self.milliseconds if one <= delay_ms) / max(1, len(self.milliseconds))

    def histogram(self) -> list[tuple[int, int]]:
        """How many events were at most so late, in steps that double: (upper bound in milliseconds, events)."""
        counts = Counter(0 if one == 0 else 1 << (one - 1).bit_length() for one in self.milliseconds)
        bounds = [0] + [1 << n for n in range(max(counts, default=0).bit_length())]
        return [(bound, counts[bound]) for bound in bounds if bound <= max(counts, default=0)]


def observe(records: Iterable[Record], event_time: str) -> Lateness:
    """The lateness of the events in these records, whose event time is a column."""
    newest: dict[int, datetime] = {}
    seen: list[int] = []
    unread = 0
    for record in records:
        at = _time(record.value, event_time)
        if at is None:
            unread += 1
            continue
        ahead = newest.get(record.partition, at)
        newest[record.partition] = max(ahead, at)
        # Rounded up: a delay in milliseconds that covers the event is not shorter than it is late.
        seen.append(max(0, -((at - ahead) // _MILLISECOND)))
    return Lateness(tuple(sorted(seen)), unread)


def _time(value: bytes | None, column: str) -> datetime | None:
    try:
        found = json.loads(value or b"null")
        at = datetime.fromisoformat(found[column])
    except (ValueError, TypeError, KeyError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
