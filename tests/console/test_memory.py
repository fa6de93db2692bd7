"""A console that stays open does not grow: neither the page nor the server, once their series are full."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import psutil
import pytest
from playwright.sync_api import expect
from tests.console.conftest import Go, Site
from tests.console.stage import Stage

from headrace.log.consumer import Record
from headrace.serve.observation.history import BATCHES, POINTS, History
from headrace.serve.observation.tail import KEPT, Tail
from headrace.serve.observation.topics import TopicGrowth

MINUTES = 12


def test_what_is_kept_is_bounded(stage: Stage):
    """Twelve hours, second by second, of all that gathers in the background; and what a page looks at."""
    growth, first = TopicGrowth(), stage.progress("visits")
    query = History(first)
    for second in range(12 * 3600):
        growth.take(float(second), {0: second, 1: 2 * second})
        query.take(replace(first, batch=second, rows_in=second))
    assert len(growth.points) == POINTS
    assert len(growth._seen) < 20
    assert growth.per_second == pytest.approx(3)
    assert (len(query.points), len(query.batches)) == (POINTS, BATCHES)
    seen = Tail.__new__(Tail)
    seen.kept, seen.listeners, seen.skipped = deque(maxlen=KEPT), set(), 0
    for number in range(10 * KEPT):
        seen.arrived(([Record("clicks", 0, number, 0, None, b"{}")], 0))
    assert len(seen.kept) == KEPT


@pytest.mark.deep
@pytest.mark.parametrize("path", ["/", "/node/clicks", "/dashboard/traffic"])
def test_an_open_page_does_not_grow(go: Go, site: Site, path: str):
    """The series are full after ten minutes; from then on neither the page nor the server may grow."""
    page = go(path)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    session = page.context.new_cdp_session(page)

    def measured() -> tuple[float, int, float]:
        session.send("HeapProfiler.collectGarbage")
        counters = session.send("Memory.getDOMCounters")
        heap = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
        return heap, counters["nodes"], psutil.Process(site.process.pid).memory_info().rss / 1e6

    found = []
    for _ in range(MINUTES):
        page.wait_for_timeout(60_000)
        found.append(measured())
        print(f"{path}: heap {found[-1][0]:.1f} MB, {found[-1][1]} nodes, server {found[-1][2]:.0f} MB")
    (heap, nodes, server), (later_heap, later_nodes, later_server) = found[-3], found[-1]
    assert later_heap < heap * 1.1 + 2
    assert later_nodes < nodes * 1.1 + 100
    assert later_server < server * 1.05 + 10
