"""How the queries and followers are doing: one word and one sentence each, from the progress files of the last run.

The files tell also of a run that has ended or was killed: a process that is gone, or that has written nothing for
`SILENT_S` seconds, gives no sign of life. A query keeps up while it needs no more than `KEEPS_UP_S` seconds at its pace
for what it has yet to read. Nothing here talks to Kafka or Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace import duration
from headrace.cli import terminal
from headrace.cli.place import HERE, AsJson, Directory, load_app, settings_at
from headrace.engine import progress
from headrace.engine.progress import Progress
from headrace.settings import Settings

SILENT_S = 30
KEEPS_UP_S = 5
WATCH_S = 1.0
_HEADER = ("query", "mode", "events", "/s", "behind", "dead", "late", "repeats", "event time", "health")


@dataclass(frozen=True)
class Health:
    """One word for programs, one sentence for people."""

    word: str
    sentence: str


def health(of: Progress, now: datetime, alive: bool) -> Health:
    """How the query does; `alive` tells whether its process runs."""
    if of.state == "failed":
        return Health("failed", f"failed: {_first(of.error or 'no reason was written')}")
    if of.state == "stopped":
        return Health("stopped", "stopped")
    if not alive or (now - _moment(of.at)).total_seconds() > SILENT_S:
        return Health("lost", f"no sign of life since {_clock(of.at, now)}")
    if of.state == "starting":
        return Health("starting", f"starting since {_clock(of.started_at, now)}")
    if of.error:
        return Health("waiting", f"waiting: {_first(of.error)}")
    return _pace(sum(of.lag.values()), of.rows_per_second)


def is_alive(of: Progress) -> bool:
    """Whether the process that wrote it still runs; a later one with the same pid does not count."""
    try:
        return psutil.Process(of.pid).create_time() <= _moment(of.started_at).timestamp() + 2
    except psutil.NoSuchProcess:
        return False


def table(events: Sequence[Progress]) -> str:
    """The queries as text, a line each."""
    now = datetime.now(UTC)
    rows = [
        (
            one.query,
            one.mode,
            one.rows_in,
            one.rows_per_second,
            sum(one.lag.values()),
            one.dead,
            one.late,
            one.repeats,
            one.event_time,
            health(one, now, is_alive(one)).sentence,
        )
        for one in events
    ]
    return terminal.columns(rows, _HEADER)


def line(events: Iterable[Progress]) -> str:
    """The queries in one line."""
    now = datetime.now(UTC)
    told = []
    for one in events:
        counts = [f"{one.rows_in:,} events", f"{one.rows_per_second:,}/s"]
        counts += [f"{count:,} {name}" for name, count in (("dead", one.dead), ("late", one.late)) if count]
        told.append(f"{one.query}: {health(one, now, is_alive(one)).sentence}, {', '.join(counts)}")
    return " | ".join(told)


@contextmanager
def screen() -> Iterator[Callable[[Sequence[Progress]], None]]:
    """A function that shows the queries: a table in its place on a terminal, a line each time elsewhere."""
    console = Console()
    if not console.is_terminal:
        yield lambda events: terminal.out(line(events)) if events else None
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield lambda events: live.update(Text(terminal.safe(table(events), keep="\n")), refresh=True)


def status(
    app: Annotated[
        Path | None, typer.Argument(metavar="APP", show_default=False, help="The Python file that declares the app.")
    ] = None,
    name: Annotated[str | None, typer.Option("--app", help="The app by its name.", show_default=False)] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it until interrupted.")] = False,
    directory: Directory = HERE,
    as_json: AsJson = False,
) -> None:
    """Show how the queries and followers of the apps in a directory are doing, in one sentence each."""
    if app is not None and name is not None:
        raise typer.BadParameter("name the app by its file or by --app, not by both")
    if app is not None:
        directory, name = app, load_app(app).name
    settings = settings_at(directory)
    if not watch:
        _show(settings, name, as_json)
        return
    try:
        with screen() as shown:
            while True:
                if as_json:
                    _show(settings, name, as_json)
                else:
                    shown(_events(settings, name))
                time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return


def _show(settings: Settings, name: str | None, as_json: bool) -> None:
    events, now = _events(settings, name), datetime.now(UTC)
    if as_json:
        terminal.out_json([{**asdict(one), "health": asdict(health(one, now, is_alive(one)))} for one in events])
    elif not events:
        what = f"the app `{name}`" if name else "an app"
        terminal.note(f"no run of {what} is known in {settings.directory}; --directory names another place")
    for one in sorted({one.app for one in events}) if not as_json else ():
        terminal.out(f"app {one}\n{table([event for event in events if event.app == one])}")


def _events(settings: Settings, name: str | None) -> list[Progress]:
    return [event for app in ([name] if name else progress.apps(settings)) for event in progress.latest(settings, app)]


def _pace(behind: int, per_second: float) -> Health:
    if behind == 0 or behind <= per_second * KEEPS_UP_S:
        return Health("keeping-up", "keeping up")
    events = f"{behind:,} event{'' if behind == 1 else 's'}"
    if per_second <= 0:
        return Health("behind", f"behind by {events}, and none is being read")
    left = duration.describe(round(behind / per_second) * 1000)
    return Health("behind", f"behind by {events}: {left} at this pace")


def _clock(iso: str, now: datetime) -> str:
    """The local time of day, with the date when it was another day."""
    moment, today = _moment(iso).astimezone(), now.astimezone().date()
    return f"{moment:%H:%M}" if moment.date() == today else f"{moment:%Y-%m-%d %H:%M}"


def _moment(iso: str) -> datetime:
    return datetime.fromisoformat(iso)


def _first(text: str) -> str:
    """What an error says in one line: its second paragraph is the sentence, its first the code and title."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return terminal.safe(lines[1] if len(lines) > 1 and lines[0].startswith("HR-") else lines[0] if lines else text)
