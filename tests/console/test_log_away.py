"""kill -9 of the broker under an open page: it says so, does not freeze, and goes on by itself when the log is back."""

from __future__ import annotations

import time

from playwright.sync_api import Page, expect
from tests.console.conftest import Broker, Go, Snap
from tests.console.stage import Stage, Traffic, iso

PAGES = (("/lineage", "Lineage"), ("/letters", "Letters"), ("/node/clicks", "clicks"), ("/", "shop"))


def test_a_page_outlives_the_broker(go: Go, page: Page, broker: Broker, stage: Stage, traffic: Traffic, snap: Snap):
    go("/")
    records = page.get_by_role("table", name="records").get_by_role("row")
    expect(records.nth(2)).to_be_visible()
    expect(page.get_by_text("The log does not answer since")).to_be_hidden()
    with traffic.resting():
        broker.kill()
        told = {
            "error": f"log unreachable since {iso(time.time())}",
            "rows_per_second": 0.0,
            "rows_out_per_second": 0.0,
        }
        told |= {"latency_p50_ms": None, "latency_p99_ms": None}
        traffic.given |= {query.name: told for query in stage.queries}  # as a run tells it
        try:
            expect(page.get_by_text("The log does not answer since")).to_be_visible()
            for path, heading in PAGES:
                go(path)
                expect(page.get_by_role("heading", level=1)).to_have_text(heading)
                expect(page.get_by_text("The log does not answer since")).to_be_visible()
            expect(page.get_by_role("status").filter(has_text="the log does not answer").first).to_be_visible()
            expect(page.get_by_text("log unreachable since").first).to_be_visible()
            snap(page, "log-away.png", 1500)
        finally:
            broker.start_again()
            traffic.given.clear()
    expect(page.get_by_text("The log does not answer since")).to_be_hidden(timeout=60_000)
    expect(records.nth(1)).to_be_visible(timeout=60_000)
    newest = records.nth(1).inner_text()
    expect(records.nth(1)).not_to_have_text(newest, timeout=60_000)
    expect(page.get_by_text("log unreachable since")).to_have_count(0, timeout=60_000)
