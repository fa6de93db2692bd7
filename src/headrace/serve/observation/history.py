"""What is known of one query or follower: its last event, and the last minutes as points of a chart.

The last `POINTS` events are kept as points and the last `BATCHES` batches, so what stays open for days holds no more
than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headrace.engine.progress import Progress

POINTS = 600
BATCHES = 120


@dataclass(frozen=True, slots=True)
class Point:
    """A query at one moment; times are seconds since 1970."""

    at: float
    per_second: float
    out_per_second: float
    latency: float | None
    latency_p99: float | None
    behind: int
    dead: int
    late: int
    state_bytes: int | None
    watermark: float | None
    event_time: float | None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that has ended: when it was seen, how long it took, and the milliseconds of its phases."""

    number: int
    at: float
    milliseconds: int
    phases: Mapping[str, int]


@dataclass
class History:
    """One query or follower: its last event, and what led to it."""

    last: Progress
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=POINTS))
    batches: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES))

    def take(self, event: Progress) -> None:
        """Take the next event."""
        if event.pid != self.last.pid or event.started_at != self.last.started_at:
            self.batches.clear()
        self.last = event
        at = seconds(event.at) or 0.0
        self.points.append(
            Point(
                at,
                event.rows_per_second,
                event.rows_out_per_second,
                event.latency_p50_ms,
                event.latency_p99_ms,
                sum(event.lag.values()),
                event.dead,
                event.late,
                event.state_bytes,
                seconds(event.watermark),
                seconds(event.event_time),
            )
        )
        if event.batch_ms is not None and (not self.batches or self.batches[-1].number != event.batch):
            self.batches.append(Batch(event.batch, at, event.batch_ms, dict(event.phases)))


def seconds(iso: str | None) -> float | None:
    """A time as seconds since 1970."""
    try:
        return datetime.fromisoformat(iso).timestamp() if iso else None
    except ValueError:
        return None
