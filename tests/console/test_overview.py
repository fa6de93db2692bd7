"""The first page: moving numbers, health in a sentence, the lineage and the latest results."""

from __future__ import annotations

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
    page.wait_for_timeout(6000)
    page.screenshot(path=pictures / "overview.png")
