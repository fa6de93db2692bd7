"""Dead letters and late rows: why, where from, inert; put back one by one or all, asked and written down."""

from __future__ import annotations

import json

from playwright.sync_api import Page, expect
from tests.console.conftest import Go, Snap
from tests.console.stage import Stage

from headrace.log import dead


def test_letters_are_shown_and_put_back(go: Go, page: Page, stage: Stage, snap: Snap):
    go("/letters")
    table = page.get_by_role("table", name="Dead letters of clicks")
    expect(table.get_by_role("row").nth(3)).to_be_visible()
    expect(table).to_contain_text("the JSON ends too early")
    expect(table).to_contain_text("hidden: this stream has secret fields")
    expect(page.get_by_role("table", name="Late rows of views_per_minute").get_by_role("row").nth(4)).to_be_visible()
    assert page.title() == "Letters · shop"
    assert "eve" not in table.inner_text().replace("event", "")
    snap(page, "letters.png", 500)

    pending = dead.pending(stage.connection, "clicks")
    table.get_by_role("button", name="Put the record of").first.click()
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Put 1 dead letter back into clicks?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert dead.pending(stage.connection, "clicks") == pending
    table.get_by_role("button", name="Put the record of").first.click()
    page.get_by_role("alertdialog").get_by_role("button", name="Put back").click()
    expect(page.get_by_text(f"1 put back into clicks, {pending - 1} pending")).to_be_visible()
    expect(page.get_by_text(f"{pending - 1} dead letters to put back")).to_be_visible()
    page.get_by_role("button", name=f"Put all {pending - 1} back").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Put back").click()
    expect(table).to_be_hidden()
    assert dead.pending(stage.connection, "clicks") == 0

    book = (stage.settings.state / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    lines = [json.loads(line) for line in book]
    assert [(one["action"], one["of"], one["outcome"]) for one in lines[-2:]] == [
        ("put back", "clicks", "asked"),
        ("put back", "clicks", "done"),
    ]
    assert all((one["user"], one["address"]) == ("token", "127.0.0.1") for one in lines)
