"""The first page: how the app is doing, how fast data flows, what is late, what is stuck and why, and what comes
out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement
from starlette.requests import Request

from headrace.graph.plan import plan
from headrace.serve.console import figure, lineage
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, card, link, set_tone, text, tone
from headrace.serve.console.frame import frame, refreshing
from headrace.serve.console.records import records_table
from headrace.serve.observation.history import Point
from headrace.serve.observation.summary import Summary, overall

POINTS = 60
SMALL = 14
_HEADER = (
    ("query", ""), ("health", ""), ("in", "n"), ("", ""), ("out", "n"), ("latency p50", "n"), ("", ""), ("p99", "n"),
    ("behind", "n"), ("dead", "n"), ("late", "n"),
)  # fmt: skip


def page(backend: Backend, request: Request) -> None:
    """The page `/`."""
    with frame(backend, request, backend.graph.app, "/") as right:
        with right, box("hr-health", role="status") as whole:
            box("hr-dot")
            sentence = text("", "t")
        kpis = _kpis(backend)
        with card("Queries and followers", "one line each, refreshed every second"):
            queries = _queries(backend)
        if len(backend.graph.nodes) <= SMALL:
            with box("hr-card", "section"):
                with box("", "header"):
                    text("What flows where", tag="h2")
                    link("open the lineage", "/lineage", "hr-crumb")
                lineage.show(backend, tallest=420)
        ends = [query.node for query in plan(backend.graph) if not backend.graph.readers(query.node.name)]
        if ends:
            with box("hr-card", "section"):
                with box("", "header"):
                    text(f"Latest results: {ends[-1].name}", tag="h2")
                    link("open it", f"/node/{ends[-1].name}", "hr-crumb")
                records_table(backend, ends[-1], height=260)

        def refresh() -> None:
            summaries = backend.observer.summaries()
            health = overall(summaries, away=backend.observer.topics.away is not None)
            set_tone(whole, tone(health))
            sentence.set_text(health.sentence)
            kpis(summaries)
            queries(summaries)

        refreshing(refresh)


def _kpis(backend: Backend) -> Callable[[Sequence[Summary]], None]:
    with box("hr-kpis"):
        into = _Kpi("Events in")
        out = _Kpi("Results out")
        latency = _Kpi("Latency, record to result")
        behind = _Kpi("Behind")
        refused = _Kpi("Dead and late")
    inputs = {node.topic for node in backend.graph.sources}

    def refresh(summaries: Sequence[Summary]) -> None:
        queries = [one for one in summaries if one.name in backend.observer.plan]
        histories = {one.name: backend.observer.histories[one.name] for one in summaries}
        points = {name: tuple(history.points)[-POINTS:] for name, history in histories.items()}
        growth = backend.observer.topics.growth
        found = [growth[topic] for topic in inputs if topic in growth]
        away = backend.observer.topics.away is not None
        into.show(
            figure.rate(sum(one.per_second for one in found)) if found and not away else "–",
            f"{figure.count(sum(one.records for one in found))} in the log",
            _added([[rate for _, rate in tuple(one.points)[-POINTS:]] for one in found]),
        )
        out.show(
            figure.rate(sum(one.out_per_second or 0.0 for one in queries)) if queries else "–",
            f"{figure.count(sum(histories[one.name].last.rows_out for one in queries))} in this run",
            _added([[point.out_per_second for point in points[one.name]] for one in queries]),
        )
        times = [one.latency for one in queries if one.latency]
        latency.show(
            figure.milliseconds(max(p50 for p50, _ in times)) if times else "–",
            f"p99 {figure.milliseconds(max(p99 for _, p99 in times))}" if times else "no result of the last 10 seconds",
            _largest([[point.latency or 0.0 for point in points[one.name]] for one in queries]),
        )
        lag = sum(one.behind for one in summaries)
        behind.show(
            figure.count(lag),
            "events not read yet" if lag else "all is read",
            _added([[point.behind for point in one] for one in points.values()]),
        )
        dead, late = sum(one.dead for one in summaries), sum(one.late for one in summaries)
        refused.show(
            figure.count(dead + late),
            f"{figure.count(dead)} dead, {figure.count(late)} late in this run",
            _added([[point.dead + point.late for point in one] for one in points.values()]),
        )

    return refresh


class _Kpi:
    """A number with a name, a word about it and its last minute."""

    def __init__(self, name: str) -> None:
        with box("hr-card", role="group", aria_label=name):
            text(name, "hr-kpi-label", "div")
            self._value = text("–", "hr-kpi-value", "div")
            self._sub = text("", "hr-kpi-sub", "div")
            self._spark = ui.html("", sanitize=False).classes("hr-spark")

    def show(self, value: str, sub: str, points: Sequence[float]) -> None:
        self._value.set_text(value)
        self._sub.set_text(sub)
        self._spark.set_content(figure.spark(points))


def _queries(backend: Backend) -> Callable[[Sequence[Summary]], None]:
    lines: dict[str, _Line] = {}
    with box("hr-scroll").style("margin: 0 -18px -18px"):
        with box("hr-table", "table", aria_label="Queries and followers"):
            with box("", "thead"), box("", "tr"):
                for name, classes in _HEADER:
                    text(name, classes, "th", scope="col")
            body = box("", "tbody")
        empty = text(
            f"No query of {backend.graph.app} has run here yet. Start it: headrace dev app.py, or headrace run app.py.",
            "hr-empty",
            "div",
        )

    def refresh(summaries: Sequence[Summary]) -> None:
        empty.set_visibility(not summaries)
        for one in summaries:
            if one.name not in lines:
                with body:
                    lines[one.name] = _Line(one)
            history = backend.observer.histories[one.name]
            lines[one.name].show(one, tuple(history.points)[-POINTS:])

    return refresh


class _Line:
    """A query in the table."""

    def __init__(self, of: Summary) -> None:
        with box("", "tr"):
            with box("", "td").style("white-space: nowrap"):
                link(of.name, f"/queries/{of.name}")
                text(f" {of.mode}", "hr-chip").style("margin-left: 8px")
            with box("", "td").style("min-width: 220px"), box("hr-health") as self._health:
                box("hr-dot")
                self._sentence = text("", "t")
            self._numbers: list[TextElement] = []
            self._sparks: list[ui.html] = []
            for name, _ in _HEADER[2:]:
                if name:
                    self._numbers.append(text("", "n", "td"))
                    continue
                with box("hr-cell-spark", "td"):
                    self._sparks.append(ui.html("", sanitize=False).classes("hr-spark"))

    def show(self, of: Summary, points: Sequence[Point]) -> None:
        set_tone(self._health, tone(of.health))
        self._sentence.set_text(of.health.sentence)
        flow, latency = self._sparks
        flow.set_content(figure.spark([point.per_second for point in points]))
        latency.set_content(figure.spark([point.latency or 0.0 for point in points]) if of.latency else "")
        p50, p99 = of.latency or (None, None)
        shown = (
            figure.rate(of.per_second),
            figure.rate(of.out_per_second),
            figure.milliseconds(p50),
            figure.milliseconds(p99),
            figure.count(of.behind),
            figure.count(of.dead),
            figure.count(of.late),
        )
        for cell, value in zip(self._numbers, shown, strict=True):
            cell.set_text(value)
            empty = value in ("0", "–", "0/s")
            cell.classes(add="hr-zero" if empty else "", remove="" if empty else "hr-zero")


def _largest(series: Sequence[Sequence[float]]) -> list[float]:
    """Several series as the largest of each moment, aligned at their ends."""
    longest = max(map(len, series), default=0)
    return [max(one[i] for one in series if -i <= len(one)) for i in range(-longest, 0)]


def _added(series: Sequence[Sequence[float]]) -> list[float]:
    """Several series as their sum, aligned at their ends."""
    longest = max(map(len, series), default=0)
    return [sum(one[i] for one in series if -i <= len(one)) for i in range(-longest, 0)]
