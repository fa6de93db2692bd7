"""Loops that stand still: what runs and does not get on, from what it has told about itself.

The words are those of `headrace status` and of the console (engine/health.py), for queries, captures and followers
alike: one that makes no progress hangs in the step that it names; one that waits says for what; one whose process is
gone without having said goodbye gives no sign of life.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from headrace.doctor.finding import Finding, Weight
from headrace.engine.health import health, is_alive
from headrace.engine.progress import Progress

_DISEASES = {
    "still": (
        Weight.BROKEN,
        "its loop stands still",
        "look at what it names: a receiver, a database or a broker that does not answer; stop it and start it again, "
        "which loses nothing",
    ),
    "waiting": (Weight.AILING, "it waits, and goes on by itself", "bring back what it waits for"),
    "lost": (
        Weight.NOTE,
        "its process is gone, or does not run",
        "start it again: it goes on from where it was; if nobody killed it, look at the machine's memory and disk",
    ),
}


def examine(events: Iterable[Progress], now: datetime) -> Iterator[Finding]:
    """The last event of everything that runs beside an app or has run."""
    for one in events:
        found = health(one, now, is_alive(one))
        if found.word in _DISEASES:
            weight, disease, remedy = _DISEASES[found.word]
            yield Finding(weight, one.query, disease, found.sentence, remedy)
