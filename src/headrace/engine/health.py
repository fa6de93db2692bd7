"""How a query or follower is doing, in one word for programs and one sentence for people, from its last progress event.

A process that is gone, or that has written nothing for `SILENT_S` seconds, gives no sign of life. A process whose loop
has made no step for `STILL_S` seconds makes no progress, whatever else it says. A query keeps up while it needs no more
than `KEEPS_UP_S` seconds at its pace for what it has yet to read, and the oldest record that it has read and not
processed is no older than `OLD_S`. Nothing here talks to Kafka or Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import psutil

from headrace import duration
from headrace.engine.progress import Progress

SILENT_S = 30
STILL_S = 30
OLD_S = 60
KEEPS_UP_S = 5
_LOG_AWAY = "log unreachable since "


@dataclass(frozen=True)
class Health:
    """One word for programs, one sentence for people."""

    word: str
    sentence: str


def current(of: Progress) -> Health:
    """How it is doing at this moment."""
    return health(of, datetime.now(UTC), is_alive(of))


def health(of: Progress, now: datetime, alive: bool) -> Health:
    """How it was doing at the time `now`; `alive` tells whether its process runs."""
    if of.state == "failed":
        return Health("failed", f"failed: {_first(of.error or 'no reason was written')}")
    if of.state == "stopped":
        return Health("stopped", "stopped")
    if not alive or (now - _moment(of.at)).total_seconds() > SILENT_S:
        return Health("lost", f"no sign of life since {clock(of.at, now)}")
    return _alive(of, now)


def _alive(of: Progress, now: datetime) -> Health:
    if of.step and (now - _moment(of.step)).total_seconds() > STILL_S:
        return Health("still", f"no progress since {clock(of.step, now)}: {of.doing}")
    if of.state == "starting":
        return Health("starting", f"starting since {clock(of.started_at, now)}")
    if of.error:
        return Health("waiting", _waits_for(of.error, now))
    behind = sum(of.lag.values())
    if behind and of.oldest and (now - _moment(of.oldest)).total_seconds() > OLD_S and of.rows_per_second <= 0:
        return Health("behind", f"behind by {_events(behind)}, the oldest of {clock(of.oldest, now)}")
    return _pace(behind, of.rows_per_second)


def is_alive(of: Progress) -> bool:
    """Whether the process that wrote it still runs; a later one with the same pid does not count."""
    try:
        return psutil.Process(of.pid).create_time() <= _moment(of.started_at).timestamp() + 2
    except psutil.NoSuchProcess:
        return False


def clock(iso: str, now: datetime) -> str:
    """The local time of day, with the date when it was another day; text that is no time as it is."""
    try:
        moment, today = _moment(iso).astimezone(), now.astimezone().date()
    except ValueError:
        return iso
    return f"{moment:%H:%M}" if moment.date() == today else f"{moment:%Y-%m-%d %H:%M}"


def _pace(behind: int, per_second: float) -> Health:
    if behind == 0 or behind <= per_second * KEEPS_UP_S:
        return Health("keeping-up", "keeping up")
    events = _events(behind)
    if per_second <= 0:
        return Health("behind", f"behind by {events}, and none is being read")
    left = duration.describe(round(behind / per_second) * 1000)
    return Health("behind", f"behind by {events}: {left} at this pace")


def _events(count: int) -> str:
    return f"{count:,} event{'' if count == 1 else 's'}"


def _waits_for(error: str, now: datetime) -> str:
    if error.startswith(_LOG_AWAY):
        return f"{_LOG_AWAY}{clock(error.removeprefix(_LOG_AWAY), now)}"
    return f"waiting: {_first(error)}"


def _moment(iso: str) -> datetime:
    return datetime.fromisoformat(iso)


def _first(text: str) -> str:
    """What an error says in one line: its second paragraph is the sentence, its first the code and title."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[1] if len(lines) > 1 and lines[0].startswith("HR-") else lines[0] if lines else text
