"""The page of a stream, table or view: what it is, where it is declared, what it brings, how late and how evenly.

The records come as a live tail, the rows of a view as a table that changes while it is looked at.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import linecache
import textwrap
from collections.abc import Sequence
from typing import Any

from nicegui import ui
from starlette.requests import Request

from headrace import duration
from headrace.errors import HeadraceError
from headrace.graph.graph import inputs_of
from headrace.graph.node import Derived, Node, Source
from headrace.graph.plan import is_topic
from headrace.graph.statement import Statement
from headrace.log import topic as topics
from headrace.log.consumer import read
from headrace.log.lateness import Lateness, observe
from headrace.serve.console import chart, figure, state
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, button, card, link, set_tone, text, tone
from headrace.serve.console.frame import frame, refreshing
from headrace.serve.console.live_table import Column, LiveTable
from headrace.serve.console.records import records_table
from headrace.serve.console.secret import masked
from headrace.serve.observation.rows import MOST, Changes, Row

SHOWN_ROWS = 5_000
LATENESS_LAST = 20_000
SKEWED = 2.0
LONGEST_SOURCE = 60


def page(backend: Backend, request: Request, name: str) -> None:
    """The page `/node/<name>`."""
    if name not in backend.graph.names:
        with frame(backend, request, "Not found", ""):
            text(f"The app {backend.graph.app} declares nothing with the name {name}.", "hr-empty", "div")
        return
    node = backend.graph.node(name)
    about = f"{_kind(node)}, declared at {node.where}"
    with frame(backend, request, name, f"/node/{name}", about=about) as right:
        written = isinstance(node, Source) or is_topic(backend.graph, node)
        if written and isinstance(node, Derived):
            _health(backend, right, backend.query(name))
        if node.kind == "view":
            _rows(backend, node)
        elif written:
            with box("hr-card", "section"):
                with box("", "header"):
                    text("Live records", tag="h2")
                    text("the newest 200, as they come", "hr-note")
                records_table(backend, node)
        if written:
            with box("hr-grid2"):
                _throughput(backend, node)
                _time(backend, node)
        with box("hr-grid2"):
            _declaration(backend, node)
            if written:
                with box("hr-stack"):
                    _partitions(backend, node)
                    if isinstance(node, Source) and node.event_time:
                        _lateness(backend, node)
                    elif isinstance(node, Derived):
                        state.state_card(backend, backend.query(node.name))


def _health(backend: Backend, right: ui.element, name: str) -> None:
    with right, box("hr-health", role="status") as whole:
        box("hr-dot")
        sentence = text(f"not running; start it: {backend.command('')}", "t")

    def refresh() -> None:
        query = backend.observer.histories.get(name)
        if query is not None:
            health = backend.observer.summary(name, query).health
            set_tone(whole, tone(health))
            sentence.set_text(health.sentence)

    refreshing(refresh)


def _rows(backend: Backend, node: Node) -> None:
    """The rows of a view."""
    secret = backend.secrets(node.name)
    names: list[str] = list(node.key)
    with box("hr-card", "section"):
        with box("", "header"):
            text("Rows", tag="h2")
            note = text("as they are now; what changes is marked", "hr-note")
        table = LiveTable([Column(name) for name in names], noun="rows", most=SHOWN_ROWS, keyed=True, height=460)
    client = ui.context.client

    async def follow() -> None:
        await client.connected()

        def columns(rows: Sequence[Row]) -> bool:
            fresh = list(dict.fromkeys(name for row in rows for name in row if name not in names))
            names.extend(fresh)
            if fresh:
                table.set_columns([Column(name, number=_is_number(name, rows)) for name in names])
            return bool(fresh)

        def put(changes: Changes, *, mark: bool) -> None:
            shown = list(changes.items())[-SHOWN_ROWS:]
            table.put(
                [
                    (key, None if row is None else [masked(name, row.get(name), secret) for name in names])
                    for key, row in shown
                ],
                mark=mark,
            )

        def changed(changes: Changes) -> None:
            if columns([row for row in changes.values() if row is not None]):
                put(view.rows, mark=False)
            else:
                put(changes, mark=True)
            if len(view.rows) > SHOWN_ROWS:
                more = f"{MOST:,} of many" if view.forgotten else f"{len(view.rows):,}"
                note.set_text(f"the {SHOWN_ROWS:,} that changed last, of {more}")

        with backend.views.listening(node.topic, changed) as view:
            if view.rows:
                changed(dict(view.rows))
            await client.disconnected()

    ui.timer(0, follow, once=True)


def _throughput(backend: Backend, node: Node) -> None:
    with card("Throughput and lag", "records a second, and events its readers have yet to read"):
        shown = chart.chart(
            chart.options(
                [chart.line("records/s", area=True), chart.line("behind", colour=chart.COLOURS[1])], legend=True
            ),
            f"Throughput and lag of {node.name}",
        )
    readers = [one for one in backend.observer.plan.values() if node.name in one.reads]

    def refresh() -> None:
        growth = backend.observer.growth(node.topic)
        found = [backend.observer.histories.get(one.name) for one in readers]
        behind: dict[int, int] = {}
        for query in found:
            for point in tuple(query.points) if query else ():
                behind[int(point.at)] = behind.get(int(point.at), 0) + point.behind
        chart.points(
            shown, [(at, round(rate, 1)) for at, rate in tuple(growth.points)] if growth else [], sorted(behind.items())
        )

    refreshing(refresh)


def _time(backend: Backend, node: Node) -> None:
    """The watermark against the wall clock: of the query that writes it, or of those that read it."""
    queries = (
        [backend.query(node.name)]
        if isinstance(node, Derived)
        else [one.name for one in backend.observer.plan.values() if node.name in one.reads]
    )
    with card("Watermark against the clock", "seconds behind the wall clock"):
        shown = chart.chart(
            chart.options(
                [chart.line("newest event"), chart.line("watermark", colour=chart.COLOURS[1])], legend=True, unit=" s"
            ),
            f"Watermark of {node.name}",
        )
        told = text("", "hr-note", "div")

    def refresh() -> None:
        found = [query for name in queries if (query := backend.observer.histories.get(name)) is not None]
        points = [point for query in found for point in tuple(query.points)]
        events = [(p.at, round(max(0.0, p.at - p.event_time), 1)) for p in points if p.event_time is not None]
        marks = [(p.at, round(max(0.0, p.at - p.watermark), 1)) for p in points if p.watermark]
        chart.points(shown, sorted(events), sorted(marks))
        if not events:
            told.set_text("no query has reported an event time yet")
        elif marks:
            told.set_text(f"the watermark is {figure.milliseconds(sorted(marks)[-1][1] * 1000)} behind the clock")
        else:
            told.set_text("Spark reports no watermark of the operators")

    refreshing(refresh)


def _declaration(backend: Backend, node: Node) -> None:
    with card("Declaration", str(node.where)):
        with box("hr-facts", "dl"):
            for name, value in _facts(backend, node):
                text(name, tag="dt")
                text(value, tag="dd")
            names = [*inputs_of(node)]
            if names:
                text("reads", tag="dt")
                with box("hr-row", "dd"):
                    for name in names:
                        link(name, f"/node/{name}")
            readers = backend.graph.readers(node.name)
            if readers:
                text("read by", tag="dt")
                with box("hr-row", "dd"):
                    for reader in readers:
                        link(reader.name, f"/node/{reader.name}")
        text(_source(node), "hr-code hr-wrap", "pre").style("margin-top: 14px")
        if isinstance(node, Source) and node.schema is not None:
            with box("hr-table", "table", aria_label="Schema").style("margin-top: 14px"):
                with box("", "thead"), box("", "tr"):
                    for heading in ("column", "type", ""):
                        text(heading, tag="th", scope="col")
                with box("", "tbody"):
                    for field in node.schema.fields:
                        with box("", "tr"):
                            text(field.name, tag="td")
                            text(field.type, "hr-mono", "td")
                            marks = [
                                *(["event time"] if field.name == node.event_time else []),
                                *(["id"] if field.name == node.id else []),
                                *(["key"] if field.name in node.key else []),
                                *(["secret"] if field.name in backend.secrets(node.name) else []),
                                *([] if field.nullable else ["not null"]),
                            ]
                            text(", ".join(marks), "hr-note", "td")


def _partitions(backend: Backend, node: Node) -> None:
    with card("Partitions", f"topic {node.topic}"):
        shown = chart.chart(
            chart.options([{"name": "records/s", "type": "bar", "barMaxWidth": 26, "data": []}], time=False),
            f"Records a second by partition of {node.topic}",
        )
        told = text("", "hr-note", "div")

    def refresh() -> None:
        growth = backend.observer.growth(node.topic)
        rates = dict(growth.rates) if growth else {}
        bars = {"xAxis": {"data": [str(i) for i in sorted(rates)]}}
        bars["series"] = [{"data": [round(rates[i], 1) for i in sorted(rates)]}]  # pyright: ignore[reportArgumentType]
        shown.run_chart_method("setOption", bars)
        told.set_text(_skew(rates) if growth else "the topic is not there yet")

    refreshing(refresh)


def _skew(rates: dict[int, float]) -> str:
    """How evenly a topic is spread, in a sentence."""
    total = sum(rates.values())
    if total <= 0:
        return f"{len(rates)} partitions, and nothing comes"
    largest = max(rates, key=lambda one: rates[one])
    share = rates[largest] * len(rates) / total
    if share < SKEWED or len(rates) < 2:
        return f"{len(rates)} partitions, evenly filled: the fullest has {share:.1f} times its share"
    return f"skewed: partition {largest} has {share:.1f} times its share; choose a key with more different values"


def _lateness(backend: Backend, node: Source) -> None:
    """How late events come, when somebody asks: it reads the end of the topic."""
    with card("Lateness", "how much later events came than the newest of their partition") as header:
        told = text("", "", "div").style("margin-bottom: 8px")
        shown = chart.chart(
            chart.options([{"name": "events", "type": "bar", "data": [], "barMaxWidth": 40}], time=False),
            f"Lateness of {node.name}",
        )

    async def look() -> None:
        try:
            seen = await asyncio.to_thread(_observed, backend, node)
        except HeadraceError as error:
            told.set_text(error.what)
            return
        histogram = seen.histogram() if seen.milliseconds else []
        labels = ["on time" if bound == 0 else f"≤ {duration.describe(bound)}" for bound, _ in histogram]
        bars: dict[str, Any] = {"xAxis": {"data": labels}, "series": [{"data": [count for _, count in histogram]}]}
        shown.run_chart_method("setOption", bars)
        told.set_text(advice(node, seen))

    with header:
        button("Look again", look, label="Look at the lateness again")
    ui.timer(0.3, look, once=True)


def advice(node: Source, seen: Lateness) -> str:
    """What the observed lateness says of the declared delay."""
    if not seen.milliseconds:
        return "No event with a readable event time was seen."
    covered = seen.covered(node.delay_ms)
    events = f"{len(seen.milliseconds):,} events"
    declared = f"The declared delay of {duration.describe(node.delay_ms)} covers {covered:.2%} of the last {events}"
    enough = seen.delay(0.999)
    if covered >= 0.999:
        sooner = (
            f"; {duration.describe(enough)} would cover 99.9 %, and results would be final sooner"
            if node.delay_ms > 2 * enough + 1000
            else ""
        )
        return f"{declared}{sooner}."
    return f"{declared}; a delay of {duration.describe(enough)} would cover 99.9 %."


def _observed(backend: Backend, node: Source) -> Lateness:
    ends = topics.ends(backend.connection, node.topic)
    begins = {one.partition: one.first for one in topics.describe_partitions(backend.connection, node.topic)}
    start = {i: max(begins[i], end - LATENESS_LAST // len(ends)) for i, end in ends.items()}
    return observe(read(backend.connection, node.topic, start=start), node.event_time or "")


def _facts(backend: Backend, node: Node) -> list[tuple[str, str]]:
    facts = [("kind", _kind(node))]
    if isinstance(node, Source) or is_topic(backend.graph, node):
        facts.append(("topic", node.topic))
    else:
        facts.append(("topic", f"none: it runs inside {backend.graph.readers(node.name)[0].name}"))
    if node.key:
        facts.append(("key", ", ".join(node.key)))
    if isinstance(node, Source):
        if node.connector is not None:
            facts.append(("captured from", f"{node.connector.system} {node.connector.of}"))
        if node.event_time:
            facts.append(("event time", f"{node.event_time}, delay {duration.describe(node.delay_ms)}"))
            facts.append(("idle", f"a partition is not waited for after {duration.describe(node.idle_ms)}"))
        if node.id:
            facts.append(("id", node.id))
    if node.retention_ms is not None:
        facts.append(("kept", duration.describe(node.retention_ms)))
    if node.secret:
        facts.append(("secret", ", ".join(node.secret)))
    return facts


def _source(node: Node) -> str:
    """The lines of the declaration."""
    if isinstance(node, Derived) and isinstance(node.function, Statement):
        return node.function.text.rstrip()
    if isinstance(node, Derived):
        try:
            return inspect.getsource(node.function).rstrip()
        except (OSError, TypeError):
            return node.where.source
    lines: list[str] = []
    for line in linecache.getlines(node.where.file)[node.where.line - 1 :][:LONGEST_SOURCE]:
        lines.append(line)
        try:
            ast.parse(textwrap.dedent("".join(lines)))
        except SyntaxError:
            continue
        return textwrap.dedent("".join(lines)).rstrip()
    return node.where.source


def _kind(node: Node) -> str:
    return f"input {node.kind}" if isinstance(node, Source) else node.kind


def _is_number(name: str, rows: Sequence[Row]) -> bool:
    found = [row[name] for row in rows if row.get(name) is not None]
    return bool(found) and all(isinstance(one, int | float) and not isinstance(one, bool) for one in found)
