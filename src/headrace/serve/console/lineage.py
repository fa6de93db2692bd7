"""The lineage with live numbers: what flows where, how fast, and what is stuck."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from starlette.requests import Request

from headrace.serve.console import drawing, figure
from headrace.serve.console.backend import Backend
from headrace.serve.console.drawing import HEIGHT, WIDTH, Box, Line
from headrace.serve.console.element import TONES, box, button, set_tone, text, tone
from headrace.serve.console.frame import frame, refreshing
from headrace.serve.guard import CONSOLE
from headrace.serve.observation.summary import FOLLOW, Summary

TALLEST = 640
_ZOOMS = (0.4, 0.55, 0.7, 0.85, 1.0, 1.2)
_FIT = """
const canvas = getHtmlElement(%d), host = canvas.parentElement;
const zoom = Math.max(.7, Math.min(1, host.clientWidth / %f));
canvas.dataset.zoom = zoom; canvas.style.zoom = zoom;
"""
_ZOOM = """
const canvas = getHtmlElement(%d), steps = %s, now = parseFloat(canvas.dataset.zoom || 1);
const next = %d > 0 ? steps.find((one) => one > now + .01) : steps.findLast((one) => one < now - .01);
if (next) { canvas.dataset.zoom = next; canvas.style.zoom = next; }
"""
_LEGEND = (
    ("input stream", "#5b7fd6"),
    ("table", "#8a63d2"),
    ("stream", "var(--accent)"),
    ("view", "var(--ok)"),
    ("follower", "#c27c2c"),
)


def page(backend: Backend, request: Request) -> None:
    """The page `/lineage`."""
    about = f"{len(backend.graph.sources)} inputs, {len(backend.graph.derived)} functions"
    with frame(backend, request, "Lineage", "/lineage", about=about), box("hr-card", "section"):
        with box("", "header"):
            with box("hr-legend hr-note"):
                for word, colour in _LEGEND:
                    text(word).style(f"--mark: {colour}")
            buttons = box("hr-row")
        show(backend, buttons)


def show(backend: Backend, buttons: ui.element | None = None, tallest: int | None = None) -> None:
    """The drawing, refreshed each second; `buttons` is where those for its size go."""
    drawn = drawing.draw(*drawing.flow(backend.graph))
    host = box("hr-lineage", tabindex="0", role="group", aria_label="Lineage: sources left, results right")
    if tallest is not None:
        host.style(f"max-height: {tallest}px")
    with host, box("hr-canvas").style(f"width: {drawn.width:.0f}px; height: {drawn.height:.0f}px") as canvas:
        refreshes: list[Callable[[dict[str, Summary]], None]] = []
        with box("", "svg", width=f"{drawn.width:.0f}", height=f"{drawn.height:.0f}", aria_hidden="true"):
            edges = [
                box("hr-edge fused" if line.fused else "hr-edge", "path", d=path)
                for line, path in zip(drawn.lines, drawn.paths, strict=True)
            ]
        for line, edge, (x, y) in zip(drawn.lines, edges, drawn.labels, strict=True):
            label = text("", "hr-edge-label").style(f"left: {x:.0f}px; top: {y:.0f}px")
            refreshes.append(_edge(backend, drawn.boxes, line, edge, label))
        for one in drawn.boxes:
            x, y = drawn.places[one.id]
            refreshes.append(_box(backend, one, x, y))
    if buttons is not None:
        with buttons:
            for sign, label in ((-1, "Smaller"), (1, "Larger")):
                button(
                    "−" if sign < 0 else "+",
                    lambda sign=sign: ui.run_javascript(_ZOOM % (canvas.id, list(_ZOOMS), sign)),
                    label=label,
                )
            button("Fit", lambda: ui.run_javascript(_FIT % (canvas.id, drawn.width)), label="Fit to the width")

    ui.timer(0.2, lambda: ui.run_javascript(_FIT % (canvas.id, drawn.width)), once=True)

    def refresh() -> None:
        summaries = {one.name: one for one in backend.observer.summaries()}
        for one in refreshes:
            one(summaries)

    refreshing(refresh)


def _box(backend: Backend, of: Box, x: float, y: float) -> Callable[[dict[str, Summary]], None]:
    place = f"left: {x:.0f}px; top: {y:.0f}px; width: {WIDTH}px; height: {HEIGHT}px"
    made = box(f"hr-node {of.kind}", "a" if of.path else "div", title=of.title).style(place)
    if of.path:
        made._props["href"] = f"{CONSOLE}{of.path}"
    with made:
        with box("k") as head:
            text(of.word)
            dot = box("hr-dot")
        text(of.title, "m", "div")
        value = text("", "v", "div")

    def refresh(summaries: dict[str, Summary]) -> None:
        summary = summaries.get(of.follower or of.query or "")
        growth = backend.observer.growth(of.topic) if of.topic else None
        dot.set_visibility(summary is not None)
        if summary is not None:
            chosen = tone(summary.health)
            set_tone(head, chosen)
            made.classes(add=chosen if chosen in TONES[1:] else "", remove=" ".join(set(TONES) - {chosen}))
        value.set_text(_told(backend, of, summary, growth.records if growth else None))

    return refresh


def _told(backend: Backend, of: Box, summary: Summary | None, records: int | None) -> str:
    if summary is not None and summary.health.word != "keeping-up":
        return summary.health.sentence
    if of.follower is not None:
        return f"{figure.count(summary.rows)} applied" if summary else f"start: {backend.command(FOLLOW)}"
    if of.kind == "outside":
        return f"{figure.count(summary.rows)} captured" if summary else "not captured here"
    if of.topic is None:
        return "inside its reader"
    told = f"{figure.count(records)} records" if records is not None else "no topic yet"
    return f"{told} · p50 {figure.milliseconds(summary.latency[0])}" if summary and summary.latency else told


def _edge(
    backend: Backend, boxes: tuple[Box, ...], line: Line, edge: ui.element, label: TextElement
) -> Callable[[dict[str, Summary]], None]:
    by_id = {one.id: one for one in boxes}
    start, end = by_id[line.start], by_id[line.end]

    def refresh(summaries: dict[str, Summary]) -> None:
        per_second: float | None = None
        if end.follower is not None:
            per_second = summaries[end.follower].per_second if end.follower in summaries else None
        elif (topic := end.topic if start.kind == "outside" else start.topic) is not None:
            per_second = backend.observer.rate(topic)
        label.set_text("" if per_second is None or line.fused else figure.rate(per_second))
        edge.classes(add="on" if per_second else "", remove="" if per_second else "on")

    return refresh
