"""What a network does to events: repeats and disorder, by a seed, so that a failure can be run again."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

Event = Mapping[str, Any]


def duplicated(events: Sequence[Event], *, seed: int, share: float = 0.3, most: int = 3) -> list[Event]:
    """The events, of which about `share` come again up to `most` times, right behind the first."""
    random_ = random.Random(seed)
    out: list[Event] = []
    for event in events:
        out.extend([event] * (1 + (random_.randint(1, most) if random_.random() < share else 0)))
    return out


def shuffled(events: Sequence[Event], *, seed: int, at: str, by: timedelta) -> list[Event]:
    """The events in an order in which each is delayed by less than `by` of event time."""
    random_ = random.Random(seed)

    def arrival(event: Event) -> datetime:
        return event[at] + by * random_.random()

    return [event for _, event in sorted(((arrival(e), e) for e in events), key=lambda pair: pair[0])]
