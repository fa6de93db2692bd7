"""The first minute of an app: one point on each line, followers that nobody has started, titles longer than a card."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.console.conftest import VIEWPORT, Broker, Site, Snap, running
from tests.console.stage import Stage, iso

from headrace.log.connection import Connection
from headrace.serve.console.chart import SHORTEST_MS, axis_start

MINUTE_MS = 60_000
APP = """
import headrace as hr

app = hr.App("opening")
app.stream("visits", schema="id string, url string, at timestamp", event_time="at", id="id")


@app.view(key=["url", "window_start"])
def visits_per_minute(visits):
    return hr.window(visits, hr.tumbling("1 minute"), by="url", visits=hr.count())


board = app.dashboard("opening", title="Opening")
board.number(visits_per_minute, value="visits", title="Visits")
board.number(visits_per_minute, value="visits", title="The most visits of one page in one minute", combine="max")
board.number(visits_per_minute, value="visits", title="Pages", combine="count")
board.line(visits_per_minute, x="window_start", y="visits", title="All visits")
board.line(visits_per_minute, x="window_start", y="visits", by="url", title="Visits by page")
"""
# What a chart has painted: how many pixels are near its first colour, and from when to when its axis runs.
PAINTED = """(element) => {
  const chart = getElement(Number(element.id.slice(1))).chart, canvas = element.querySelector("canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let i = 0; i < pixels.length; i += 4)
    if (pixels[i + 3] > 200 && Math.abs(pixels[i] - 0x14) + Math.abs(pixels[i + 1] - 0x97)
        + Math.abs(pixels[i + 2] - 0xad) < 24) found += 1;
  return {pixels: found, axis: chart.getModel().getComponent("xAxis").axis.scale.getExtent()};
}"""


@pytest.mark.parametrize(
    ("times", "start"),
    [
        ([], None),
        ([9 * MINUTE_MS], 9 * MINUTE_MS - SHORTEST_MS),
        ([8 * MINUTE_MS, 9 * MINUTE_MS], 9 * MINUTE_MS - SHORTEST_MS),
        ([0, SHORTEST_MS], 0),
        ([0, 86_400_000], 0),
    ],
)
def test_an_axis_of_time_is_minutes_long_at_least(times: list[int], start: int | None):
    assert axis_start(times) == start


@pytest.fixture(scope="module")
def opening(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Stage]]:
    """An app of which nothing runs yet, beside its one row."""
    directory = tmp_path_factory.mktemp("opening")
    written = directory / "written.py"
    written.write_text(APP, encoding="utf-8")
    stage = Stage(directory, Connection(broker.bootstrap), written)
    with running(stage.file, broker.bootstrap) as site:
        yield site, stage


@pytest.fixture(scope="module")
def opened(browser: Browser, opening: tuple[Site, Stage]) -> Iterator[Page]:
    site, _ = opening
    context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
    page = context.new_page()
    page.goto(site.link)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    yield page
    context.close()


def visit(stage: Stage, url: str, minute: datetime, count: int) -> None:
    row = {"url": url, "window_start": iso(minute.timestamp()), "visits": count}
    stage.send("visits_per_minute", row, f"{url} {minute}")
    stage.producer.flush()


def painted(chart: Locator, least: int) -> tuple[float, float]:
    """The axis of a chart that has painted so many pixels of its first colour."""
    until = time.monotonic() + 20
    while (found := chart.evaluate(PAINTED))["pixels"] < least:
        assert time.monotonic() < until, found
        chart.page.wait_for_timeout(100)
    return found["axis"][0], found["axis"][1]


def test_a_line_with_one_point_is_a_dot_over_minutes(opened: Page, opening: tuple[Site, Stage], snap: Snap):
    site, stage = opening
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    opened.goto(f"{site.url}/dashboard/opening")
    visit(stage, "/", minute, 5)
    expect(opened.get_by_role("group", name="Visits", exact=True).locator(".hr-number")).to_have_text("5")
    for name in ("All visits", "Visits by page"):
        start, end = painted(opened.get_by_role("img", name=name), least=20)
        assert (start, end) == (minute.timestamp() * 1000 - SHORTEST_MS, minute.timestamp() * 1000)
    snap(opened, "first-minute.png", 0, full_page=True)


def test_numbers_of_a_row_stand_at_the_same_height(opened: Page, opening: tuple[Site, Stage]):
    site, stage = opening
    visit(stage, "/", datetime.now(UTC).replace(second=0, microsecond=0), 5)
    opened.goto(f"{site.url}/dashboard/opening")
    numbers = opened.locator(".hr-number")
    expect(numbers).to_have_count(3)
    heads = opened.locator(".hr-number-card > header")
    heights = heads.evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")
    assert heights[1] > heights[0]
    places = numbers.evaluate_all("all => all.map(e => e.getBoundingClientRect().bottom)")
    assert places == [places[0]] * 3


def test_what_does_not_run_says_how_to_run_it(opened: Page, opening: tuple[Site, Stage], snap: Snap):
    site, _ = opening
    opened.goto(f"{site.url}/lineage")
    table = opened.get_by_role("link", name="PostgreSQL table")
    expect(table).to_contain_text("headrace follow app.py")
    cut = table.locator(".v").evaluate("e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight")
    assert not cut
    snap(opened, "not-running.png", 0)
    for path, command in (
        ("/queries/visits_per_minute.postgres", "headrace follow app.py"),
        ("/queries/visits_per_minute", "headrace run app.py"),
        ("/node/visits_per_minute", "headrace run app.py"),
    ):
        opened.goto(f"{site.url}{path}")
        expect(opened.get_by_role("status").filter(has_text="not running").first).to_contain_text(command)
