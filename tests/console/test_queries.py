"""Queries: batches and phases, what went wrong with its place, stop and start asked for and written down."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Page, expect
from tests.console.conftest import Go
from tests.console.stage import Stage, Traffic, iso

from headrace.engine import orders

ERROR = """HR-310  a query failed

  The query `large_orders` failed: [DIVIDE_BY_ZERO] Division by zero.

  at app.py:58
      58 |     return orders.where("amount >= 500")

  found: the row of orders[1]@4711
  fix: correct what the cause names
  more: headrace explain HR-310"""
TRACE = (
    "org.apache.spark.SparkException: Job aborted\n\tat org.apache.spark.scheduler.DAGScheduler.<b>abort</b>(x.scala:1)"
)


def test_a_query_is_stopped_and_started(go: Go, page: Page, stage: Stage, traffic: Traffic, pictures: Path):
    go("/queries")
    page.get_by_role("button", name="Stop order_map").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("its input waits in the log")
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_text("order_map is being stopped")).to_be_visible()
    run = next(one for one in stage.queries if one.name == "order_map")
    started = stage.progress(run.name).started_at
    assert orders.wanted(stage.settings, "shop", "order_map", started) == "stopped"
    assert orders.wanted(stage.settings, "shop", "order_map", iso(0)) == "running"
    traffic.given["order_map"] = {"state": "stopped"}
    expect(page.get_by_role("row", name="order_map live").get_by_text("stopped")).to_be_visible()
    page.wait_for_timeout(500)
    page.screenshot(path=pictures / "queries.png")
    page.get_by_role("button", name="Start order_map").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Start").click()
    expect(page.get_by_text("order_map is being started")).to_be_visible()
    assert orders.wanted(stage.settings, "shop", "order_map", started) == "running"
    traffic.given.pop("order_map")
    actions = page.get_by_role("table", name="Actions")
    expect(actions.get_by_role("row").nth(1)).to_contain_text("start")
    expect(actions.get_by_role("row").nth(1)).to_contain_text("done")


def test_a_follower_is_stopped_and_started(go: Go, page: Page, stage: Stage, traffic: Traffic):
    follower = "large_orders.sales"
    go(f"/queries/{follower}")
    page.get_by_role("button", name=f"Stop {follower}").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("its store stands still")
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_text(f"{follower} is being stopped")).to_be_visible()
    started = stage.progress(follower, mode="follow").started_at
    assert orders.wanted(stage.settings, "shop", follower, started) == "stopped"
    traffic.given[follower] = {"state": "stopped"}
    page.get_by_role("button", name=f"Start {follower}").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("the place that its store has recorded")
    page.get_by_role("alertdialog").get_by_role("button", name="Start").click()
    expect(page.get_by_text(f"{follower} is being started")).to_be_visible()
    assert orders.wanted(stage.settings, "shop", follower, started) == "running"
    traffic.given.pop(follower)
    lines = (stage.settings.state / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    assert [(one["action"], one["of"], one["outcome"]) for one in map(json.loads, lines[-4:])] == [
        ("stop", follower, "asked"),
        ("stop", follower, "done"),
        ("start", follower, "asked"),
        ("start", follower, "done"),
    ]


def test_an_action_that_cannot_be_written_down_is_not_done(go: Go, page: Page, stage: Stage):
    book = stage.settings.state / "audit.jsonl"
    kept = book.with_suffix(".kept")
    if book.exists():
        book.rename(kept)
    book.mkdir()
    try:
        go("/queries/visits")
        page.get_by_role("button", name="Stop visits").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
        expect(page.get_by_role("alertdialog").get_by_role("alert")).to_contain_text("HR-543")
        started = stage.progress("visits").started_at
        assert orders.wanted(stage.settings, "shop", "visits", started) == "running"
    finally:
        book.rmdir()
        if kept.exists():
            kept.rename(book)


def test_the_batches_of_a_query(go: Go, page: Page, pictures: Path):
    go("/queries/views_per_minute")
    expect(page.get_by_role("img", name="Batches of views_per_minute")).to_be_visible()
    expect(page.get_by_text("1,200 keys in 1.34 MB")).to_be_visible()
    page.wait_for_timeout(1500)
    page.screenshot(path=pictures / "query.png")


def test_what_went_wrong_is_told_with_its_place(go: Go, page: Page, stage: Stage, traffic: Traffic, pictures: Path):
    traffic.given["large_orders"] = {
        "state": "failed",
        "error": ERROR,
        "trace": TRACE,
        "place": f"{stage.file}:58",
        "record": "orders[1]@4711",
    }
    go("/queries/large_orders")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("HR-310")
    expect(alert).to_contain_text("app.py:58")
    expect(alert).to_contain_text("orders[1]@4711")
    expect(page.get_by_text("DAGScheduler")).to_be_hidden()
    page.get_by_text("What Spark says").click()
    expect(page.get_by_text("<b>abort</b>")).to_be_visible()
    page.wait_for_timeout(500)
    page.screenshot(path=pictures / "failure.png")
    go("/")
    expect(page.get_by_role("status").filter(has_text="large_orders: failed")).to_be_visible()
    traffic.given.pop("large_orders")


def test_health_in_a_sentence(go: Go, page: Page, traffic: Traffic, pictures: Path):
    traffic.given["visits"] = {"lag": {"clicks[0]": 12_000}, "rows_per_second": 300.0}
    traffic.given["order_map.postgres"] = {"error": "log unreachable since 2026-03-01T12:03:00Z"}
    traffic.given["long_visits"] = {"pid": 1, "started_at": "2020-01-01T00:00:00Z"}
    go("/")
    table = page.get_by_role("table", name="Queries and followers")
    expect(table).to_contain_text("behind by 12,000 events: 40s at this pace")
    expect(table).to_contain_text("log unreachable since 2026-03-01")
    expect(table).to_contain_text("no sign of life since")
    page.wait_for_timeout(500)
    page.screenshot(path=pictures / "trouble.png")
    for name in ("visits", "order_map.postgres", "long_visits"):
        traffic.given.pop(name)
