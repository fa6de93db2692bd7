"""Writes the progress of the queries of a run, once a second (progress.py).

An event is made of what the kernel counts, of what Spark reports of the last batch, and of the event before: while a
query is being started again there is nothing to count, and the last counts stay.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from headrace.engine import progress
from headrace.engine.latency import Latency
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress, State
from headrace.engine.query import SupervisedQuery
from headrace.kernel.bridge import Gauge
from headrace.settings import Settings

HOT_SHARE = 0.2
HOT_SAMPLE = 200


class ProgressWriter:
    """Writes the events of one run; `last` holds the newest of each query.

    `trouble` is a problem of the run itself, and `unwritten` why the files cannot be written, as on a full disk. The
    next events name it, and are written when it is over.
    """

    def __init__(self, app: str, mode: Mode, settings: Settings) -> None:
        self.began = progress.moment()
        self.last: dict[str, Progress] = {}
        self.trouble: str | None = None
        self.unwritten: str | None = None
        self._app = app
        self._mode = mode
        self._settings = settings
        self._rates: dict[tuple[str, str], tuple[float, int]] = {}
        self._latencies: dict[str, Latency] = {}

    def write(
        self,
        running: SupervisedQuery,
        state: State,
        gauges: Sequence[Gauge],
        *,
        lag: dict[str, int] | None = None,
        away: str | None = None,
    ) -> None:
        """The next event of a query: how far it is behind, if that is known, and since when the log is `away`."""
        name = running.query.name
        gauges = [gauge for gauge in gauges if gauge.query == name]
        before = self.last.get(name)
        last = running.spark.lastProgress if running.spark else None
        rows = sum(g.rows for g in gauges) if gauges else before.rows_in if before else 0
        written = sum(g.written for g in gauges) if gauges else before.rows_out if before else 0
        counts = next((g.latencies for g in gauges if g.latencies), ())
        p50, p99 = self._latencies.setdefault(name, Latency()).look(time.monotonic(), counts) or (None, None)
        seen = [g.event_time_us for g in gauges if g.event_time_us is not None]
        state_operators = last.stateOperators if last else []
        waiting = f"log unreachable since {away}" if away else running.waiting or self.trouble or self.unwritten
        event = Progress(
            app=self._app,
            query=name,
            mode=str(self._mode),
            state=state,
            at=progress.moment(),
            started_at=self.began,
            pid=os.getpid(),
            batch=last.batchId if last else -1,
            batch_ms=last.batchDuration if last else None,
            rows_in=rows,
            rows_per_second=self._rate(name, "in", rows),
            rows_out=written,
            rows_out_per_second=self._rate(name, "out", written),
            latency_p50_ms=p50,
            latency_p99_ms=p99,
            watermark=(last.eventTime or {}).get("watermark") if last else None,
            event_time=progress.moment(max(seen) / 1e6) if seen else before.event_time if before else None,
            lag=lag if lag is not None else dict(before.lag) if before else {},
            dead=sum(g.dead for g in gauges) if gauges else before.dead if before else 0,
            late=sum(g.late for g in gauges) if gauges else before.late if before else 0,
            repeats=sum(g.repeats for g in gauges) if gauges else before.repeats if before else 0,
            state_rows=sum(o.numRowsTotal for o in state_operators) if state_operators else None,
            state_bytes=sum(o.memoryUsedBytes for o in state_operators) if state_operators else None,
            operators=_operators(gauges) or (before.operators if before else {}),
            hot=_hot(gauges) if gauges else before.hot if before else {},
            phases={name: int(ms) for name, ms in (last.durationMs or {}).items()} if last else {},
            error=str(running.error) if running.error else waiting,
            place=running.place,
            record=running.record,
            trace=running.trace,
        )
        self.last[name] = event
        self.unwritten = progress.write(self._settings, event)

    def _rate(self, name: str, way: str, rows: int) -> float:
        now = time.monotonic()
        then, before = self._rates.get((name, way), (now, rows))
        self._rates[name, way] = (now, rows)
        return round(max(0.0, (rows - before) / (now - then)), 1) if now > then else 0.0


def _operators(gauges: Sequence[Gauge]) -> dict[str, dict[str, int]]:
    """The keys and bytes that each operator remembers, over its partitions."""
    found: dict[str, dict[str, int]] = {}
    for gauge in gauges:
        if gauge.state_keys >= 0:
            of = found.setdefault(gauge.of, {"keys": 0, "bytes": 0})
            of["keys"] += gauge.state_keys
            of["bytes"] += gauge.state_bytes
    return found


def _hot(gauges: Sequence[Gauge]) -> dict[str, dict[str, str | float]]:
    """Of each operator the key that a large share of its rows has, if there is one."""
    noted: dict[str, dict[str, int]] = {}
    rows: dict[str, int] = {}
    for gauge in gauges:
        if gauge.hot is not None:
            keys = noted.setdefault(gauge.of, {})
            keys[gauge.hot.key] = keys.get(gauge.hot.key, 0) + gauge.hot.noted
            rows[gauge.of] = rows.get(gauge.of, 0) + gauge.hot.of
    found: dict[str, dict[str, str | float]] = {}
    for operator, keys in noted.items():
        key = max(keys, key=lambda one: keys[one])
        share = keys[key] / rows[operator]
        if rows[operator] >= HOT_SAMPLE and share >= HOT_SHARE:
            found[operator] = {"key": key, "share": round(share, 3)}
    return found
