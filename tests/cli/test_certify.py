"""`headrace certify`: short runs with a few faults, of an app with a stream and a view and the readers behind them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

KILLS = int(os.environ.get("HEADRACE_KILLS", "2"))
OF_A_VIEW = ("topic", "table")

APP = """
import headrace as hr

app = hr.App("certified")
app.stream("payments", schema="id string, card string, amount double, note string, at timestamp", event_time="at",
           delay="5 seconds", id="id", key="card")


@app.stream
def minutes(payments):
    return hr.window(payments, hr.tumbling("10 seconds"), by="card", n=hr.count(), most=hr.max("amount"))


@app.view(key="card")
def cards(payments):
    return hr.window(payments, hr.global_(every=1), by="card", n=hr.count(), most=hr.max("amount"))
"""


@pytest.mark.timeout(1200 + 240 * KILLS)
@pytest.mark.parametrize("mode", ["exact", "mixed"])
def test_nothing_is_lost_doubled_or_wrong(tmp_path: Path, mode: str):
    seed = int(os.environ.get("HEADRACE_SEED", random.randrange(1_000_000)))
    file = tmp_path / "app.py"
    file.write_text(APP)
    command = [str(Path(sys.executable).with_name("headrace")), "certify", str(file), "--json", "--mode", mode]
    command += ["--kills", str(KILLS), "--seed", str(seed), "--rate", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900 + 240 * KILLS)
    assert done.returncode == 0, done.stdout + done.stderr
    certificate = json.loads(done.stdout)
    assert certificate["holds"]
    assert sum(certificate["kills"].values()) == KILLS
    assert sum(certificate["starts"].values()) >= 1
    assert certificate["starts"].keys() <= ({"exact"} if mode == "exact" else {"exact", "live"})
    kept, views = ("payments", "minutes"), ("payments", "minutes", "cards")
    assert set(certificate["added"]) == {f"certify_kept_{n}" for n in kept} | {f"certify_counted_{n}" for n in views}
    verdicts = {one["output"]: one for one in certificate["verdicts"]}
    assert set(verdicts) == {
        "topic minutes",
        *(f"topic certify_kept_{name}" for name in kept),
        *(f"view {name}, {of}" for name in ("cards", *(f"certify_counted_{n}" for n in views)) for of in OF_A_VIEW),
        "dead letters of payments",
    }
    assert all(one["rows"] > 0 for one in verdicts.values())


def test_it_ends_with_all_that_it_has_started(tmp_path: Path):
    file, marked = tmp_path / "app.py", f"STARTED_BY_{tmp_path.name.upper()}"
    file.write_text(APP)
    command = [str(Path(sys.executable).with_name("headrace")), "certify", str(file), "--rate", "5"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, marked: "1"})

    def started() -> list[psutil.Process]:
        """The processes that bear the mark of this test, wherever they have got to."""
        found: list[psutil.Process] = []
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                if one.status() != psutil.STATUS_ZOMBIE and marked in one.environ():
                    found.append(one)
        return found

    def runs(command: str) -> bool:
        with suppress(psutil.Error):
            return any(command in one.cmdline()[2:3] for one in started())
        return False

    try:
        until = time.monotonic() + 120
        while not (runs("run") and runs("follow")):
            assert process.poll() is None
            assert time.monotonic() < until, [one.cmdline() for one in started()]
            time.sleep(0.2)
        process.terminate()
        assert process.wait(120) != 0
        until = time.monotonic() + 30
        while (left := started()) and time.monotonic() < until:
            time.sleep(0.2)
        assert left == []
    finally:
        for one in started():
            one.kill()
