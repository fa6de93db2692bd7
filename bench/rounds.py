"""Several ways to do one thing, timed in turn: a cold round, then warm ones, of which the median counts.

The ways take turns within a round, so that what else the machine does meets all of them alike. The first round pays for
loading and compiling classes. Beside the time on the clock stands the processor time of this process and all below it,
Spark and Kafka included: on a busy machine it says more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import psutil

from bench.ground import note


@dataclass(frozen=True)
class Speed:
    """Events a second: of the cold round, of the warm ones, and of the warm ones by processor time."""

    cold: int
    warm: int
    warm_by_cpu: int


def rounds(ways: Mapping[str, Callable[[], None]], *, events: int, warm: int) -> dict[str, Speed]:
    """How many of `events` a second each way does, over one cold round and `warm` warm ones."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(1 + warm):
        for name, run in ways.items():
            begun, used = time.perf_counter(), _cpu_seconds()
            run()
            taken[name].append((time.perf_counter() - begun, _cpu_seconds() - used))
            seconds, cpu = taken[name][-1]
            kind = "warm" if number else "cold"
            note(f"{kind} {name}: {events / seconds:,.0f} events/s, {seconds:.1f} s, {cpu:.1f} s of CPU")
    return {
        name: Speed(
            cold=round(events / times[0][0]),
            warm=round(events / median(seconds for seconds, _ in times[1:])),
            warm_by_cpu=round(events / median(cpu for _, cpu in times[1:])),
        )
        for name, times in taken.items()
    }


def _cpu_seconds() -> float:
    here = psutil.Process()
    times = [one.cpu_times() for one in (here, *here.children(recursive=True))]
    return sum(one.user + one.system for one in times)
