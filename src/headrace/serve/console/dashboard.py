"""The page of a dashboard: its charts over views, drawn again as soon as a row changes.

Changes are pushed: what a thread reads from the topic of a view is drawn at once, but with pauses that leave most of
the time for others when there are many rows. Numbers and lists are drawn again after `LEAST_S` at the earliest. Charts,
which cost the browser a hundred times as much, are drawn again after `PAINTED_S`. What looks the same is not sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from importlib.resources import files
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from starlette.requests import Request

from headrace.graph.dashboard import Chart
from headrace.serve.console import chart as charts
from headrace.serve.console import figure, series
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, link, text
from headrace.serve.console.frame import frame
from headrace.serve.console.secret import masked
from headrace.serve.observation.rows import Changes, Row

LEAST_S = 0.02
PAINTED_S = 0.15
SHARE = 4
MOST_SERIES = 12
_LAND = (files("headrace.serve.console") / "land.svg").read_text(encoding="utf-8")
Draw = Callable[[Mapping[str, Row]], None]


def page(backend: Backend, request: Request, name: str) -> None:
    """The page `/dashboard/<name>`."""
    board = next((one for one in backend.graph.dashboards if one.name == name), None)
    if board is None:
        with frame(backend, request, "Not found", ""):
            text(f"The app {backend.graph.app} declares no dashboard with the name {name}.", "hr-empty", "div")
        return
    with frame(backend, request, board.title, f"/dashboard/{name}", about=f"declared at {board.where}"):
        drawn: dict[tuple[str, float], list[Draw]] = {}
        with box("hr-boards"):
            for one in board.charts:
                least = LEAST_S if one.kind in ("number", "top") else PAINTED_S
                drawn.setdefault((one.of, least), []).append(_card(backend, one))
        if not board.charts:
            text("It has no charts yet: declare one on what app.dashboard returns.", "hr-card hr-empty", "section")
    client = ui.context.client

    async def follow() -> None:
        await client.connected()
        with ExitStack() as stack:
            for (view, least), draws in drawn.items():
                pace = _Pace(draws, least)
                rows = stack.enter_context(backend.views.listening(backend.graph.node(view).topic, pace.changed))
                pace.begin(rows.rows)
            await client.disconnected()

    ui.timer(0, follow, once=True)


class _Pace:
    """Draws the charts of one view after changes, soon but not too often."""

    def __init__(self, draws: list[Draw], least: float) -> None:
        self._draws = draws
        self._least = least
        self._rows: Mapping[str, Row] = {}
        self._waiting = False
        self._next = 0.0

    def begin(self, rows: Mapping[str, Row]) -> None:
        self._rows = rows
        self._draw()

    def changed(self, changes: Changes) -> None:
        if not self._waiting:
            self._waiting = True
            asyncio.get_running_loop().call_later(max(0.0, self._next - time.monotonic()), self._draw)

    def _draw(self) -> None:
        self._waiting = False
        began = time.monotonic()
        for draw in self._draws:
            draw(self._rows)
        cost = time.monotonic() - began
        self._next = time.monotonic() + max(self._least, SHARE * cost)


def _card(backend: Backend, of: Chart) -> Draw:
    classes = "hr-number-card " if of.kind == "number" else ""
    with box(f"hr-card {classes}{of.width}", "section", role="group", aria_label=of.title):
        with box("", "header"):
            text(of.title, tag="h2")
            note = text("", "hr-note")
            link(of.of, f"/node/{of.of}", "hr-crumb").style("font-size: 12px")
        with box("hr-body"):
            draw = _PARTS[of.kind](backend, of)

    def redraw(rows: Mapping[str, Row]) -> None:
        note.set_text(draw(rows) or ("" if rows else "no rows yet"))

    return redraw


def _told(found: series.Shown) -> str:
    if found.missing:
        return f"the view has no column {', '.join(found.missing)}"
    return f"{found.left_out:,} rows without a value" if found.left_out else ""


def _number(backend: Backend, of: Chart) -> Callable[[Mapping[str, Row]], str]:
    value = text("–", "hr-number", "div")

    def draw(rows: Mapping[str, Row]) -> str:
        found = series.shown(of, rows.values())
        points = found.series.get("", ())
        value.set_text(_figure(points[0][1]) if points else "–")
        return _told(found) if found.missing else ""

    return draw


def _line(backend: Backend, of: Chart) -> Callable[[Mapping[str, Row]], str]:
    shown = charts.chart(charts.options([charts.line(of.column("y") or "", area=True)]), of.title)
    shown.style("height: 260px")
    paint = _painter(shown)
    names: list[str] = []
    kinds: list[bool] = []

    def draw(rows: Mapping[str, Row]) -> str:
        found = series.shown(of, rows.values())
        named = dict(list(found.series.items())[:MOST_SERIES])
        time_axis = all(series.is_time(points) for points in named.values())
        if list(named) != names or kinds != [time_axis]:
            names[:], kinds[:] = list(named), [time_axis]
            lines = [charts.line(name or of.column("y") or "", area=len(named) == 1) for name in named]
            shown._props["options"] = charts.options(lines, time=time_axis, legend=len(named) > 1)
            shown.update()
            paint({})
        lines = [charts.data([(_axis(place), value) for place, value in points]) for points in named.values()]
        start = charts.axis_start([place for line in lines for place, _ in line["data"]]) if time_axis else None
        paint({"xAxis": {"min": start}, "series": lines})
        more = f"{MOST_SERIES} of {len(found.series)} groups" if len(found.series) > MOST_SERIES else ""
        return _told(found) or more

    return draw


def _bar(backend: Backend, of: Chart) -> Callable[[Mapping[str, Row]], str]:
    made = {
        "name": of.column("y"),
        "type": "bar",
        "barMaxWidth": 34,
        "data": [],
        "itemStyle": {"borderRadius": [3, 3, 0, 0]},
    }
    shown = charts.chart(charts.options([made], time=False), of.title).style("height: 300px")
    paint = _painter(shown)

    def draw(rows: Mapping[str, Row]) -> str:
        found = series.shown(of, rows.values())
        points = found.series.get("", ())
        labels = [f"{place:%H:%M}" if isinstance(place, datetime) else str(place) for place, _ in points]
        bars = {"xAxis": {"data": labels}, "series": [{"data": [value for _, value in points]}]}
        paint(bars)
        return _told(found)

    return draw


def _top(backend: Backend, of: Chart) -> Callable[[Mapping[str, Row]], str]:
    secret = backend.secrets(of.of)
    lines: list[tuple[ui.element, TextElement, TextElement, ui.element]] = []
    with box("hr-bars", role="list"):
        for _ in range(of.limit):
            with box("hr-bar", role="listitem") as line:
                label, number = text("", "t"), text("", "n")
                with box("b"):
                    bar = box("", "i")
            line.set_visibility(False)
            lines.append((line, label, number, bar))

    def draw(rows: Mapping[str, Row]) -> str:
        found = series.shown(of, rows.values())
        points = found.series.get("", ())
        most = max((value for _, value in points), default=0) or 1
        for i, (line, label, number, bar) in enumerate(lines):
            line.set_visibility(i < len(points))
            if i < len(points):
                place, value = points[i]
                label.set_text(str(masked(of.column("label") or "", str(place), secret)))
                number.set_text(_figure(value))
                bar.style(f"width: {max(0, 100 * value / most):.1f}%")
        return _told(found)

    return draw


def _points(backend: Backend, of: Chart) -> Callable[[Mapping[str, Row]], str]:
    made = charts.options([{"type": "scatter", "name": of.title, "data": [], "itemStyle": {"opacity": 0.55}}])
    degrees = {"type": "value", "interval": 30, "splitLine": made["yAxis"]["splitLine"]}
    degrees |= {"axisLabel": {"show": False}, "axisLine": {"show": False}, "axisTick": {"show": False}}
    made["xAxis"] = {**degrees, "min": -180, "max": 180}
    made["yAxis"] = {**degrees, "min": -90, "max": 90}
    made["grid"] = {"left": 0, "right": 0, "top": 0, "bottom": 0}
    made["tooltip"] = {"show": False}
    with box("hr-map"):
        ui.html(_LAND, sanitize=False)
        shown = charts.chart(made, of.title)
    paint = _painter(shown)

    def draw(rows: Mapping[str, Row]) -> str:
        found, left_out = series.places(of, rows.values())
        most = max((value for *_, value in found), default=0) or 1
        data: list[dict[str, Any]] = [
            {"value": [lon, lat], "symbolSize": 5 + 18 * (max(0.0, value) / most) ** 0.5}
            for lon, lat, _, value in found
        ]
        paint({"series": [{"data": data}]})
        return f"{left_out:,} rows without a place" if left_out else f"{len(found):,} points"

    return draw


_PARTS = {"number": _number, "line": _line, "bar": _bar, "top": _top, "points": _points}


def _painter(shown: ui.echart) -> Callable[[dict[str, Any]], None]:
    """Paints a chart, unless it would look as it does."""
    last: list[dict[str, Any]] = [{}]

    def paint(options: dict[str, Any]) -> None:
        if options != last[0]:
            last[0] = options
            shown.run_chart_method("setOption", options)

    return paint


def _axis(place: Any) -> Any:
    return round(place.timestamp() * 1000) if isinstance(place, datetime) else place


def _figure(value: float) -> str:
    return figure.count(value) if value == int(value) or abs(value) >= 1000 else f"{value:,.2f}"
