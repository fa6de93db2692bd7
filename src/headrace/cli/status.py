"""How the queries and followers are doing: one word and one sentence each, from the progress files of the last run.

The files tell also of a run that has ended or was killed. Nothing here talks to Kafka or Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import structlog
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from headrace.cli import terminal
from headrace.cli.place import HERE, AsJson, Directory, load_app, settings_at
from headrace.engine import progress
from headrace.engine.health import current
from headrace.engine.progress import Progress
from headrace.serve.observation.progress_files import ProgressFiles
from headrace.settings import Settings

WATCH_S = 1.0
LINE_S = 5.0
_HEADER = ("query", "mode", "events", "/s", "behind", "dead", "late", "repeats", "event time", "health")

log = structlog.get_logger()


def table(events: Sequence[Progress]) -> str:
    """The queries as text, a line each."""
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
            current(one).sentence,
        )
        for one in events
    ]
    return terminal.columns(rows, _HEADER)


def line(events: Iterable[Progress]) -> str:
    """The queries in one line."""
    told = []
    for one in events:
        counts = [f"{one.rows_in:,} events", f"{one.rows_per_second:,}/s"]
        counts += [f"{count:,} {name}" for name, count in (("dead", one.dead), ("late", one.late)) if count]
        sentence = terminal.safe(current(one).sentence)
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


def printer(*, as_json: bool) -> Callable[[Sequence[Progress]], None]:
    """A function that tells of the queries: as JSON each event once, else in a line now and then."""
    printed: dict[str, str] = {}
    told = -LINE_S

    def show(events: Sequence[Progress]) -> None:
        nonlocal told
        if as_json:
            for event in events:
                if printed.get(event.query) != event.at:
                    printed[event.query] = event.at
                    terminal.out_json(asdict(event))
        elif events and time.monotonic() - told >= LINE_S:
            told = time.monotonic()
            log.info(line(events))

    return show


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
    apps = _Apps(settings_at(directory))
    if not watch:
        _show(apps, name, as_json)
        return
    try:
        with screen() as shown:
            while True:
                if as_json:
                    _show(apps, name, as_json)
                else:
                    shown(apps.latest(name))
                time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return


def _show(apps: _Apps, name: str | None, as_json: bool) -> None:
    events = apps.latest(name)
    if as_json:
        terminal.out_json([{**asdict(one), "health": asdict(current(one))} for one in events])
    elif not events:
        what = f"the app `{name}`" if name else "an app"
        terminal.note(f"no run of {what} is known in {apps.settings.directory}; --directory names another place")
    for one in sorted({one.app for one in events}) if not as_json else ():
        terminal.out(f"app {one}\n{table([event for event in events if event.app == one])}")


class _Apps:
    """The apps that have run beside these settings, and what their files say; each look reads what is new."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._files: dict[str, ProgressFiles] = {}

    def latest(self, name: str | None) -> list[Progress]:
        """The last event of every query of the app, or of all."""
        found: list[Progress] = []
        for app in [name] if name else progress.apps(self.settings):
            files = self._files.setdefault(app, ProgressFiles(self.settings, app))
            files.look()
            found += files.latest
        return found
