"""Queries that fall behind, and why, from what they have told about themselves.

A lag that grows has one of a few causes, each with its own sign: one partition that is far behind the others (skew: a
hot key, or too few keys), all partitions behind while the query takes in as much as it can (too slow an operator, or
too few partitions to work side by side), batches that take long though little comes in, and state that only grows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median

from headrace.doctor.finding import Finding, Weight
from headrace.engine.progress import Progress

LEAST_SECONDS = 10.0
LEAST_LAG = 1_000
SKEW = 10
SLOW_BATCH_MS = 10_000
FEW_ROWS_A_SECOND = 100
GROWTH = 4
LEAST_BYTES = 64 * 1024 * 1024


def examine(history: Sequence[Progress]) -> Iterator[Finding]:
    """One query, by its last events, the oldest first."""
    running = _last_run(history)
    if len(running) < 2:
        return
    first, last = running[0], running[-1]
    if last.state == "failed":
        yield Finding(
            Weight.BROKEN, last.query, "the query has failed", (last.error or "no reason was written"), "see the reason"
        )
        return
    seconds = (_moment(last.at) - _moment(first.at)).total_seconds()
    if seconds < LEAST_SECONDS:
        return
    yield from _lag(first, last, seconds)
    rows = (last.rows_in - first.rows_in) / seconds
    if last.mode == "exact" and (last.batch_ms or 0) > SLOW_BATCH_MS and rows < FEW_ROWS_A_SECOND:
        yield Finding(
            Weight.AILING,
            last.query,
            "batches take long though little comes in",
            f"the last one took {(last.batch_ms or 0) / 1000:.1f} s, at {rows:.0f} rows a second",
            "look where checkpoints are written: every batch waits for that place, and feels it when it is slow",
        )
    then, now = first.state_bytes or 0, last.state_bytes or 0
    if now > LEAST_BYTES and now > GROWTH * max(then, 1):
        yield Finding(
            Weight.AILING,
            last.query,
            "the state only grows",
            f"{then:,} bytes {seconds:.0f} s ago, {now:,} now",
            "`headrace state` says which operator holds it; a shorter `within`, `lateness` or window lets it forget"
            " sooner, and while the watermark stands still it forgets nothing",
        )


def _lag(first: Progress, last: Progress, seconds: float) -> Iterator[Finding]:
    before, now = sum(first.lag.values()), sum(last.lag.values())
    if now < LEAST_LAG or now <= before:
        return
    rate = (last.rows_in - first.rows_in) / seconds
    evidence = f"{before:,} records behind {seconds:.0f} s ago, {now:,} now; it takes in {rate:,.0f} a second"
    behind = sorted(last.lag.values())
    worst = max(last.lag, key=lambda place: last.lag[place])
    others = median(behind[:-1]) if len(behind) > 1 else 0
    if len(behind) > 1 and behind[-1] > SKEW * max(others, 1):
        yield Finding(
            Weight.AILING,
            last.query,
            "it falls behind in one partition: the keys are skewed",
            f"{evidence}; {worst} alone is {behind[-1]:,} behind, the others {others:,.0f}",
            "find the hot key with `headrace topic tail`, and spread it: write a finer key, or aggregate in two steps",
        )
        return
    few = len(behind) < 2
    yield Finding(
        Weight.AILING,
        last.query,
        "it falls behind" + (": one partition is read by one task" if few else " in all partitions"),
        evidence,
        "more `partitions=` let more tasks read"
        if few
        else "give Spark more cores, or make the query lighter: `headrace state` shows which operator holds much",
    )


def _last_run(history: Sequence[Progress]) -> list[Progress]:
    """The events of the last run that are not of its start."""
    if not history:
        return []
    started = history[-1].started_at
    return [one for one in history if one.started_at == started and one.state != "starting"]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
