"""The examples of the property tests: the same for a seed, different from each other, and shrunk as far as they go."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.operators import cards
from tests.operators.cards import Event, History
from tests.operators.history import drawn, reductions, shrunk, weight

HISTORIES = 200


@pytest.fixture(scope="module")
def examples() -> list[History]:
    shape = drawn(cards.SHAPES, 10, of="any")[-1]
    return drawn(cards.histories(shape), HISTORIES, of="any")


def test_a_seed_gives_the_same_histories_and_another_seed_others():
    shape = drawn(cards.SHAPES, 10, of="any")[-1]
    strategy = cards.histories(shape)
    assert repr(drawn(strategy, 20, of="a seed")) == repr(drawn(strategy, 20, of="a seed"))
    assert repr(drawn(strategy, 20, of="a seed")) != repr(drawn(strategy, 20, of="another"))


def test_other_modules_do_not_change_what_a_seed_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    strategy = cards.histories(drawn(cards.SHAPES, 10, of="any")[-1])
    before = repr(drawn(strategy, 50, of="a seed"))
    numbers = ", ".join(str(number) for number in range(1000))
    (tmp_path / "full_of_numbers.py").write_text(f"NUMBERS = [{numbers}]\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("full_of_numbers")
    assert repr(drawn(strategy, 50, of="a seed")) == before
    del sys.modules["full_of_numbers"]


def test_histories_hold_what_can_go_wrong(examples: list[History]):
    assert len({repr(one) for one in examples}) == HISTORIES
    assert {one.shop for one in examples} == {"a", "", None}
    events = [event for one in examples for event in one.events]
    amounts = [event.amount for event in events]
    assert {None, math.inf, -math.inf} <= set(amounts)
    assert any(amount is not None and math.isnan(amount) for amount in amounts)
    assert {None, cards.LARGE, -cards.LARGE} <= {event.n for event in events}
    assert {event.copies for event in events} == {1, 2, 3}
    for found in (
        sum(event.at is None for event in events),
        sum(event.late for event in events),
        sum(event.behind > 500 for event in events),
        sum(len({event.at for event in one.events}) < len(one.events) for one in examples),
        sum(len(one.events) > 4 for one in examples),
    ):
        assert found >= 20


def runs(fails: Callable[[History], bool]) -> Callable[[Sequence[History]], list[int]]:
    return lambda some: [number for number, one in enumerate(some) if fails(one)]


@pytest.mark.parametrize(
    ("fails", "smallest"),
    [
        (lambda one: any(event.n is None for event in one.events), [Event(0, n=None)]),
        (lambda one: any(event.copies == 3 for event in one.events), [Event(0, copies=3)]),
        (lambda one: len(one.events) >= 2 and one.shop is None, [Event(0), Event(0)]),
        (lambda one: any((event.at or 0) >= 7_000_000 for event in one.events), [Event(7_000_000)]),
    ],
    ids=["one value", "copies", "two events", "a time"],
)
def test_a_history_that_fails_is_made_small(
    examples: list[History], fails: Callable[[History], bool], smallest: list[Event]
):
    failing = [one for one in examples if fails(one) and len(one.events) > 3]
    for history in failing[:5]:
        found = shrunk(history, runs(fails))
        assert found is not None
        assert fails(found)
        assert weight(found)[:2] <= weight(History(tuple(smallest), found.shop))[:2]


def test_one_that_fails_only_in_company_is_told_apart(examples: list[History]):
    assert shrunk(examples[-1], lambda some: [0] if len(some) > 1 else []) is None


def test_every_step_is_simpler(examples: list[History]):
    for history in examples[:50]:
        steps = list(reductions(history))
        assert len({repr(one) for one in steps}) == len(steps)
        assert all(weight(one) < weight(history) for one in steps)
