"""The lineage: drawn without boxes on boxes, legible with 60 of them, with live numbers that lead to their pages."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.console.conftest import Go

from headrace.serve.console.drawing import HEIGHT, WIDTH, Box, Line, draw


def graph(count: int, seed: int) -> tuple[list[Box], list[Line]]:
    chance = random.Random(seed)
    boxes = [Box(f"n{i}", "stream", f"n{i}", "stream") for i in range(count)]
    lines = [Line(f"n{j}", f"n{i}") for i in range(count // 5 + 1, count) for j in set(chance.choices(range(i), k=2))]
    return boxes, lines


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (1, 1), (5, 2), (60, 3), (60, 4), (200, 5)])
def test_no_box_stands_on_another(count: int, seed: int):
    drawn = draw(*graph(count, seed))
    for (ax, ay), (bx, by) in combinations(drawn.places.values(), 2):
        assert abs(ax - bx) >= WIDTH or abs(ay - by) >= HEIGHT
    for line in drawn.lines:
        assert drawn.places[line.start][0] + WIDTH < drawn.places[line.end][0]
    for x, y in drawn.places.values():
        assert 0 <= x <= drawn.width - WIDTH
        assert 0 <= y <= drawn.height - HEIGHT
    assert draw(*graph(count, seed)) == drawn


def test_the_lineage_lives(go: Go, pictures: Path):
    page = go("/lineage")
    canvas = page.get_by_role("group", name="Lineage")
    for name in ("clicks", "visits", "views_per_minute", "PostgreSQL", "sales"):
        expect(canvas.get_by_text(name, exact=True).first).to_be_visible()
    expect(canvas.locator(".hr-edge.on").first).to_be_attached()
    expect(canvas.locator(".hr-edge-label").filter(has_text="/s").first).to_be_visible()
    page.wait_for_timeout(1500)
    page.screenshot(path=pictures / "lineage.png")
    page.get_by_role("button", name="Light or dark").click()
    page.wait_for_timeout(800)
    page.screenshot(path=pictures / "lineage-dark.png")
    page.get_by_role("button", name="Light or dark").click()
    canvas.get_by_role("link", name="visits", exact=False).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("visits")
