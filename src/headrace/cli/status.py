"""How the queries and followers are doing: one word and one sentence each, from the progress files of the last run.

The files tell also of a run that has ended or was killed. Nothing here talks to Kafka or Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli import terminal
from headrace.cli.place import HERE, AsJson, Directory, load_app, settings_at
from headrace.engine import progress
from headrace.engine.health import health, is_alive
from headrace.engine.progress import Progress
from headrace.settings import Settings

WATCH_S = 1.0
_HEADER = ("query", "mode", "events", "/s", "behind", "dead", "late", "repeats", "event time", "health")


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
        sentence = terminal.safe(health(one, now, is_alive(one)).sentence)
        told.append(f"{one.query}: {sentence}, {', '.join(counts)}")
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
