"""The progress of a running query: frozen events in a file that other processes read.

Each query of a run appends one JSON line a second to `<state>/runs/<app>/<query>.jsonl`; `headrace status` and the
console read the last ones. The file is local on purpose: it still says what is wrong when the log cannot be reached. It
is cut to its second half when it is larger than `MOST_BYTES`. Counts are of this run; rows that are read again after a
crash are counted again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from headrace.engine.lines import append
from headrace.settings import Settings

MOST_BYTES = 4_000_000
State = Literal["starting", "running", "stopped", "failed"]


@dataclass(frozen=True)
class Progress:
    """One query at one moment. Times are ISO-8601 in UTC; `lag` is in records, by `topic[partition]`.

    `state_rows` and `state_bytes` are what Spark's stores hold; `operators` says of each operator that counts them how
    many keys it remembers (a key once for each pane or slice of time) and in how many bytes; `hot` names of an operator
    the key, as JSON, that a large `share` of the rows has, by a sample. Of a captured table, `wal`
    says how many bytes of its log the database keeps (`held`), and how far capture is `behind` in bytes and in
    `seconds`; `skipped` counts changes of a table that is paused.
    `rows_out` are records that are in the log; `latency_p50_ms` and `latency_p99_ms` say how long those of the last
    seconds took (engine/latency.py).
    Of a follower, `oldest` is the time of the oldest record that it has read and not applied, `doing` the step of its
    loop in words, and `step` when that step began: the loop itself says so, and not the thread that writes this.
    `phases` are the milliseconds of the last batch by Spark's names for its phases. Of a failure, `place` is the line
    of the app that it happened in, as `file:line`, `record` where the row at hand came from, as
    `topic[partition]@offset`, and `trace` what Spark said of it, shortened.
    """

    app: str
    query: str
    mode: str
    state: State
    at: str
    started_at: str
    pid: int
    batch: int = -1
    batch_ms: int | None = None
    rows_in: int = 0
    rows_per_second: float = 0.0
    rows_out: int = 0
    rows_out_per_second: float = 0.0
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    watermark: str | None = None
    event_time: str | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    dead: int = 0
    late: int = 0
    repeats: int = 0
    state_rows: int | None = None
    state_bytes: int | None = None
    operators: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    hot: Mapping[str, Mapping[str, str | float]] = field(default_factory=dict)
    skipped: int = 0
    wal: Mapping[str, float] = field(default_factory=dict)
    phases: Mapping[str, int] = field(default_factory=dict)
    oldest: str | None = None
    doing: str | None = None
    step: str | None = None
    error: str | None = None
    place: str | None = None
    record: str | None = None
    trace: str | None = None


def moment(seconds: float | None = None) -> str:
    """A time as events have it; none given, this moment."""
    at = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def directory(settings: Settings, app: str) -> Path:
    """Where the progress files of an app are."""
    return settings.state / "runs" / app


def write(settings: Settings, progress: Progress) -> str | None:
    """Append an event to the file of its query. When that is not possible, give the reason: a run goes on without
    it."""
    file = directory(settings, progress.app) / f"{progress.query}.jsonl"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        append(file, json.dumps(asdict(progress), separators=(",", ":")))
        if file.stat().st_size > MOST_BYTES:
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            shorter = file.with_suffix(".new")
            shorter.write_text("".join(lines[len(lines) // 2 :]), encoding="utf-8")
            shorter.replace(file)
    except OSError as error:
        return f"progress cannot be written to {file.parent}: {error.strerror or error}"
    return None


def history(settings: Settings, app: str, query: str, last: int = 600) -> list[Progress]:
    """The last events of a query, the oldest first; a line that a crash cut off is skipped."""
    file = directory(settings, app) / f"{query}.jsonl"
    if not file.exists():
        return []
    events: list[Progress] = []
    for line in file.read_text(encoding="utf-8").splitlines()[-last:]:
        try:
            events.append(Progress(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return events


def latest(settings: Settings, app: str) -> list[Progress]:
    """The last event of every query of the app, by name."""
    files = sorted(directory(settings, app).glob("*.jsonl"))
    events = (history(settings, app, file.stem, last=2) for file in files)
    return [found[-1] for found in events if found]


def apps(settings: Settings) -> list[str]:
    """The apps that have run beside these settings."""
    runs = settings.state / "runs"
    return sorted(path.name for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
