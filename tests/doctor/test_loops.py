"""Loops that stand still, by what they have told; in the words of `headrace status`."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psutil

from headrace.doctor import loops
from headrace.doctor.finding import Finding, Weight
from headrace.engine import progress
from headrace.engine.health import STILL_S, health
from headrace.engine.progress import Progress

NOW = datetime.now(UTC)


def ago(seconds: float) -> str:
    return progress.moment((NOW - timedelta(seconds=seconds)).timestamp())


def told(**given) -> Progress:
    started = progress.moment(psutil.Process(os.getpid()).create_time())
    base = Progress(
        app="a", query="orders.webhook", mode="follow", state="running", at=ago(0), started_at=started, pid=os.getpid(),
        doing="reading", step=ago(0), lag={"orders[0]": 0},
    )  # fmt: skip
    return replace(base, **given)


def found(one: Progress) -> list[Finding]:
    return list(loops.examine([one], NOW))


def test_one_that_gets_on_has_nothing():
    assert found(told()) == []
    assert found(told(step=ago(STILL_S - 1))) == []
    assert found(told(state="stopped", step=ago(1000))) == []
    assert found(told(doing=None, step=None)) == [], "a query, whose loop is Spark's"


def test_a_loop_without_a_step():
    """Though its process writes every second, and there was nothing to read when it looked last."""
    one = told(doing="keeping its positions", step=ago(STILL_S + 60))
    (finding,) = found(one)
    assert (finding.weight, finding.disease) == (Weight.BROKEN, "its loop stands still")
    assert finding.evidence == health(one, NOW, alive=True).sentence
    assert finding.evidence.startswith("no progress since ")
    assert finding.evidence.endswith(": keeping its positions")


def test_one_that_waits_says_for_what():
    one = told(error="log unreachable since 2026-01-01T12:03:00.000Z", doing="waiting")
    (finding,) = found(one)
    assert finding.weight is Weight.AILING
    assert finding.evidence.startswith("log unreachable since 2026-01-01")
    (finding,) = found(told(error="shop.example.com does not answer: timed out"))
    assert finding.evidence == "waiting: shop.example.com does not answer: timed out"


def test_one_that_waits_and_then_hangs_stands_still():
    assert health(told(error="anything", step=ago(STILL_S + 1)), NOW, alive=True).word == "still"


def test_a_record_that_waits_for_long_is_not_kept_up_with():
    one = told(lag={"orders[0]": 1}, oldest=ago(3600))
    assert health(one, NOW, alive=True).word == "behind"
    assert "the oldest of " in health(one, NOW, alive=True).sentence


def test_a_process_that_is_gone():
    (finding,) = found(told(pid=2**22 + 1))
    assert finding.weight is Weight.NOTE
    assert finding.evidence.startswith("no sign of life since ")
