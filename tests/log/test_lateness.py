"""What a delay would have covered, from records whose lateness is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from headrace.log.consumer import Record
from headrace.log.lateness import observe

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def record(partition: int, offset: int, seconds: float | None) -> Record:
    value = (
        b"not json" if seconds is None else json.dumps({"at": (NOON + timedelta(seconds=seconds)).isoformat()}).encode()
    )
    return Record("t", partition, offset, 0, None, value)


def test_an_event_is_as_late_as_its_partition_is_ahead_of_it():
    seen = observe([record(0, 0, 10), record(1, 0, 0), record(0, 1, 7), record(0, 2, 12), record(1, 1, 0.5)], "at")
    assert seen.milliseconds == (0, 0, 0, 0, 3000)
    assert seen.unread == 0


def test_a_delay_covers_what_is_not_later():
    seen = observe([record(0, 0, 1000), *(record(0, n + 1, 1000 - n) for n in range(100))], "at")
    assert seen.delay(0.5) == 49_000
    assert seen.delay(0.99) == 98_000
    assert seen.delay(0.9999) == 99_000
    assert seen.covered(50_000) == pytest.approx(52 / 101)
    assert seen.covered(99_000) == 1
    assert seen.covered(0) == pytest.approx(2 / 101)


def test_part_of_a_millisecond_counts_as_one():
    seen = observe([record(0, 0, 1), record(0, 1, 0.9999)], "at")
    assert seen.milliseconds == (0, 1)


def test_what_cannot_be_read_is_counted():
    assert observe([record(0, 0, None), record(0, 1, 1)], "at").unread == 1
    assert observe([record(0, 0, 1)], "nope").unread == 1
    with pytest.raises(ValueError, match="no event"):
        observe([], "at").delay(0.5)


def test_the_histogram_has_every_event_once():
    seen = observe([record(0, 0, 100), *(record(0, n, 100 - n) for n in range(1, 40))], "at")
    histogram = seen.histogram()
    assert sum(count for _, count in histogram) == 40
    assert histogram[0] == (0, 1)
    assert [bound for bound, _ in histogram[1:]] == [1 << n for n in range(len(histogram) - 1)]
