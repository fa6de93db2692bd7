"""A version of a query, built from history at somebody's wish: `headrace replay` as a process of its own.

The process outlives the page and the console; what it says is in `<state>/runs/<app>/<query>.<version>.replay`, and the
page of the query shows the end of it. Nothing that is current changes: `headrace promote` makes a version current.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from starlette.requests import Request

from headrace.engine import progress, version
from headrace.errors import HeadraceError, ServeError
from headrace.graph.plan import Query
from headrace.names import versioned
from headrace.serve.console import act
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, button, card, text
from headrace.serve.console.frame import refreshing

SHOWN_BYTES = 3_000
_VALUE = "(event) => emit(event.target.value)"
_COMMAND = "from headrace.cli import main; main()"


def replay_card(backend: Backend, request: Request, query: Query) -> None:
    """The button, and what the last replay of the query has said."""
    wanted = [_next(backend, query)]

    def asked() -> None:
        chosen = wanted[0]
        trouble.set_text("")
        try:
            version.check_name(chosen)
        except HeadraceError as error:
            trouble.set_text(f"{error.code}: {error.what} {error.fix}")
            return
        of = versioned(query.node.name, chosen)
        act.ask(
            backend,
            request,
            action="replay",
            of=of,
            title=f"Replay {query.node.name} as {chosen}?",
            about="It reads what the log holds, in exact mode, in a process of its own with its own topic and "
            "checkpoint. What is current goes on and stays current; the machine has more to do meanwhile.",
            do=lambda: _start(backend, query, chosen),
        )

    with card("Replay", "a version of its own, built from the beginning of the log beside the current one"):
        with box("hr-row"):
            name = box("hr-input", "input", type="text", aria_label="Version", value=wanted[0])
            name.on("input", lambda event: wanted.__setitem__(0, str(event.args)), js_handler=_VALUE)
            button("Replay", asked, label=f"Replay {query.name}")
            trouble = text("", "hr-note", role="status")
        said = text("", "hr-code hr-wrap", "pre").style("margin-top: 12px; max-height: 240px")

    def refresh() -> None:
        found = _said(backend, query)
        said.set_visibility(bool(found))
        said.set_text(found)

    refreshing(refresh)


def _start(backend: Backend, query: Query, chosen: str) -> str:
    if backend.file is None or backend.file.parent.resolve() != backend.settings.directory.resolve():
        raise ServeError(
            "HR-548",
            "The console does not start a replay of an app that runs elsewhere than beside its file.",
            found=str(backend.settings.directory),
            fix=f"start it where the app runs: headrace replay app.py {query.node.name} --as {chosen}",
        )
    arguments = ["replay", str(backend.file.resolve()), query.node.name, "--as", chosen]
    arguments += ["--bootstrap", backend.connection.bootstrap]
    place = _place(backend, versioned(query.node.name, chosen))
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as out:
        subprocess.Popen(
            [sys.executable, "-c", _COMMAND, *arguments],
            cwd=backend.file.parent,
            env={**os.environ, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return f"{query.node.name} is being built as {chosen}"


def _next(backend: Backend, query: Query) -> str:
    """The first number that has no replay yet."""
    names = (f"v{number}" for number in range(2, 1000))
    taken = {query.node.version}
    return next(one for one in names if one not in taken and not _place(backend, f"{query.node.name}.{one}").exists())


def _place(backend: Backend, of: str) -> Path:
    return progress.directory(backend.settings, backend.graph.app) / f"{of}.replay"


def _said(backend: Backend, query: Query) -> str:
    """The end of what the newest replay has said, with its version."""
    there = progress.directory(backend.settings, backend.graph.app).glob(f"{query.node.name}.*.replay")
    try:
        newest = max(there, key=lambda file: file.stat().st_mtime, default=None)
        if newest is None:
            return ""
        with newest.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - SHOWN_BYTES))
            return f"{newest.stem}\n{file.read().decode('utf-8', 'replace')}"
    except OSError:
        return ""
