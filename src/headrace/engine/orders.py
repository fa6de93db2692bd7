"""What a run is asked to do with one of its queries or followers: stop it for a while, and start it again.

An order is a file beside the progress files, `<state>/runs/<app>/<query>.order`; the last one holds. The console writes
it, and a run looks at it several times a second. An order is for the run that it was given to, so one that is older
than the run means nothing to it.
"""

from __future__ import annotations

import json
from typing import Literal

from headrace.engine import progress
from headrace.settings import Settings

Wanted = Literal["running", "stopped"]


def give(settings: Settings, app: str, query: str, wanted: Wanted, started_at: str) -> None:
    """Ask the run that began at `started_at` to have the query running or stopped."""
    file = progress.directory(settings, app) / f"{query}.order"
    file.parent.mkdir(parents=True, exist_ok=True)
    making = file.with_suffix(".order.new")
    making.write_text(json.dumps({"wanted": wanted, "run": started_at}), encoding="utf-8")
    making.replace(file)


def wanted(settings: Settings, app: str, query: str, started_at: str) -> Wanted:
    """What the run that began at `started_at` is asked for."""
    file = progress.directory(settings, app) / f"{query}.order"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return "stopped" if (found["wanted"], found["run"]) == ("stopped", started_at) else "running"
    except (OSError, ValueError, TypeError, KeyError):
        return "running"
