"""Cards: histories for windows, drawn by hypothesis, and the orders in which their rows are sent.

In a history there are ties, times at the edges of windows and gaps, values that are null, NaN, infinite or large,
columns of the key that are null, rows that come more than once, out of order as far as is allowed or when everything is
over, and rows without a time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from tests.operators.history import SECOND

SCHEMA = "id string, card string, shop string, amount double, n bigint, at timestamp"
LARGE = 2**57  # so that the sum of a history fits

Row = Mapping[str, Any]


# What is drawn


@dataclass(frozen=True)
class Shape:
    """What the histories of a run have in common; lengths are milliseconds."""

    start: datetime
    delay: int
    lateness: int
    size: int
    every: int
    offset: int
    gap: int
    rows: int

    def later(self, microseconds: int) -> datetime:
        return self.start + timedelta(microseconds=microseconds)


@dataclass(frozen=True)
class Event:
    """An event of a card.

    `at` is microseconds after the start of the run, `behind` how far it is out of order in thousandths of what is
    allowed, `copies` how often it is sent; one that is `late` comes when every window is over.
    """

    at: int | None = 0
    behind: int = 0
    amount: float | None = 0.0
    n: int | None = 0
    copies: int = 1
    late: bool = False


@dataclass(frozen=True)
class History:
    events: tuple[Event, ...]
    shop: str | None = "a"


SHAPES = st.builds(
    lambda start, delay, lateness, hops, *rest: Shape(start, delay, lateness, hops[0], hops[1], *rest),
    st.sampled_from(
        [
            datetime(2026, 3, 1, tzinfo=UTC),
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(2099, 12, 31, 23, 59, tzinfo=UTC),
        ]
    ),
    st.sampled_from([20_000, 1000, 5001]),
    st.sampled_from([40_000, 12_345, 25_000, 1]),
    st.sampled_from([(30_000, 12_000), (10_000, 2000), (9001, 4000), (7000, 7000), (20_000, 15_000), (1000, 999)]),
    st.integers(0, 40_000),
    st.sampled_from([10_000, 3333, 25_000, 8000, 1]),
    st.integers(2, 4),
)


def histories(shape: Shape) -> st.SearchStrategy[History]:
    """Histories whose times like the edges of the windows and gaps of the shape."""
    edges = sorted({SECOND, *(1000 * length for length in (shape.size, shape.every, shape.gap, shape.lateness))})
    edge = st.builds(lambda length, beside: max(0, length + beside), st.sampled_from(edges), st.integers(-1, 1))
    step = st.one_of(st.sampled_from([0, 0, 1]), edge, st.integers(0, 3 * SECOND), st.integers(0, 30 * SECOND))
    amount = st.one_of(
        st.integers(-20, 40).map(lambda quarters: quarters / 4),
        st.sampled_from([None, 0.0, -0.0, 1e12, math.nan, math.inf, -math.inf]),
    )
    number = st.one_of(st.integers(0, 4), st.sampled_from([None, LARGE, -LARGE]))
    rarely = st.integers(0, 15).map(lambda die: die == 15)
    event = st.builds(
        lambda step, dateless, *rest: (step, dateless, Event(0, *rest)),
        step,
        rarely,
        st.integers(0, 999),
        amount,
        number,
        st.sampled_from([1, 1, 1, 1, 2, 3]),
        rarely,
    )

    def history(start: int, steps: Sequence[tuple[int, bool, Event]], shop: str | None) -> History:
        events: list[Event] = []
        for step, dateless, one in steps:
            start += step
            at = None if dateless else start
            events.append(Event(at, one.behind, one.amount, one.n, one.copies, one.late))
        return History(tuple(events), shop)

    begin = st.one_of(st.integers(0, 20 * SECOND), edge)
    return st.builds(history, begin, st.lists(event, min_size=1, max_size=12), st.sampled_from(["a", "", None]))


# What is sent: the rows of all histories, in an order


@dataclass(frozen=True)
class Feed:
    """What a source is sent: `rows` in their order, then, when every window is over, those that are `late`."""

    rows: list[Row]
    late: list[Row]
    dead: list[Row]
    by_card: bool = False


def row(number: int, place: int, history: History, shape: Shape) -> Row:
    event = history.events[place]
    return {
        "id": f"{number}-{place}",
        "card": None if number == 0 else f"c{number}",
        "shop": history.shop,
        "amount": event.amount,
        "n": event.n,
        "at": None if event.at is None else shape.later(event.at),
    }


def shuffled(histories: Sequence[History], shape: Shape, by: int) -> Feed:
    """Each row out of order by less than `by` milliseconds; its copies come apart."""
    arriving: list[tuple[int, Row]] = []
    late: list[Row] = []
    for number, history in enumerate(histories):
        for place, event in enumerate(history.events):
            one = row(number, place, history, shape)
            for copy in range(event.copies):
                if event.late and event.at is not None:
                    late.append(one)
                else:
                    arriving.append(((event.at or 0) + by * ((event.behind + 400 * copy) % 1000), one))
    rows = [one for _, one in sorted(arriving, key=lambda pair: pair[0])]
    return Feed([one for one in rows if one["at"]], late, [one for one in rows if not one["at"]])


def in_order(histories: Sequence[History], shape: Shape) -> Feed:
    """The rows of a card in the order of time, no two at the same time, and all in one partition."""
    rows: dict[tuple[int, int], Row] = {}
    late: list[Row] = []
    for number, history in enumerate(histories):
        for place, event in enumerate(history.events):
            one = row(number, place, history, shape)
            if event.at is not None and event.late:
                late.append(one)
            elif event.at is not None:
                rows.setdefault((event.at, number), one)
    return Feed([rows[when] for when in sorted(rows)], late, [], by_card=True)


def padded(histories: Sequence[History], shape: Shape) -> Feed:
    """Of each card a number of rows that a global window tells all of: some of its last one follow at the end."""
    feed = shuffled(histories, shape, shape.delay)
    of: defaultdict[str, list[Row]] = defaultdict(list)
    for one in (*feed.rows, *feed.late):
        of[str(one["card"])].append(one)
    more = [rows[-1] for rows in of.values() for _ in range(-len(rows) % shape.rows)]
    return Feed(feed.rows, [*feed.late, *more], feed.dead)


FEEDS: dict[str, Callable[[Sequence[History], Shape], Feed]] = {
    "steady": lambda histories, shape: shuffled(histories, shape, shape.delay),
    "tardy": lambda histories, shape: shuffled(histories, shape, shape.delay + shape.lateness),
    "ordered": in_order,
    "padded": padded,
}


def number_of(row: Row) -> int:
    """The number of the history that a row, or a result, is of."""
    card = row.get("card")
    return 0 if card is None else int(card[1:])
