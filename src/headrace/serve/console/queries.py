"""The queries: what they do batch by batch, where the time goes, their checkpoints, what went wrong; stop and start."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from nicegui import ui
from starlette.requests import Request

from headrace.engine import checkpoint, commands
from headrace.engine.commands import Wanted
from headrace.engine.health import clock, is_alive
from headrace.engine.progress import Progress
from headrace.errors import HeadraceError, Location, ServeError, title
from headrace.names import CAPTURE
from headrace.serve.console import act, chart, figure
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, button, card, link, set_tone, text, tone
from headrace.serve.console.frame import frame, refreshing
from headrace.serve.console.replay import replay_card
from headrace.serve.console.state import state_card
from headrace.serve.observation.history import History
from headrace.serve.observation.summary import FOLLOW

PHASES = ("addBatch", "queryPlanning", "latestOffset", "getBatch", "walCommit", "commitOffsets", "commitBatch")
_WORDS = {
    "addBatch": "compute",
    "queryPlanning": "plan",
    "latestOffset": "look",
    "getBatch": "prepare",
    "walCommit": "log offsets",
    "commitOffsets": "commit offsets",
    "commitBatch": "commit",
}
_STOPPING = (
    "It ends after what it is doing, the other queries go on, and its input waits in the log. Until it is started "
    "again, its results stand still.",
    "It ends after what it is applying, the other followers go on, and what comes waits in the log. Until it is "
    "started again, its store stands still.",
)
_STARTING = (
    "It goes on from its checkpoint, with everything that has come in the meantime.",
    "It goes on from the place that its store has recorded, with everything that has come in the meantime.",
)
_CODE = re.compile(r"\bHR-\d{3}\b")
_PLACE = re.compile(r"(?m)^\s*at (?P<file>[^\n]+?):(?P<line>\d+)\s*$")


def page(backend: Backend, request: Request) -> None:
    """The page `/queries`."""
    with frame(backend, request, "Queries", "/queries"):
        with card("Queries and followers", "stop and start one of a run; the others go on"):
            with box("hr-scroll").style("margin: 0 -18px -18px"), box("hr-table", "table", aria_label="Queries"):
                with box("", "thead"), box("", "tr"):
                    for name, classes in (
                        ("query", ""),
                        ("health", ""),
                        ("since", ""),
                        ("batch", "n"),
                        ("took", "n"),
                        ("", "n"),
                    ):
                        text(name, classes, "th", scope="col")
                body = box("", "tbody")
            empty = text(f"No query of {backend.graph.app} has run here yet.", "hr-empty", "div")
        _actions(backend)
    lines: dict[str, _Line] = {}

    def refresh() -> None:
        summaries = backend.observer.summaries()
        empty.set_visibility(not summaries)
        for one in summaries:
            query = backend.observer.histories[one.name]
            if one.name not in lines:
                with body:
                    lines[one.name] = _Line(backend, request, one.name, query)
            lines[one.name].show(query)

    refreshing(refresh)


class _Line:
    """A query in the table."""

    def __init__(self, backend: Backend, request: Request, name: str, query: History) -> None:
        self._backend = backend
        self._name = name
        with box("", "tr"):
            with box("", "td"):
                link(name, f"/queries/{name}")
                text(query.last.mode, "hr-chip").style("margin-left: 8px")
            with box("", "td"), box("hr-health") as self._health:
                box("hr-dot")
                self._sentence = text("", "t")
            self._since = text("", "hr-note", "td")
            self._batch, self._took = text("", "n", "td"), text("", "n", "td")
            with box("n", "td"):
                self._buttons = Buttons(backend, request, name)

    def show(self, query: History) -> None:
        health = self._backend.observer.summary(self._name, query).health
        set_tone(self._health, tone(health))
        self._sentence.set_text(health.sentence)
        self._since.set_text(clock(query.last.started_at, datetime.now(UTC)))
        self._batch.set_text(f"{query.last.batch:,}" if query.last.batch >= 0 else "–")
        self._took.set_text(figure.milliseconds(query.last.batch_ms))
        self._buttons.show(query.last)


class Buttons:
    """Stop and start a query while its run is alive."""

    def __init__(self, backend: Backend, request: Request, name: str) -> None:
        self._backend = backend
        self._request = request
        self._name = name
        with box("hr-row").style("justify-content: flex-end"):
            self._stop = button("Stop", lambda: self._ask("stopped"), "is-bad", f"Stop {name}")
            self._start = button("Start", lambda: self._ask("running"), "is-main", f"Start {name}")

    def show(self, last: Progress) -> None:
        can = last.mode != CAPTURE and last.state in ("running", "stopped") and is_alive(last)
        self._stop.set_visibility(can and last.state == "running")
        self._start.set_visibility(can and last.state == "stopped")

    def _ask(self, wanted: Wanted) -> None:
        backend, name = self._backend, self._name

        def do() -> str:
            last = backend.observer.histories[name].last
            if not is_alive(last):
                raise ServeError(
                    "HR-544",
                    f"The process that runs `{name}` is gone, so nobody can stop or start it.",
                    found=f"pid {last.pid}",
                    fix=f"start it again: {backend.command(last.mode)}",
                )
            commands.send(backend.settings, backend.graph.app, name, wanted, last.started_at)
            return f"{name} is being {'stopped' if wanted == 'stopped' else 'started'}"

        stopping = wanted == "stopped"
        follower = backend.observer.histories[name].last.mode == FOLLOW
        about = _STOPPING if stopping else _STARTING
        act.ask(
            backend,
            self._request,
            action="stop" if stopping else "start",
            of=name,
            title=f"Stop {name}?" if stopping else f"Start {name}?",
            about=about[follower],
            do=do,
        )


def one(backend: Backend, request: Request, name: str) -> None:
    """The page `/queries/<name>`."""
    planned, known = backend.observer.plan.get(name), backend.observer.histories.get(name)
    mode = known.last.mode if known else "" if planned else CAPTURE if name.endswith(f".{CAPTURE}") else FOLLOW
    kind = "query" if planned else {CAPTURE: "capture", FOLLOW: "follower"}.get(mode, "query")
    with frame(backend, request, name, "/queries", about=kind) as right:
        with right:
            with box("hr-health", role="status") as whole:
                box("hr-dot")
                sentence = text(f"not running; start it: {backend.command(mode)}", "t")
            buttons = Buttons(backend, request, name)
        failure = _Failure(backend, name)
        with box("hr-grid2"):
            flow = _flow(name)
            latency = _latency(name) if kind == "query" else None
        if kind == "query":
            with box("hr-grid2"):
                batches = _batches(name)
                state_card(backend, name)
            _checkpoint(backend, name)
        else:
            batches = None
        if planned is not None:
            with card("Path", "what runs in this query"), box("hr-row"):
                for step in (*planned.reads, *(node.name for node in planned.fused), planned.node.name):
                    link(step, f"/node/{step}")
                    if step != planned.node.name:
                        text("→", "hr-note")
            replay_card(backend, request, planned)

        def refresh() -> None:
            query = backend.observer.histories.get(name)
            if query is None:
                return
            health = backend.observer.summary(name, query).health
            set_tone(whole, tone(health))
            sentence.set_text(health.sentence)
            buttons.show(query.last)
            failure.show(query.last)
            for show in (flow, latency, batches):
                if show is not None:
                    show(query)

        refreshing(refresh)


def _flow(name: str) -> Callable[[History], None]:
    with card("Rows and lag", "rows a second, and not read yet"):
        lines = [chart.line("in/s", area=True), chart.line("out/s", colour=chart.COLOURS[2])]
        lines.append(chart.line("behind", colour=chart.COLOURS[1]))
        shown = chart.chart(chart.options(lines, legend=True), f"Rows a second of {name}")

    def show(query: History) -> None:
        points = tuple(query.points)
        chart.points(
            shown,
            [(p.at, p.per_second) for p in points],
            [(p.at, p.out_per_second) for p in points] if any(p.out_per_second for p in points) else [],
            [(p.at, p.behind) for p in points],
        )

    return show


def _latency(name: str) -> Callable[[History], None]:
    with card("Latency", "from a record to its result in the log"):
        lines = [chart.line("p50", area=True), chart.line("p99", colour=chart.COLOURS[1])]
        shown = chart.chart(chart.options(lines, legend=True, unit=" ms"), f"Latency of {name}")
        none = text("it has written nothing that can be measured yet", "hr-note", "div")

    def show(query: History) -> None:
        points = [point for point in tuple(query.points) if point.latency is not None]
        none.set_visibility(not points)
        chart.points(shown, [(p.at, p.latency) for p in points], [(p.at, p.latency_p99) for p in points])

    return show


def _batches(name: str) -> Callable[[History], None]:
    with card("Batches", "how long each of the last took, by phase"):
        series = [
            {"name": _WORDS[phase], "type": "bar", "stack": "batch", "barMaxWidth": 18, "data": []} for phase in PHASES
        ]
        shown = chart.chart(chart.options(series, time=False, legend=True, unit=" ms"), f"Batches of {name}")
        none = text("its batches have not ended yet: one of the live mode lasts minutes", "hr-note", "div")

    def show(query: History) -> None:
        batches = tuple(query.batches)[-40:]
        none.set_visibility(not batches)
        bars = [{"data": [batch.phases.get(phase, 0) for batch in batches]} for phase in PHASES]
        numbers = [str(batch.number) for batch in batches]
        shown.run_chart_method("setOption", {"xAxis": {"data": numbers}, "series": bars})

    return show


class _Failure:
    """What went wrong: what, where in the user's file, at which record; what Spark says of it is one click away."""

    def __init__(self, backend: Backend, name: str) -> None:
        self._where = backend.observer.plan[name].node.where if name in backend.observer.plan else None
        with box("hr-card", "section", role="alert") as self._card:
            with box("", "header"):
                self._title = text("", tag="h2")
                self._code = text("", "hr-chip is-bad")
            with box("hr-body"):
                self._what = text("", tag="div").style("font-size: 15px; overflow-wrap: anywhere")
                self._line = text("", "hr-code", "pre").style("margin-top: 12px")
                with box("hr-facts", "dl").style("margin: 12px 0 6px"):
                    self._facts = {}
                    for word in ("at", "record", "found", "fix"):
                        text(word, tag="dt")
                        self._facts[word] = text("", tag="dd")
                with box("hr-more", "details") as self._more:
                    text("What Spark says", tag="summary")
                    self._trace = text("", "hr-code", "pre")
        self._card.set_visibility(False)

    def show(self, last: Progress) -> None:
        self._card.set_visibility(last.error is not None)
        if last.error is None:
            return
        code = _CODE.search(last.error)
        place = _PLACE.search(f"at {last.place}" if last.place else last.error)
        found = Location(place["file"], int(place["line"])) if place else self._where
        told = title(code[0]) if code else "it waits"
        self._title.set_text(told[:1].upper() + told[1:])
        self._code.set_text(code[0] if code else "")
        self._code.set_visibility(code is not None)
        said = [line.strip() for line in last.error.splitlines() if line.strip()]
        self._what.set_text(said[1] if code and len(said) > 1 else said[0])
        self._line.set_text(f"{found.line} | {found.source}" if found and found.source else "")
        self._line.set_visibility(bool(found and found.source))
        self._facts["at"].set_text(str(found) if found else "–")
        self._facts["record"].set_text(last.record or "not one by itself: the row at hand was made of several records")
        for word in ("found", "fix"):
            said_of = re.search(rf"(?m)^\s*{word}: (.+)$", last.error)
            self._facts[word].set_text(said_of[1] if said_of else "–")
        self._trace.set_text(last.trace or "")
        self._more.set_visibility(last.trace is not None)


def _checkpoint(backend: Backend, name: str) -> None:
    with card("Checkpoint", "where it goes on after a stop or a crash"):
        facts = box("hr-facts", "dl")
        told = text("", "hr-note", "div")
    client = ui.context.client

    async def look() -> None:
        place = checkpoint.location(backend.settings, backend.graph.app, name)
        try:
            found = await asyncio.to_thread(_kept, place)
        except (HeadraceError, OSError, ValueError) as error:
            told.set_text(f"{place} cannot be read: {error}")
            return
        with client:
            facts.clear()
            with facts:
                for word, value in [("place", place), *found]:
                    text(word, tag="dt")
                    text(value, tag="dd")

    ui.timer(5.0, look)


def _kept(place: str) -> Sequence[tuple[str, str]]:
    directory = checkpoint.local(place)
    if directory is None:
        return [("kept", "outside this machine")]
    if not directory.is_dir():
        return [("kept", "nothing yet")]
    files = [file for file in directory.rglob("*") if file.is_file()]
    offsets = checkpoint.reached(place)
    told = [("size", f"{figure.size(sum(_size(file) for file in files))} in {len(files):,} files")]
    told += (
        [("next records", ", ".join(f"{t}[{p}]@{o:,}" for (t, p), o in sorted(offsets.items())[:12]))]
        if offsets
        else []
    )
    return told


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _actions(backend: Backend) -> None:
    """Who did what."""
    with card("Actions", "every stop, start, replay and put-back of this console, the newest first"):
        with box("hr-scroll").style("margin: 0 -18px -18px"), box("hr-table", "table", aria_label="Actions"):
            with box("", "thead"), box("", "tr"):
                for name in ("at", "who", "action", "of", "outcome"):
                    text(name, tag="th", scope="col")
            body = box("", "tbody")
        empty = text("Nobody has done anything yet.", "hr-empty", "div")
    known: list[object] = []

    def refresh() -> None:
        found = backend.audit.last()
        empty.set_visibility(not found)
        if found == known:
            return
        known[:] = found
        body.clear()
        with body:
            for one in found:
                with box("", "tr"):
                    text(clock(one.at, datetime.now(UTC)), "hr-note", "td")
                    text(f"{one.user} from {one.address}", tag="td")
                    text(one.action, tag="td")
                    text(one.of, tag="td")
                    text(one.outcome, tag="td")

    refreshing(refresh)
