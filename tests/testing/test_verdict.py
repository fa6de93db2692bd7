"""What is lost, duplicated and wrong: of a stream row by row, of a view by its keys."""

from __future__ import annotations

import json
from collections import Counter

from headrace.testing.verdict import Verdict, _of_view  # pyright: ignore[reportPrivateUsage]


def rows(**counts: int | None) -> Counter[str]:
    return Counter(json.dumps({"key": key, "n": n}) for key, n in counts.items())


def verdict(found: Counter[str], without: Counter[str], whole: Counter[str]) -> tuple[int, int, int, int]:
    one: Verdict = _of_view("view", found, without, whole, ("key",))
    return one.rows, one.lost, one.duplicated, one.wrong


def test_of_a_row_that_the_closing_events_change_either_answer_is_right():
    assert verdict(rows(a=1, b=2), rows(a=1, b=2), rows(a=1, b=3, c=1)) == (2, 0, 0, 0)
    assert verdict(rows(a=1, b=3, c=1), rows(a=1, b=2), rows(a=1, b=3, c=1)) == (2, 0, 0, 0)


def test_a_key_of_both_answers_must_be_there():
    assert verdict(rows(a=1), rows(a=1, b=2), rows(a=1, b=3)) == (2, 1, 0, 0)
    assert verdict(rows(), rows(a=1, b=2), rows(a=1, b=3)) == (2, 2, 0, 0)


def test_a_row_of_neither_answer_is_wrong():
    assert verdict(rows(a=1, b=4), rows(a=1, b=2), rows(a=1, b=3)) == (2, 0, 0, 1)
    assert verdict(rows(a=2), rows(a=1), rows(a=1)) == (1, 1, 0, 1)


def test_a_row_with_a_null_in_its_key_is_in_no_view():
    null = Counter([json.dumps({"key": None, "n": 1})])
    assert verdict(rows(a=1), rows(a=1) + null, rows(a=1) + null) == (1, 0, 0, 0)
    assert verdict(rows(a=1) + null, rows(a=1) + null, rows(a=1) + null) == (1, 0, 0, 1)
