"""The comparison of what an engine gave with the right answer.

An *append* query gives every row once, and is compared as a multiset. An *updating* one gives any number of versions of
a key, and the last of them is compared. Where ties leave a choice between bids, any of them is right, but none twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.nexmark.oracle import Row, answer, of_kind

KEYS: Mapping[str, tuple[str, ...]] = {
    "q4": ("category",),
    "q9": ("id",),
    "q15": ("day",),
    "q16": ("channel", "day"),
    "q17": ("auction", "day"),
    "q18": ("bidder", "auction"),
    "q19": ("auction", "place"),
}


@dataclass(frozen=True)
class Choice:
    """Where bids may be tied: which column of a bid each of these columns of the result is.

    Those that are `free` depend on which bid was chosen; the others must be right.
    """

    free: Mapping[str, str]
    bound: Mapping[str, str]


CHOICES: Mapping[str, Choice] = {
    "q9": Choice({"bidder": "bidder", "bid_extra": "extra"}, {"id": "auction", "price": "price", "bid_ts": "ts"}),
    "q18": Choice(
        {name: name for name in ("price", "channel", "url", "extra")},
        {name: name for name in ("auction", "bidder", "ts")},
    ),
    "q19": Choice(
        {name: name for name in ("bidder", "channel", "url", "ts", "extra")},
        {name: name for name in ("auction", "price")},
    ),
}


@dataclass(frozen=True)
class Verdict:
    """How the rows of an engine differ from the right ones; `given` counts all versions, and `unreal` are rows that are
    no bid, or one that has been taken already."""

    rows: int
    given: int
    missing: Counter[tuple[Any, ...]]
    surplus: Counter[tuple[Any, ...]]
    unreal: Counter[tuple[Any, ...]]

    @property
    def equal(self) -> bool:
        """Whether they are right."""
        return not self.missing and not self.surplus and not self.unreal

    def __str__(self) -> str:
        kinds = {"missing": self.missing, "surplus": self.surplus, "unreal": self.unreal}
        examples = [f"{kind} {row}" for kind, rows in kinds.items() for row in list(rows)[:3]]
        counts = ", ".join(f"{rows.total()} {kind}" for kind, rows in kinds.items())
        return "; ".join([f"{counts} of {self.rows} rows", *examples])


def compare(query: str, events: Sequence[Row], given: Iterable[Row]) -> Verdict:
    """The rows that an engine gave, in their order for each key, against the right ones.

    A row may have a `change`: `-` takes back the one that it equals otherwise.
    """
    right = answer(query, events)
    versions = list(given)
    left = list(_final(query, versions))
    choice = CHOICES.get(query, Choice({}, {}))
    names = [name for name in right[0] if name not in choice.free]
    wanted = Counter(tuple(row[name] for name in names) for row in right)
    found = Counter(tuple(row.get(name) for name in names) for row in left)
    unreal: Counter[tuple[Any, ...]] = Counter()
    if choice.free:
        pairs = {**choice.bound, **choice.free}
        chosen = Counter(tuple(row.get(name) for name in pairs) for row in left)
        unreal = chosen - Counter(tuple(bid[name] for name in pairs.values()) for bid in of_kind("bid", events))
    return Verdict(len(right), len(versions), wanted - found, found - wanted, unreal)


def _final(query: str, versions: Sequence[Row]) -> Iterable[Row]:
    if query == "q12":
        return _totals(versions)
    return _last(KEYS[query], versions) if query in KEYS else _left(versions)


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
