"""What the processes of an app have written about themselves, read as it grows.

Each progress file (engine/progress.py) is read from where the last look ended, so a look costs what was written since.
Of every query the last event is kept whole, the last `POINTS` as points of a chart, and the last `BATCHES` batches; a
console that stays open for days holds no more than that.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from headrace.engine import progress
from headrace.engine.progress import Progress
from headrace.settings import Settings

POINTS = 600
BATCHES = 120
FIRST_BYTES = 400_000


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
class Query:
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


class Trail:
    """The progress files of one app; `look` from one thread at a time, `queries` from any."""

    def __init__(self, settings: Settings, app: str) -> None:
        self._directory = progress.directory(settings, app)
        self._read: dict[str, tuple[int, int]] = {}
        self.queries: dict[str, Query] = {}

    def look(self) -> None:
        """Read what was written since the last look."""
        files = sorted(self._directory.glob("*.jsonl")) if self._directory.is_dir() else []
        for file in files:
            known = self.queries.get(file.stem)
            for event in self._events(file, known.last.at if known else ""):
                self.queries.setdefault(event.query, Query(event)).take(event)

    def _events(self, file: Path, known: str) -> list[Progress]:
        """What was written since; of a file that was cut, and so is read again, what is newer than `known`."""
        try:
            with file.open("rb") as opened:
                found = opened.seek(0, 2)
                inode = file.stat().st_ino
                before, offset = self._read.get(file.name, (0, 0))
                again = before != inode or found < offset  # a file that was cut is another file
                if again:
                    offset = max(0, found - FIRST_BYTES)
                opened.seek(offset)
                text = opened.read(found - offset)
        except OSError:
            return []
        whole = text.rfind(b"\n") + 1
        self._read[file.name] = inode, offset + whole
        events = [event for line in text[:whole].splitlines() if (event := _event(line)) is not None]
        return [event for event in events if event.at > known] if again else events


def seconds(iso: str | None) -> float | None:
    """A time as seconds since 1970."""
    try:
        return datetime.fromisoformat(iso).timestamp() if iso else None
    except ValueError:
        return None


def _event(line: bytes) -> Progress | None:
    try:
        return Progress(**json.loads(line))
    except (ValueError, TypeError):
        return None
