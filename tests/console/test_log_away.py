"""kill -9 of the broker under an open page: it says so, does not freeze, and goes on by itself when the log is back."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.console.conftest import VIEWPORT, Site, Snap, running
from tests.console.stage import Stage, Traffic, iso

from headrace.log.connection import Connection
from headrace.parts.embedded import Parts
from headrace.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    tmp_path.chmod(0o755)
    yield tmp_path
    shutil.rmtree(tmp_path / ".headrace", ignore_errors=True)


def test_a_page_outlives_the_broker(home: Path, browser: Browser, snap: Snap):
    settings = Settings.load(home).model_copy(update={"bootstrap": None})
    first = Parts.start(settings)
    stage = Stage(home, Connection(first.bootstrap))
    traffic = Traffic(stage)
    traffic.start()
    try:
        with running(stage.file, first.bootstrap) as site:
            context = browser.new_context(viewport=VIEWPORT)
            page = context.new_page()
            page.goto(site.link)
            records = page.get_by_role("table", name="records").get_by_role("row")
            expect(records.nth(2)).to_be_visible()
            expect(page.get_by_text("The log does not answer")).to_be_hidden()

            os.kill(first.started[0].record.server.pid, signal.SIGKILL)
            first.stop()
            since = iso(time.time())
            told = {"error": f"log unreachable since {since}", "rows_per_second": 0.0, "rows_out_per_second": 0.0}
            told |= {"latency_p50_ms": None, "latency_p99_ms": None}
            traffic.given |= {query.name: told for query in stage.queries}  # as a run tells it
            expect(page.get_by_text("The log does not answer since")).to_be_visible()
            is_awake(page, site)
            expect(page.get_by_role("status").filter(has_text="the log does not answer").first).to_be_visible()
            snap(page, "log-away.png", 1500)

            with Parts.start(settings) as again:
                assert again.bootstrap == first.bootstrap
                traffic.given.clear()
                page.goto(f"{site.url}/")
                expect(page.get_by_text("The log does not answer")).to_be_hidden()
                newest = records.nth(1).inner_text()
                expect(records.nth(1)).not_to_have_text(newest)
                traffic.stop()
            context.close()
    finally:
        traffic.stop()
        first.stop()


def is_awake(page: Page, site: Site) -> None:
    """Pages open and answer while the log is away."""
    for path, heading in (("/lineage", "Lineage"), ("/letters", "Letters"), ("/node/clicks", "clicks"), ("/", "shop")):
        page.goto(f"{site.url}{path}")
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        expect(page.get_by_text("The log does not answer since")).to_be_visible()
