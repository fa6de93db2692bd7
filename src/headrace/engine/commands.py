"""Commands to a run: stop one of its queries or followers for a while, or start it again.

A command is a file beside the progress files, `<state>/runs/<app>/<query>.command`; the last one counts. The console
writes it, and the run reads it several times a second. A command names the run that it is for, so a later run ignores
it.
"""

from __future__ import annotations

import json
from typing import Literal

from headrace.engine import progress
from headrace.settings import Settings

Wanted = Literal["running", "stopped"]


def send(settings: Settings, app: str, query: str, wanted: Wanted, started_at: str) -> None:
    """Tell the run that began at `started_at` whether the query should be running or stopped."""
    file = progress.directory(settings, app) / f"{query}.command"
    file.parent.mkdir(parents=True, exist_ok=True)
    making = file.with_suffix(".command.new")
    making.write_text(json.dumps({"wanted": wanted, "run": started_at}), encoding="utf-8")
    making.replace(file)


def wanted(settings: Settings, app: str, query: str, started_at: str) -> Wanted:
    """What the last command says to the run that began at `started_at`; `running` when there is none for it."""
    file = progress.directory(settings, app) / f"{query}.command"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return "stopped" if (found["wanted"], found["run"]) == ("stopped", started_at) else "running"
    except (OSError, ValueError, TypeError, KeyError):
        return "running"
