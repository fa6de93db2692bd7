"""Queries that fall behind, by what they have told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from headrace.doctor import pace
from headrace.doctor.finding import Weight
from headrace.engine.progress import Progress

START = datetime(2026, 1, 1, tzinfo=UTC)


def told(seconds: float, **given) -> Progress:
    base = Progress(
        app="a", query="q", mode="exact", state="running", at=(START + timedelta(seconds=seconds)).isoformat(),
        started_at=START.isoformat(), pid=1, rows_in=int(100 * seconds), batch_ms=200,
    )  # fmt: skip
    return replace(base, **given)


def diseases(*history: Progress) -> list[str]:
    return [finding.disease for finding in pace.examine(history)]


def test_a_query_that_keeps_up_has_nothing():
    assert diseases(told(0, lag={"t[0]": 5000}), told(30, lag={"t[0]": 4000})) == []
    assert diseases() == []
    assert diseases(told(0)) == []


def test_a_short_look_says_nothing():
    assert diseases(told(0, lag={"t[0]": 0}), told(5, lag={"t[0]": 9000})) == []


def test_lag_that_grows_in_one_partition_is_skew():
    history = told(0, lag={"t[0]": 0, "t[1]": 0}), told(60, lag={"t[0]": 90_000, "t[1]": 20})
    (finding,) = pace.examine(history)
    assert finding.weight is Weight.AILING
    assert "skewed" in finding.disease
    assert "t[0] alone is 90,000 behind, the others 20" in finding.evidence


def test_lag_that_grows_everywhere_is_a_slow_query():
    history = told(0, lag={"t[0]": 10, "t[1]": 0}), told(60, lag={"t[0]": 9_000, "t[1]": 8_000})
    assert diseases(*history) == ["it falls behind in all partitions"]


def test_one_partition_is_too_few():
    history = told(0, lag={"t[0]": 10}), told(60, lag={"t[0]": 9_000})
    assert diseases(*history) == ["it falls behind: one partition is read by one task"]


def test_slow_batches_and_swollen_state():
    assert diseases(told(0, rows_in=0), told(60, rows_in=10, batch_ms=20_000)) == [
        "batches take long though little comes in"
    ]
    assert diseases(told(0, state_bytes=1000), told(60, state_bytes=100_000_000)) == ["the state only grows"]


def test_only_the_last_run_counts():
    before = [replace(one, started_at="2025-12-31T00:00:00+00:00") for one in (told(0), told(60, state="failed"))]
    assert diseases(*before, told(100), told(160)) == []
    assert diseases(told(0), told(60, state="failed", error="boom")) == ["the query has failed"]
