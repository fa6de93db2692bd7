"""Dashboards: every kind of chart over the rows of views, pushed as they change; wrong declarations are told."""

from __future__ import annotations

import json
import statistics
import time

import pytest
from playwright.sync_api import Page, expect
from pyspark.sql import DataFrame
from tests.console.conftest import Go, Snap
from tests.console.stage import Stage

import headrace as hr
from headrace.errors import DeclarationError, Location
from headrace.graph.dashboard import Chart
from headrace.serve.console import series

HERE = Location("app.py", 1)
ROWS = [
    {"url": "/b", "minute": "2026-01-01T10:01:00Z", "views": 5, "lat": 1, "lon": 2},
    {"url": "/a", "minute": "2026-01-01T10:00:00Z", "views": 2, "lat": 91, "lon": 2},
    {"url": "/b", "minute": "2026-01-01T10:00:00Z", "views": 3, "lat": None, "lon": 2},
    {"url": None, "minute": "2026-01-01T10:02:00Z", "views": "many"},
]


def chart(kind: str, combine: str = "sum", limit: int = 10, **columns: str) -> Chart:
    return Chart(kind, "views", "t", tuple(columns.items()), combine, limit, "half", HERE)  # pyright: ignore[reportArgumentType]


def test_what_a_chart_shows():
    top = series.shown(chart("top", label="url", value="views"), ROWS)
    assert (list(top.series[""]), top.left_out) == ([("/b", 8.0), ("/a", 2.0)], 1)
    assert list(series.shown(chart("top", limit=1, label="url", value="views"), ROWS).series[""]) == [("/b", 8.0)]
    line = series.shown(chart("line", x="minute", y="views", by="url"), ROWS)
    assert {name: [value for _, value in points] for name, points in line.series.items()} == {"/a": [2], "/b": [3, 5]}
    assert series.is_time(line.series["/b"])
    for how, wanted in (("sum", 10), ("max", 5), ("min", 2), ("last", 3), ("mean", 10 / 3)):
        ((_, found),) = series.shown(chart("number", how, value="views"), ROWS).series[""]
        assert found == pytest.approx(wanted)
    ((_, counted),) = series.shown(chart("number", "count", value="views"), ROWS).series[""]
    assert counted == 4
    assert series.shown(chart("bar", x="url", y="nothing"), ROWS).missing == ("nothing",)
    assert series.shown(chart("bar", x="url", y="views"), []).series == {}
    assert series.places(chart("points", "last", lat="lat", lon="lon"), ROWS) == ([(2.0, 1.0, "", 0.0)], 3)


def test_wrong_charts_are_refused_where_they_stand():
    app = hr.App("charts")
    stream = app.stream("clicks", schema="id string, at timestamp", event_time="at", id="id")

    @app.view(key="id")
    def views(clicks: DataFrame) -> DataFrame:
        return clicks

    board = app.dashboard("board")
    for wrong, code in (
        (lambda: board.top(stream, label="id", value="n"), "HR-545"),  # pyright: ignore[reportArgumentType]
        (lambda: board.top("views", label="id", value="n"), "HR-545"),  # pyright: ignore[reportArgumentType]
        (lambda: board.top(views, label="id", value="n", combine="median"), "HR-546"),  # pyright: ignore[reportArgumentType]
        (lambda: board.top(views, label="id", value="n", n=0), "HR-546"),
        (lambda: board.bar(views, x=3, y="n"), "HR-546"),  # pyright: ignore[reportArgumentType]
        (lambda: board.number(views, value="n", width="huge"), "HR-546"),  # pyright: ignore[reportArgumentType]
        (lambda: app.dashboard("board"), "HR-546"),
    ):
        with pytest.raises(DeclarationError) as raised:
            wrong()
        assert raised.value.code == code
        assert raised.value.where
        assert raised.value.where.file == __file__
    board.top(views, label="id", value="n")
    assert [one.charts[0].kind for one in app.graph().dashboards] == ["top"]


def test_a_dashboard_moves(go: Go, page: Page, snap: Snap):
    go("/dashboard/traffic")
    group = page.get_by_role("group", name="Page views", exact=True)
    expect(group).not_to_contain_text("–")
    before = group.inner_text()
    expect(group).not_to_have_text(before)
    expect(page.get_by_role("group", name="Top pages").get_by_role("listitem").first).to_contain_text("/")
    expect(page.get_by_role("group", name="Orders on the map")).to_contain_text("points")
    expect(page.locator(".hr-map path").nth(50)).to_be_attached()
    for name in ("Page views per minute", "Views by page", "Orders on the map"):
        expect(page.get_by_role("img", name=name)).to_be_visible()
    snap(page, "dashboard.png", 1500, full_page=True)
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("body.body--dark")).to_be_attached()
    snap(page, "dashboard-dark.png", 1500, full_page=True)
    page.get_by_role("button", name="Light or dark").click()


def test_how_long_a_change_takes_to_the_page(go: Go, page: Page, stage: Stage):
    """From the topic to the pixels: each order is larger than all before, so that the number shows it."""
    go("/dashboard/traffic")
    number = page.get_by_role("group", name="Largest order").locator(".hr-number")
    expect(number).not_to_have_text("–")
    number.evaluate(
        """(element) => { window.seen = {};
          new MutationObserver(() => requestAnimationFrame(() => { window.seen[element.innerText] ??= Date.now(); }))
            .observe(element, {childList: true, characterData: true, subtree: true}); }"""
    )
    sent: dict[str, float] = {}
    for i in range(40):
        amount = 5_000_000 + 10_000 * i
        stage.producer.send(
            "order_map", json.dumps({"id": "largest", "amount": amount, "lat": 0, "lon": 0}), key="largest"
        ).wait()
        sent[f"{amount / 1e6:.3g}M"] = time.time() * 1000
        time.sleep(0.12)
    expect(number).to_have_text(list(sent)[-1])
    page.wait_for_timeout(100)
    seen = page.evaluate("window.seen")
    took = [seen[text] - at for text, at in sent.items() if text in seen]
    assert took  # several that come at once are drawn once
    print(
        f"from the topic to the page: p50 {statistics.median(took):.0f} ms, longest {max(took):.0f} ms of {len(took)}"
    )
