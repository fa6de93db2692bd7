from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from typer.testing import Result

from headrace.cli.status import line
from headrace.engine import progress
from headrace.engine.health import health, is_alive
from headrace.engine.progress import Progress
from headrace.settings import Settings

Call = Callable[..., Result]
NOW = datetime(2026, 3, 1, 12, 4, tzinfo=UTC)
RUNNING = Progress(
    app="shop", query="large", mode="exact", state="running", at=NOW.isoformat(), started_at=NOW.isoformat(), pid=1,
    rows_per_second=300.0,
)  # fmt: skip
FAILURE = "HR-310  a query failed\n\n  The query `large` failed: no such column\n\n  fix: …"


@pytest.mark.parametrize(
    ("change", "word", "sentence"),
    [
        ({}, "keeping-up", "keeping up"),
        ({"lag": {"t[0]": 700, "t[1]": 800}}, "keeping-up", "keeping up"),
        ({"lag": {"t[0]": 6000, "t[1]": 6000}}, "behind", "behind by 12,000 events: 40s at this pace"),
        ({"lag": {"t[0]": 1}, "rows_per_second": 0.0}, "behind", "behind by 1 event, and none is being read"),
        ({"state": "starting"}, "starting", f"starting since {NOW.astimezone():%H:%M}"),
        ({"state": "stopped"}, "stopped", "stopped"),
        ({"state": "failed", "error": FAILURE}, "failed", "failed: The query `large` failed: no such column"),
        ({"state": "failed"}, "failed", "failed: no reason was written"),
        ({"error": "log unreachable since 12:00"}, "waiting", "log unreachable since 12:00"),
    ],
)
def test_health_in_a_word_and_a_sentence(change: dict, word: str, sentence: str):
    found = health(replace(RUNNING, **change), NOW, alive=True)
    assert (found.word, found.sentence) == (word, sentence)


def test_a_silent_or_dead_process_gives_no_sign_of_life():
    minutes = replace(RUNNING, at=(NOW - timedelta(minutes=1)).isoformat())
    assert (
        health(minutes, NOW, alive=True).sentence
        == f"no sign of life since {NOW.astimezone() - timedelta(minutes=1):%H:%M}"
    )
    assert health(RUNNING, NOW, alive=False).word == "lost"
    days = replace(RUNNING, at=(NOW - timedelta(days=3)).isoformat())
    assert health(days, NOW, alive=True).sentence.startswith("no sign of life since 2026-02-2")


def test_what_ended_needs_no_sign_of_life():
    assert health(replace(RUNNING, state="stopped"), NOW + timedelta(days=1), alive=False).word == "stopped"
    assert health(replace(RUNNING, state="failed"), NOW + timedelta(days=1), alive=False).word == "failed"


def test_a_later_process_with_the_same_pid_does_not_count():
    mine = replace(RUNNING, pid=os.getpid(), started_at=datetime.now(UTC).isoformat())
    assert is_alive(mine)
    before = datetime.fromtimestamp(psutil.Process().create_time(), UTC) - timedelta(minutes=1)
    assert not is_alive(replace(mine, started_at=before.isoformat()))
    assert not is_alive(replace(mine, pid=2**22 + 1))


def test_an_error_cannot_reach_the_terminal_raw():
    told = line([replace(RUNNING, state="failed", error="\x1b[2Jowned")])
    assert "\x1b" not in told
    assert "\\x1b[2Jowned" in told


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    settings = Settings.load(tmp_path)
    for app, query in (("shop", "large"), ("shop", "small"), ("bank", "alerts")):
        now = datetime.now(UTC).isoformat()
        progress.write(
            settings,
            replace(RUNNING, app=app, query=query, pid=os.getpid(), started_at=now, at=now, rows_in=1234, dead=2),
        )
    return tmp_path


def test_status_shows_every_query_of_every_app(call: Call, ran: Path):
    shown = call("status").stdout
    assert [text.split()[0] for text in shown.splitlines()] == [
        "app",
        "query",
        "alerts",
        "app",
        "query",
        "large",
        "small",
    ]
    assert "keeping up" in shown
    assert "1,234" in shown


def test_status_of_one_app(call: Call, ran: Path, tmp_path_factory: pytest.TempPathFactory):
    (ran / "app.py").write_text('import headrace as hr\napp = hr.App("bank")\n')
    by_name = json.loads(call("status", "--app", "bank", "--json").stdout)
    assert [(one["query"], one["health"]["word"]) for one in by_name] == [("alerts", "keeping-up")]
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    by_file = json.loads(call("status", ran / "app.py", "--json").stdout)
    assert [one["query"] for one in by_file] == ["alerts"]
    assert [one["query"] for one in json.loads(call("status", "-C", ran, "--json").stdout)] == [
        "alerts",
        "large",
        "small",
    ]
    assert call("status", ran / "app.py", "--app", "bank").exit_code == 2


def test_status_where_nothing_ran(call: Call):
    result = call("status")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no run of an app" in result.stderr
    assert json.loads(call("status", "--json").stdout) == []


def test_watching_goes_on_until_it_is_interrupted(call: Call, ran: Path, monkeypatch: pytest.MonkeyPatch):
    seen: list[float] = []
    asleep = time.sleep

    def interrupt(seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            asleep(seconds)  # somebody else's thread
            return
        seen.append(seconds)
        if len(seen) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    result = call("status", "--watch", "--app", "bank")
    assert result.exit_code == 0
    assert result.stdout.count("alerts: keeping up") == 3
