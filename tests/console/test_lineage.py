"""The lineage: drawn without boxes on boxes, legible with 60 of them, with live numbers that lead to their pages."""

from __future__ import annotations

import random
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.console.conftest import Broker, Go, Snap, running

from headrace.app import load
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
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


def many(count: int) -> str:
    """An app of so many functions in layers."""
    chance = random.Random(11)
    lines = ["import headrace as hr", 'app = hr.App("large")']
    names = [f"input_{i}" for i in range(8)]
    lines += [f'app.stream("{name}", schema="id string, at timestamp", event_time="at", id="id")' for name in names]
    for i in range(count - len(names)):
        inputs = ", ".join(sorted(set(chance.choices(names[-14:], k=2))))
        names.append(f"step_{i}")
        lines += ["", "", f"@app.{'view(key=' + repr('id') + ')' if i % 6 == 5 else 'stream(partitions=1)'}"]
        lines += [f"def step_{i}({inputs}):", f"    return {inputs.split(',')[0]}"]
    return "\n".join(lines)


def test_sixty_boxes_stay_legible(browser: Browser, broker: Broker, tmp_path: Path, snap: Snap):
    """Every name is whole, no box covers another, and the page moves while 60 topics are watched."""
    file = tmp_path / "app.py"
    file.write_text(many(60))
    graph = load(file).graph()
    connection = Connection(broker.bootstrap)
    ensure(connection, [Topic(node.topic, 1) for node in graph.nodes])
    with running(file, broker.bootstrap) as site, Producer(connection) as producer:
        context = browser.new_context(viewport={"width": 1900, "height": 1080}, color_scheme="light")
        page = context.new_page()
        page.goto(site.link)
        expect(page.get_by_text("No query of large has run here yet")).to_be_visible()
        snap(page, "empty.png", 1500)
        page.goto(f"{site.url}/lineage")
        expect(page.locator(".hr-node").nth(59)).to_be_attached()
        for _ in range(20):
            for node in graph.nodes:
                producer.send(node.topic, "{}")
            producer.flush()
            page.wait_for_timeout(200)
        expect(page.locator(".hr-edge.on").first).to_be_attached()
        cut = page.locator(".hr-node .m").evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth).length")
        assert cut == 0
        page.get_by_role("button", name="Fit to the width").click()
        snap(page, "lineage-60.png", 500)
        page.get_by_role("button", name="Light or dark").click()
        expect(page.locator("body.body--dark")).to_be_attached()
        snap(page, "lineage-60-dark.png", 500)
        context.close()


def test_the_lineage_lives(go: Go, snap: Snap):
    page = go("/lineage")
    canvas = page.get_by_role("group", name="Lineage")
    for name in ("clicks", "visits", "views_per_minute", "PostgreSQL", "sales"):
        expect(canvas.get_by_text(name, exact=True).first).to_be_visible()
    expect(canvas.locator(".hr-edge.on").first).to_be_attached()
    expect(canvas.locator(".hr-edge-label").filter(has_text="/s").first).to_be_visible()
    snap(page, "lineage.png", 1500)
    page.get_by_role("button", name="Light or dark").click()
    snap(page, "lineage-dark.png", 800)
    page.get_by_role("button", name="Light or dark").click()
    canvas.get_by_role("link", name="visits", exact=False).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("visits")
