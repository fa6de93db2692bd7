"""Histories: the examples of the property tests of operators, drawn by hypothesis and shrunk in a run.

**One example is one history**: what happens to one key, from its first event to its last. Histories do not touch each
other, so one run of an app checks as many as it has keys, in every emission that the app declares. `drawn` asks
hypothesis for them one by one; the same seed gives the same ones.

When some fail, `shrunk` makes one of them small: it gives every history that is a step simpler a key of its own, runs
them all at once, goes on with the simplest that still fails, and ends when none does or it has taken long enough.
"""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.strategies import SearchStrategy

SECOND = 1_000_000
MOST_SECONDS = 240  # so that a failure is told before the time of a test is over


class History(Protocol):
    """A frozen dataclass of events, which are frozen dataclasses too; a field at its default is as simple as can be."""

    @property
    def events(self) -> tuple[Any, ...]: ...


class Seeded(HypothesisProvider):
    """Hypothesis without the constants of whatever modules are loaded, so that the seed alone decides."""

    def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
        return None


AVAILABLE_PROVIDERS["seeded"] = Seeded  # type: ignore[assignment]

H = TypeVar("H", bound=History)
T = TypeVar("T")


def drawn(strategy: SearchStrategy[T], count: int, *, of: object) -> list[T]:
    """So many different examples, the same for the same `of`."""
    found: dict[str, T] = {}

    @seed(zlib.crc32(str(of).encode()))
    @settings(
        max_examples=2 * count,
        backend="seeded",
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
    @given(strategy)
    def collect(example: T) -> None:
        if len(found) < count:
            found[repr(example)] = example

    collect()
    assert len(found) == count, f"hypothesis found only {len(found)} different examples"
    return list(found.values())


def shrunk(history: H, failing: Callable[[Sequence[H]], Collection[int]]) -> H | None:
    """The simplest history on the way down that fails by itself; None when it fails only in company.

    `failing` runs histories side by side and says which of them fail, by their numbers.
    """
    if not failing([history]):
        return None
    until = time.monotonic() + MOST_SECONDS
    while time.monotonic() < until:
        candidates = sorted(reductions(history), key=weight)
        failed = failing(candidates) if candidates else ()
        if not failed:
            break
        history = candidates[min(failed)]
    return history


def reductions(history: H) -> Iterator[H]:
    """Every history that is a step simpler, each once."""
    seen = {repr(history)}
    for one in _reductions(history):
        if repr(one) not in seen and weight(one) < weight(history):
            seen.add(repr(one))
            yield one


def weight(history: History) -> tuple[int, int, int]:
    """How complicated a history is: events, then what is not at its default, then how large the numbers are."""
    values = [pair for part in (history, *history.events) for pair in _values(part)]
    numbers = sum(abs(value) for _, value, _ in values if isinstance(value, int))
    return len(history.events), sum(value != default for _, value, default in values), numbers


def _reductions(history: H) -> Iterator[H]:
    events = history.events
    middle = len(events) // 2
    shorter = [events[:middle], events[middle:], *(events[:n] + events[n + 1 :] for n in range(len(events)))]
    for some in shorter:
        if some:
            yield dataclasses.replace(history, events=some)  # type: ignore[type-var]
    yield from _simpler(history)
    for number, event in enumerate(events):
        for simple in _simpler(event):
            yield dataclasses.replace(history, events=(*events[:number], simple, *events[number + 1 :]))  # type: ignore[type-var]
    if simple := [next(_defaults(event), event) for event in events]:
        yield dataclasses.replace(history, events=tuple(simple))  # type: ignore[type-var]


def _simpler(part: Any) -> Iterator[Any]:
    """The part with one field simpler."""
    for name, value, default in _values(part):
        if value != default:
            yield dataclasses.replace(part, **{name: default})
        if isinstance(value, int) and not isinstance(value, bool):
            yield dataclasses.replace(part, **{name: value // SECOND * SECOND})
            yield dataclasses.replace(part, **{name: value // 2})


def _defaults(event: Any) -> Iterator[Any]:
    """The event with everything but its first field at its default."""
    yield dataclasses.replace(event, **{name: default for name, _, default in list(_values(event))[1:]})


def _values(part: Any) -> Iterator[tuple[str, Any, Any]]:
    for field in dataclasses.fields(part):
        if field.name != "events":
            yield field.name, getattr(part, field.name), field.default
