"""What a bench prints: a JSON object a line on standard output, and a table for people on standard error.

`ratio` is ours ÷ peer, or for a time peer ÷ ours: higher is better. `goal` is the ratio that was asked for, and
`goal_<figure>` the bound of that figure: a time or a size may not be above it, a rate not below. `met` says whether all
of them hold, and is left out where nothing was asked for. `load` is the machine's load average of the last minute at
the end of the measurement, and `stolen` the part of its cores, in percent, that the host of a virtual machine gave to
others since the result before. Figures that do not apply are left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import psutil
from rich.console import Console
from rich.table import Table


def load_average() -> float:
    """The load of the last minute."""
    return round(os.getloadavg()[0], 2)


def stolen() -> float | None:
    """The part of the cores that the host gave to others since the last call, or since this module was imported; None
    where the system does not say."""
    return getattr(psutil.cpu_times_percent(), "steal", None)


psutil.cpu_times_percent()


@dataclass(frozen=True, kw_only=True)
class Result:
    """One measurement."""

    case: str
    mode: str
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    events_per_second: int | None = None
    events_per_cpu_second: int | None = None
    cold_events_per_second: int | None = None
    peer: str | None = None
    peer_p50_ms: float | None = None
    peer_events_per_second: int | None = None
    peer_events_per_cpu_second: int | None = None
    rss_mb: float | None = None
    peer_rss_mb: float | None = None
    ratio: float | None = None
    goal: float | None = None
    goal_p50_ms: float | None = None
    goal_p99_ms: float | None = None
    goal_events_per_second: int | None = None
    goal_rss_mb: float | None = None
    events: int
    lost: int | None = None
    duplicates: int | None = None
    batches: int | None = None
    live_batch: str | None = None
    load: float = field(default_factory=load_average)
    stolen: float | None = field(default_factory=stolen)

    @property
    def met(self) -> bool | None:
        """Whether every goal is met; None without one. A figure that could not be measured does not meet its goal."""
        most = [(self.p50_ms, self.goal_p50_ms), (self.p99_ms, self.goal_p99_ms), (self.rss_mb, self.goal_rss_mb)]
        least = [(self.ratio, self.goal), (self.events_per_second, self.goal_events_per_second)]
        answers = [figure is not None and figure <= goal for figure, goal in most if goal is not None]
        answers += [figure is not None and figure >= goal for figure, goal in least if goal is not None]
        return all(answers) if answers else None

    def figures(self) -> dict[str, str | float | bool]:
        """What applies, in order."""
        values = {one.name: getattr(self, one.name) for one in fields(self)} | {"met": self.met}
        return {name: value for name, value in values.items() if value is not None}


def print_result(result: Result) -> None:
    """The result as its JSON line."""
    print(json.dumps(result.figures(), ensure_ascii=False), flush=True)


def print_table(results: Sequence[Result], note: str) -> None:
    """The results side by side, with the note below them."""
    table = Table(caption=note, caption_justify="left")
    table.add_column("")
    for result in results:
        table.add_column(f"{result.case}\n{result.mode}", justify="right")
    figures = [result.figures() for result in results]
    names = [one.name for one in fields(Result)] + ["met"]
    for name in names:
        if name not in ("case", "mode") and any(name in one for one in figures):
            table.add_row(name, *(_cell(one.get(name)) for one in figures))
    Console(stderr=True).print(table)


def _cell(value: str | float | bool | None) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case _:
            return f"{value:,}"
