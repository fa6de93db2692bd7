"""The first page: moving numbers, health in a sentence, the lineage and the latest results."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from tests.console.conftest import Go, Snap


def test_the_overview(go: Go, snap: Snap):
    page = go("/")
    line = (
        page.get_by_role("table", name="Queries and followers")
        .get_by_role("row")
        .filter(has_text="views_per_minute live")
    )
    expect(line).to_contain_text("keeping up")
    expect(line).to_contain_text(re.compile(r"1[12]\d/s\s*1[01]\d/s\s*[5-7](\.\d)? ms\s*(1[6-9]|2[0-2]) ms"))
    expect(line.locator(".hr-spark path.l")).to_have_count(2)
    expect(page.get_by_role("group", name="Latency, record to result")).to_contain_text("p99")
    expect(page.get_by_role("group", name="Results out")).to_contain_text("/s")
    snap(page, "overview.png", 6000, full_page=True)
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("body.body--dark")).to_be_attached()
    snap(page, "overview-dark.png", 1000, full_page=True)
    page.get_by_role("button", name="Light or dark").click()
