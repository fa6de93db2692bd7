"""The right answer of each query, in plain Python over all events at once, and the comparison with what an engine gave.

`queries.py` says what the queries mean. An *append* query gives every row once, and is compared as a multiset. An
*updating* one gives any number of versions of a key, and the last of them is compared.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

Row = Mapping[str, Any]

KEYS: Mapping[str, tuple[str, ...]] = {"q15": ("day",), "q16": ("channel", "day"), "q17": ("auction", "day")}
LEVELS: Mapping[str, Callable[[int], bool]] = {
    "all": lambda price: True,
    "low": lambda price: price < 10_000,
    "mid": lambda price: 10_000 <= price < 1_000_000,
    "high": lambda price: price >= 1_000_000,
}


@dataclass(frozen=True)
class Verdict:
    """How the rows of an engine differ from the right ones; `given` counts all versions."""

    rows: int
    given: int
    missing: Counter[tuple[Any, ...]]
    surplus: Counter[tuple[Any, ...]]

    @property
    def equal(self) -> bool:
        """Whether they are right."""
        return not self.missing and not self.surplus

    def __str__(self) -> str:
        examples = [f"missing {row}" for row in list(self.missing)[:3]]
        examples += [f"surplus {row}" for row in list(self.surplus)[:3]]
        counts = f"{self.missing.total()} missing and {self.surplus.total()} surplus of {self.rows} rows"
        return "; ".join([counts, *examples])


def bids(records: Iterable[bytes]) -> list[Row]:
    """The bids among the records."""
    return [event for event in map(json.loads, records) if event["kind"] == "bid"]


def answer(query: str, bids: Sequence[Row]) -> list[Row]:
    """The right rows."""
    return list(_ANSWERS[query](bids))


def compare(query: str, bids: Sequence[Row], given: Iterable[Row]) -> Verdict:
    """The rows that an engine gave, in their order for each key, against the right ones.

    A row may have a `change`: `-` takes back the one that it equals otherwise.
    """
    right = answer(query, bids)
    names = list(right[0])
    versions = list(given)
    left = _totals(versions) if query == "q12" else _last(KEYS[query], versions) if query in KEYS else _left(versions)
    wanted = Counter(tuple(row[name] for name in names) for row in right)
    found = Counter(tuple(row.get(name) for name in names) for row in left)
    return Verdict(len(right), len(versions), wanted - found, found - wanted)


def _left(versions: Iterable[Row]) -> Iterator[Row]:
    """What was put there and not taken back."""
    rows: Counter[str] = Counter()
    for version in versions:
        row = {name: value for name, value in version.items() if name != "change"}
        rows[json.dumps(row)] += -1 if version.get("change") == "-" else 1
    for row, times in rows.items():
        if times < 0:
            yield {"taken back": row}
        yield from [json.loads(row)] * times


def _last(key: Sequence[str], versions: Iterable[Row]) -> Iterable[Row]:
    rows: dict[tuple[Any, ...], Row] = {}
    for version in versions:
        of = tuple(version[name] for name in key)
        if version.get("change") == "-":
            rows.pop(of, None)
        else:
            rows[of] = version
    return rows.values()


def _totals(versions: Iterable[Row]) -> list[Row]:
    """q12: which window a bid is in depends on when it was read, so only the sum of a bidder counts."""
    totals: Counter[int] = Counter()
    for version in versions:
        totals[version["bidder"]] += version["bids"]
    return [{"bidder": bidder, "bids": number} for bidder, number in totals.items()]


# The answers


def _q5(bids: Sequence[Row]) -> Iterator[Row]:
    windows: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for bid in bids:
        newest = bid["ts"] // 2_000 * 2_000
        for start in range(newest - 8_000, newest + 1, 2_000):
            windows[start][bid["auction"]] += 1
    for start, auctions in windows.items():
        most = max(auctions.values())
        yield from (
            {"window_start": start, "auction": auction, "bids": number}
            for auction, number in auctions.items()
            if number == most
        )


def _q7(bids: Sequence[Row]) -> Iterator[Row]:
    windows: defaultdict[int, list[Row]] = defaultdict(list)
    for bid in bids:
        windows[bid["ts"] // 10_000].append(bid)
    for window in windows.values():
        top = max(bid["price"] for bid in window)
        names = ("auction", "bidder", "price", "ts", "extra")
        yield from ({name: bid[name] for name in names} for bid in window if bid["price"] == top)


def _q11(bids: Sequence[Row]) -> Iterator[Row]:
    for bidder, times in _times(bids).items():
        session: list[int] = []
        for at in [*times, None]:
            if session and (at is None or at - session[-1] > 10_000):
                yield {"bidder": bidder, "bids": len(session), "first_ts": session[0], "last_ts": session[-1]}
                session = []
            if at is not None:
                session.append(at)


def _q12(bids: Sequence[Row]) -> Iterator[Row]:
    for bidder, number in Counter(bid["bidder"] for bid in bids).items():
        yield {"bidder": bidder, "bids": number}


def _q15(bids: Sequence[Row]) -> Iterator[Row]:
    for (day,), group in _groups(bids, lambda bid: (_day(bid),)):
        yield {"day": day, **_levels(group)}


def _q16(bids: Sequence[Row]) -> Iterator[Row]:
    for (channel, day), group in _groups(bids, lambda bid: (bid["channel"], _day(bid))):
        last = max(_utc(bid).strftime("%H:%M") for bid in group)
        yield {"channel": channel, "day": day, "last_minute": last, **_levels(group)}


def _q17(bids: Sequence[Row]) -> Iterator[Row]:
    for (auction, day), group in _groups(bids, lambda bid: (bid["auction"], _day(bid))):
        prices = [bid["price"] for bid in group]
        yield {
            "auction": auction,
            "day": day,
            **{f"bids_{level}": sum(map(holds, prices)) for level, holds in LEVELS.items()},
            "low_price": min(prices),
            "top_price": max(prices),
            "avg_price": sum(prices) // len(prices),
            "sum_price": sum(prices),
        }


def _sliding(bids: Sequence[Row]) -> Iterator[Row]:
    times = _times(bids)
    for bid in bids:
        mine, at = times[bid["bidder"]], bid["ts"]
        number = bisect_right(mine, at) - bisect_right(mine, at - 60_000)
        yield {"bidder": bid["bidder"], "ts": at, "bids": number}


def _times(bids: Sequence[Row]) -> dict[int, list[int]]:
    """When each bidder bid, in order."""
    times: defaultdict[int, list[int]] = defaultdict(list)
    for bid in sorted(bids, key=lambda bid: bid["ts"]):
        times[bid["bidder"]].append(bid["ts"])
    return times


def _groups(bids: Sequence[Row], key: Callable[[Row], tuple[Any, ...]]) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    for found, group in groupby(sorted(bids, key=key), key):
        yield found, list(group)


def _levels(bids: Sequence[Row]) -> Row:
    counts: dict[str, int] = {}
    for level, holds in LEVELS.items():
        chosen = [bid for bid in bids if holds(bid["price"])]
        counts[f"bids_{level}"] = len(chosen)
        counts[f"bidders_{level}"] = len({bid["bidder"] for bid in chosen})
        counts[f"auctions_{level}"] = len({bid["auction"] for bid in chosen})
    return counts


def _utc(bid: Row) -> datetime:
    return datetime.fromtimestamp(bid["ts"] / 1000, UTC)


def _day(bid: Row) -> str:
    return _utc(bid).strftime("%Y-%m-%d")


_ANSWERS: Mapping[str, Callable[[Sequence[Row]], Iterator[Row]]] = {
    "q5": _q5,
    "q7": _q7,
    "q11": _q11,
    "q12": _q12,
    "q15": _q15,
    "q16": _q16,
    "q17": _q17,
    "sliding": _sliding,
}
