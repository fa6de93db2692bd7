"""How much a query remembers: the size of its state over time, and the keys of each operator."""

from __future__ import annotations

from headrace.serve.console import chart, figure
from headrace.serve.console.backend import Backend
from headrace.serve.console.element import box, card, text
from headrace.serve.console.frame import refreshing

_MEGABYTE = 1 << 20


def state_card(backend: Backend, name: str) -> None:
    """The state of a query."""
    with card("State", "what its operators remember"):
        shown = chart.chart(chart.options([chart.line("state", area=True)], unit=" MB"), f"State of {name}")
        shown.style("height: 150px")
        facts = box("hr-facts", "dl")
        told = text("", "hr-note", "div")
    known: list[tuple[str, int, int]] = []

    def refresh() -> None:
        query = backend.observer.histories.get(name)
        points = (
            [(p.at, round(p.state_bytes / _MEGABYTE, 3)) for p in tuple(query.points) if p.state_bytes] if query else []
        )
        shown.set_visibility(bool(points))
        chart.points(shown, points)
        told.set_text("" if points else "Spark has reported no state of it yet")
        operators = query.last.operators if query else {}
        found = [(one, held["keys"], held["bytes"]) for one, held in sorted(operators.items())]
        if found != known:
            known[:] = found
            facts.clear()
            with facts:
                for operator, keys, size in found:
                    text(operator, tag="dt")
                    text(f"{keys:,} keys in {figure.size(size)}", tag="dd")

    refreshing(refresh)
