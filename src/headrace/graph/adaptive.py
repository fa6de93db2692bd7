"""A delay that follows how late events come.

    app.source("positions", schema=…, event_time="at", delay=hr.adaptive(0.99, least="1 second", most="5 minutes"))

The watermark stays as far behind the newest event as this share of the recent events was late, within the bounds. Until
a thousand events have been seen it stays at the upper one. A delay that shrinks never moves a watermark back, and one
that grows only holds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Adaptive:
    """What `hr.adaptive` gives; `app.source` reads it."""

    share: float
    least: str | timedelta
    most: str | timedelta


def adaptive(share: float, *, least: str | timedelta = "0 seconds", most: str | timedelta) -> Adaptive:
    """A delay that covers this share of the events, such as 0.99, from `least` to `most`."""
    return Adaptive(share, least, most)
