"""The payments demo whole: it prints the link, and who opens it sees numbers move, an alert and the lineage."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, expect
from tests.console.conftest import Snap

DEMO = Path(__file__).parents[2] / "examples" / "payments" / "demo.py"
START_S = 300


def test_the_demo_in_the_browser(browser: Browser, tmp_path: Path, snap: Snap):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
    said = tmp_path / "said"
    with said.open("w") as output:
        demo = subprocess.Popen(
            [sys.executable, DEMO, "--directory", tmp_path], env=inherited, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        until = time.monotonic() + START_S
        while "see it move: http" not in said.read_text():
            assert demo.poll() is None, said.read_text()
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.2)
        link = said.read_text().partition("see it move: ")[2].split()[0]
        context = browser.new_context(viewport={"width": 1440, "height": 1180}, reduced_motion="reduce")
        page = context.new_page()
        page.goto(link)
        expect(page.get_by_role("heading", name="payments", level=1)).to_be_visible()
        line = page.get_by_role("table", name="Queries and followers").get_by_role("row").filter(has_text="alerts")
        expect(line).to_contain_text("keeping up", timeout=120_000)
        records = page.get_by_role("table", name="records").get_by_role("row")
        expect(records.nth(2)).to_be_visible(timeout=120_000)
        newest = records.nth(1).inner_text()
        expect(records.nth(1)).not_to_have_text(newest)
        lineage = page.get_by_role("group", name="Lineage")
        for name in ("transactions", "unique", "alerts"):
            expect(lineage.get_by_text(name, exact=True)).to_be_visible()
        expect(lineage.locator(".hr-edge.on").first).to_be_attached()
        expect(page.get_by_role("group", name="Latency, record to result")).not_to_contain_text("–")
        if os.environ.get("HEADRACE_PICTURES"):  # the newest results are those of a warm JVM
            latency = page.get_by_role("group", name="Latency, record to result")
            expect(latency).to_contain_text(re.compile(r"p99 \d+ ms"), timeout=240_000)
        snap(page, "demo.png", 15_000)
        page.goto(f"{link.partition('?')[0]}queries/alerts")
        page.get_by_role("button", name="Stop alerts").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status").filter(has_text="stopped").first).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Start alerts").click()
        page.get_by_role("alertdialog").get_by_role("button", name="Start").click()
        expect(page.get_by_role("status").filter(has_text="keeping up").first).to_be_visible(timeout=60_000)
        context.close()
        demo.send_signal(signal.SIGINT)
        assert demo.wait(120) == 0, said.read_text()
        assert "missing 0, wrong 0" in said.read_text()
    finally:
        demo.kill()
        demo.wait()
