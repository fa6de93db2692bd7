"""Several ways to do one thing, timed in turn: a cold round, then warm ones, of which the median counts.

The ways take turns within a round, so that what else the machine does meets all of them alike. The first round pays for
loading and compiling classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from bench.ground import note


@dataclass(frozen=True)
class Speed:
    """Events a second."""

    cold: int
    warm: int


def rounds(ways: Mapping[str, Callable[[], None]], *, events: int, warm: int) -> dict[str, Speed]:
    """How many of `events` a second each way does, over one cold round and `warm` warm ones."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(1 + warm):
        for name, run in ways.items():
            begun = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - begun)
            note(f"{'warm' if number else 'cold'} {name}: {events / taken[name][-1]:,.0f} events/s")
    return {name: Speed(round(events / times[0]), round(events / median(times[1:]))) for name, times in taken.items()}
