"""Every screen over an app that runs: on real Spark, with a broker that dies and comes back."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.console.conftest import VIEWPORT, Broker, broker_of_its_own, running

from headrace.log.connection import Connection
from headrace.log.producer import Producer

APP = Path(__file__).parents[2] / "examples" / "pageviews" / "app.py"
SLOW_MS = 120_000
HTML = "<img src=x onerror=\"document.title='run'\">"


@contextmanager
def visitors(connection: Connection) -> Iterator[None]:
    """Page views until the end of the block, the first not readable, some with HTML in their address."""
    over = threading.Event()

    def send() -> None:
        with Producer(connection) as producer:
            producer.send("pageviews", b"not a page view")
            number = 0
            while not over.wait(0.02):
                url = HTML if number % 10 == 0 else ("/", "/search", "/cart")[number % 3]
                view = {"id": f"w{number}", "visitor": "eve@example.com", "url": url, "lat": 52.5, "lon": 13.4}
                producer.send("pageviews", {**view, "at": datetime.now(UTC)}, key=url)
                number += 1

    sending = threading.Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        over.set()
        sending.join()


@pytest.fixture
def broker() -> Iterator[Broker]:
    """The topics of this app have names that others have too."""
    with broker_of_its_own() as running:
        yield running


def test_every_screen_over_an_app_that_runs(browser: Browser, broker: Broker, tmp_path: Path):
    file = Path(shutil.copy(APP, tmp_path))
    with running(file, broker.bootstrap, command="dev", says="console  ", HEADRACE_LIVE_BATCH="20 seconds") as site:
        context = browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
        page = context.new_page()
        page.goto(site.link)
        expect(page.get_by_role("heading", name="pageviews", level=1)).to_be_visible()
        with visitors(Connection(broker.bootstrap)):
            lines = page.get_by_role("table", name="Queries and followers").get_by_role("row")
            for name in ("views_per_minute", "visits"):
                expect(lines.filter(has=page.get_by_text(name, exact=True))).to_contain_text(
                    "keeping up", timeout=SLOW_MS
                )
            expect(page.get_by_role("group", name="Latency, record to result")).not_to_contain_text(
                "–", timeout=SLOW_MS
            )
            expect(page.get_by_role("group", name="Dead and late")).to_contain_text("2 dead")  # by each of its readers

            page.goto(f"{site.url}/lineage")
            lineage = page.get_by_role("group", name="Lineage")
            for name in ("pageviews", "views_per_minute", "visits"):
                expect(lineage.get_by_text(name, exact=True).first).to_be_visible()
            expect(lineage.locator(".hr-edge.on").first).to_be_attached()

            page.goto(f"{site.url}/node/pageviews")
            expect(page.get_by_role("table", name="records", exact=True).get_by_role("row").nth(3)).to_be_visible()
            expect(page.get_by_text(HTML).first).to_be_attached()
            expect(page.get_by_text("eve@example.com")).to_have_count(0)

            page.goto(f"{site.url}/node/views_per_minute")
            rows = page.get_by_role("table", name="rows", exact=True)
            expect(rows).to_contain_text("/search")
            before = rows.inner_text()
            expect(rows).not_to_have_text(before)

            page.goto(f"{site.url}/dashboard/traffic")
            number = page.get_by_role("group", name="Page views", exact=True).locator(".hr-number")
            seen = number.inner_text()
            expect(number).not_to_have_text(seen)
            expect(page.get_by_role("group", name="Top URLs").get_by_role("listitem").first).to_contain_text("/")

            page.goto(f"{site.url}/letters")
            letters = page.get_by_role("table", name="Dead letters of pageviews")
            expect(letters.get_by_role("row").nth(1)).to_be_visible()

            page.goto(f"{site.url}/queries/views_per_minute")
            expect(page.get_by_role("heading", name="Checkpoint")).to_be_visible()

            page.goto(f"{site.url}/")
            broker.kill()
            try:
                expect(page.get_by_text("The log does not answer since")).to_be_visible()
                expect(page.get_by_text("log unreachable since").first).to_be_visible(timeout=SLOW_MS)
            finally:
                broker.start_again()
            expect(page.get_by_text("The log does not answer since")).to_be_hidden(timeout=SLOW_MS)
            line = lines.filter(has=page.get_by_text("views_per_minute", exact=True))
            expect(line).to_contain_text("keeping up", timeout=SLOW_MS)
        assert page.title() != "run"
        context.close()
