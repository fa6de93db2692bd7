"""`headrace certify`: a short run with a few kills, of an app with a stream, a window and a view."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

KILLS = int(os.environ.get("HEADRACE_KILLS", "2"))

APP = """
import headrace as hr

app = hr.App("certified")
app.stream("payments", schema="id string, card string, amount double, at timestamp", event_time="at",
           delay="5 seconds", id="id", key="card")


@app.stream(topic="large")
def large(payments):
    return hr.dedupe(payments, by="id", within="1 hour").where("amount > 100")


@app.stream(topic="minutes")
def minutes(payments):
    return hr.window(payments, hr.tumbling("10 seconds"), by="card", n=hr.count(), most=hr.max("amount"))


@app.view(key="card")
def cards(payments):
    return hr.window(payments, hr.global_(every=1), by="card", n=hr.count(), most=hr.max("amount"))
"""


def test_nothing_is_lost_doubled_or_wrong(tmp_path: Path):
    seed = int(os.environ.get("HEADRACE_SEED", random.randrange(1_000_000)))
    file = tmp_path / "app.py"
    file.write_text(APP)
    command = [str(Path(sys.executable).with_name("headrace")), "certify", str(file), "--json"]
    command += ["--kills", str(KILLS), "--seed", str(seed), "--rate", "50"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300 + 120 * KILLS)
    assert done.returncode == 0, done.stdout + done.stderr
    certificate = json.loads(done.stdout)
    assert certificate["holds"]
    assert sum(certificate["kills"].values()) == KILLS
    verdicts = {one["output"]: one for one in certificate["verdicts"]}
    assert set(verdicts) == {
        "topic large",
        "topic minutes",
        "view cards, topic",
        "view cards, table",
        "dead letters of payments",
    }
    assert all(one["rows"] > 0 for one in verdicts.values())
