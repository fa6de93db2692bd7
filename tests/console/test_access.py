"""The console without a mouse and without eyes: every control has a name, and the keyboard reaches and works it."""

from __future__ import annotations

from playwright.sync_api import Page, expect
from tests.console.conftest import Go

PATHS = (
    "/",
    "/lineage",
    "/queries",
    "/queries/visits",
    "/letters",
    "/node/clicks",
    "/node/order_map",
    "/dashboard/traffic",
)
NAMELESS = """() => [...document.querySelectorAll('a, button, input, select, summary, [tabindex], [role=img]')]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.getAttribute('aria-label') || one.innerText.trim() || one.title
    || (one.labels && [...one.labels].some((label) => label.innerText.trim()))))
  .map((one) => one.outerHTML.slice(0, 200))"""
FOCUSED = """() => { const one = document.activeElement;
  return (one.getAttribute('aria-label') || one.innerText || one.title || '').trim().split('\\n').pop(); }"""


def test_every_control_has_a_name(go: Go):
    for path in PATHS:
        page = go(path)
        page.wait_for_timeout(300)
        assert page.evaluate(NAMELESS) == [], path
        expect(page.get_by_role("main")).to_have_count(1)
        expect(page.get_by_role("navigation", name="Pages")).to_have_count(1)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)


def test_the_keyboard_reaches_and_works_the_controls(go: Go, page: Page):
    go("/queries")
    stop = page.get_by_role("button", name="Stop visits", exact=True)
    expect(stop).to_be_visible()
    reached: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
        if reached[-1] == "Stop visits":
            break
    assert reached[-1] == "Stop visits"
    assert {"Overview", "Light or dark", "visits"} <= set(reached)
    outline = stop.evaluate("one => getComputedStyle(one).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_be_visible()
    page.wait_for_function(
        "one => one.closest('.q-dialog').contains(document.activeElement)", arg=dialog.element_handle()
    )
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED) in ("Cancel", "Stop")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
