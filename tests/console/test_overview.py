"""The first page: moving numbers, health in a sentence, the lineage and the latest results."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect
from tests.console.conftest import Go


def test_the_overview(go: Go, pictures: Path):
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
    page.wait_for_timeout(6000)
    page.screenshot(path=pictures / "overview.png")
