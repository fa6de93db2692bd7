"""Queries: batches and phases, what went wrong with its place, stop and start asked for and written down."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect
from tests.console.conftest import Go, Snap
from tests.console.stage import Stage, Traffic, iso

from headrace.engine import commands
from headrace.log import catalogue

ERROR = """HR-310  a query failed

  The query `large_orders` failed: [DIVIDE_BY_ZERO] Division by zero.

  at app.py:55
      55 |     return orders.where("amount >= 500")

  found: the row of orders[1]@4711
  fix: correct what the cause names
  more: headrace explain HR-310"""
TRACE = (
    "org.apache.spark.SparkException: Job aborted\n\tat org.apache.spark.scheduler.DAGScheduler.<b>abort</b>(x.scala:1)"
)


def test_a_query_is_stopped_and_started(go: Go, page: Page, stage: Stage, traffic: Traffic, snap: Snap):
    go("/queries")
    page.get_by_role("button", name="Stop order_map", exact=True).click()
    expect(page.get_by_role("alertdialog")).to_contain_text("its input waits in the log")
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_text("order_map is being stopped")).to_be_visible()
    run = next(one for one in stage.queries if one.name == "order_map")
    started = stage.progress(run.name).started_at
    assert commands.wanted(stage.settings, "shop", "order_map", started) == "stopped"
    assert commands.wanted(stage.settings, "shop", "order_map", iso(0)) == "running"
    traffic.given["order_map"] = {"state": "stopped"}
    expect(page.get_by_role("row", name="order_map live").get_by_text("stopped")).to_be_visible()
    snap(page, "queries.png", 500)
    page.get_by_role("button", name="Start order_map", exact=True).click()
    page.get_by_role("alertdialog").get_by_role("button", name="Start").click()
    expect(page.get_by_text("order_map is being started")).to_be_visible()
    assert commands.wanted(stage.settings, "shop", "order_map", started) == "running"
    traffic.given.pop("order_map")
    actions = page.get_by_role("table", name="Actions")
    expect(actions.get_by_role("row").nth(1)).to_contain_text("start")
    expect(actions.get_by_role("row").nth(1)).to_contain_text("done")


def test_a_follower_is_stopped_and_started(go: Go, page: Page, stage: Stage, traffic: Traffic):
    follower = "large_orders.sales"
    go(f"/queries/{follower}")
    expect(page.get_by_role("heading", name="Checkpoint")).to_have_count(0)
    page.get_by_role("button", name=f"Stop {follower}").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("its store stands still")
    page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
    expect(page.get_by_text(f"{follower} is being stopped")).to_be_visible()
    started = stage.progress(follower, mode="follow").started_at
    assert commands.wanted(stage.settings, "shop", follower, started) == "stopped"
    traffic.given[follower] = {"state": "stopped"}
    page.get_by_role("button", name=f"Start {follower}").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("the place that its store has recorded")
    page.get_by_role("alertdialog").get_by_role("button", name="Start").click()
    expect(page.get_by_text(f"{follower} is being started")).to_be_visible()
    assert commands.wanted(stage.settings, "shop", follower, started) == "running"
    traffic.given.pop(follower)
    lines = (stage.settings.state / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    assert [(one["action"], one["of"], one["outcome"]) for one in map(json.loads, lines[-4:])] == [
        ("stop", follower, "asked"),
        ("stop", follower, "done"),
        ("start", follower, "asked"),
        ("start", follower, "done"),
    ]


def test_a_replay_is_asked_for_and_its_name_checked(go: Go, page: Page, stage: Stage):
    go("/queries/order_map")
    page.get_by_label("Version").fill("Late!")
    page.get_by_role("button", name="Replay order_map").click()
    expect(page.get_by_text("HR-320: A version cannot be called `Late!`")).to_be_visible()
    page.get_by_label("Version").fill("v7")
    page.get_by_role("button", name="Replay order_map").click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Replay order_map as v7?")
    expect(dialog).to_contain_text("stays current")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    book = stage.settings.state / "audit.jsonl"
    assert not book.exists() or "order_map.v7" not in book.read_text(encoding="utf-8")


@pytest.mark.deep
def test_a_replay_builds_a_version(go: Go, page: Page, stage: Stage):
    """With Spark, of what the shop's topics hold."""
    go("/queries/order_map")
    page.get_by_label("Version").fill("v8")
    page.get_by_role("button", name="Replay order_map").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Replay").click()
    expect(page.get_by_text("order_map is being built as v8")).to_be_visible()
    expect(page.get_by_text("make it current: headrace promote")).to_be_visible(timeout=300_000)
    lines = (stage.settings.state / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    last = json.loads(lines[-1])
    assert (last["action"], last["of"], last["outcome"]) == ("replay", "order_map.v8", "done")
    assert "v8" in catalogue.entries(stage.connection, "shop").versions["order_map"]


def test_an_action_that_cannot_be_written_down_is_not_done(go: Go, page: Page, stage: Stage):
    book = stage.settings.state / "audit.jsonl"
    kept = book.with_suffix(".kept")
    if book.exists():
        book.rename(kept)
    book.mkdir()
    try:
        go("/queries/visits")
        page.get_by_role("button", name="Stop visits", exact=True).click()
        page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
        expect(page.get_by_role("alertdialog").get_by_role("alert")).to_contain_text("HR-543")
        started = stage.progress("visits").started_at
        assert commands.wanted(stage.settings, "shop", "visits", started) == "running"
    finally:
        book.rmdir()
        if kept.exists():
            kept.rename(book)


def test_the_batches_of_a_query(go: Go, page: Page, snap: Snap):
    go("/queries/views_per_minute")
    for name in ("Batches of views_per_minute", "Latency of views_per_minute", "Rows a second of views_per_minute"):
        expect(page.get_by_role("img", name=name)).to_be_visible()
    expect(page.get_by_text("1,200 keys in 1.34 MB")).to_be_visible()
    snap(page, "query.png", 1500)


def test_what_went_wrong_is_told_with_its_place(go: Go, page: Page, stage: Stage, traffic: Traffic, snap: Snap):
    traffic.given["large_orders"] = {
        "state": "failed",
        "error": ERROR,
        "trace": TRACE,
        "place": f"{stage.file}:55",
        "record": "orders[1]@4711",
    }
    go("/queries/large_orders")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("HR-310")
    expect(alert).to_contain_text("app.py:55")
    expect(alert).to_contain_text("orders[1]@4711")
    expect(page.get_by_text("DAGScheduler")).to_be_hidden()
    page.get_by_text("What Spark says").click()
    expect(page.get_by_text("<b>abort</b>")).to_be_visible()
    snap(page, "failure.png", 500)
    go("/")
    expect(page.get_by_role("status").filter(has_text="large_orders: failed")).to_be_visible()
    traffic.given.pop("large_orders")


def test_health_in_a_sentence(go: Go, page: Page, traffic: Traffic, snap: Snap):
    traffic.given["visits"] = {"lag": {"clicks[0]": 12_000}, "rows_per_second": 300.0}
    traffic.given["order_map.postgres"] = {"error": "log unreachable since 2026-03-01T12:03:00Z"}
    traffic.given["long_visits"] = {"pid": 1, "started_at": "2020-01-01T00:00:00Z"}
    go("/")
    table = page.get_by_role("table", name="Queries and followers")
    expect(table).to_contain_text("behind by 12,000 events: 40s at this pace")
    expect(table).to_contain_text("log unreachable since 2026-03-01")
    expect(table).to_contain_text("no sign of life since")
    snap(page, "trouble.png", 500)
    for name in ("visits", "order_map.postgres", "long_visits"):
        traffic.given.pop(name)
