"""A view that is switched to another version while its page is open: pages show the current one, by themselves."""

from __future__ import annotations

import json
from dataclasses import replace

from playwright.sync_api import Page, expect
from tests.console.conftest import Go
from tests.console.stage import Stage

from headrace.log import catalogue
from headrace.log.topic import Topic, ensure
from headrace.names import versioned


def test_pages_show_the_current_version(go: Go, page: Page, stage: Stage):
    first = catalogue.views(stage.connection, "shop")["order_map"]
    second = replace(first, topic=versioned(first.topic, "v2"), version="v2")
    ensure(stage.connection, [Topic(second.topic, compacted=True)])
    row = {"id": "of the second version", "amount": 1.5, "lat": 0.0, "lon": 0.0}
    stage.producer.send(second.topic, json.dumps(row), key=row["id"]).wait()
    stage.progress("order_map.v2", state="running", rows_in=77)
    rows = page.get_by_role("table", name="rows")
    go("/node/order_map")
    expect(rows.get_by_role("row").nth(3)).to_be_visible()
    catalogue.publish(stage.connection, second)
    try:
        expect(page.get_by_text("topic order_map.v2", exact=True)).to_be_visible()
        expect(rows).to_contain_text("of the second version")
        assert "o1" not in rows.inner_text()
        expect(page.get_by_role("status").filter(has_text="keeping up").first).to_be_visible()
        go("/dashboard/traffic")
        expect(page.get_by_role("group", name="Largest order").locator(".hr-number")).to_have_text("1.50")
        go("/")
        table = page.get_by_role("table", name="Queries and followers")
        expect(table.get_by_role("link", name="order_map.v2", exact=True)).to_be_visible()
        lineage = page.get_by_role("group", name="Lineage")
        expect(lineage.get_by_role("link", name="view order_map").get_by_text("1 records")).to_be_visible()
    finally:
        catalogue.publish(stage.connection, first)
    go("/node/order_map")
    expect(page.get_by_text("topic order_map", exact=True)).to_be_visible()
