"""The right answer of each query, in plain Python over all events at once; `queries.py` says what the queries mean."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

Row = Mapping[str, Any]

BID = ("auction", "bidder", "price", "channel", "url", "ts", "extra")
AUCTION = ("id", "item", "descr", "initial_bid", "reserve", "expires", "seller", "category")
LEVELS: Mapping[str, Callable[[int], bool]] = {
    "all": lambda price: True,
    "low": lambda price: price < 10_000,
    "mid": lambda price: 10_000 <= price < 1_000_000,
    "high": lambda price: price >= 1_000_000,
}


def events(records: Iterable[bytes]) -> list[Row]:
    """The events of the records."""
    return list(map(json.loads, records))


def answer(query: str, events: Sequence[Row]) -> list[Row]:
    """The right rows."""
    if query in _OF_BIDS:
        return list(_OF_BIDS[query](of_kind("bid", events)))
    return list(_OF_ALL[query](events))


def of_kind(kind: str, events: Sequence[Row]) -> list[Row]:
    """The persons, auctions or bids."""
    return [event for event in events if event["kind"] == kind]


# Windows


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


# Joins


def _q3(events: Sequence[Row]) -> Iterator[Row]:
    sellers = {person["id"]: person for person in of_kind("person", events) if person["state"] in ("OR", "ID", "CA")}
    for auction in of_kind("auction", events):
        seller = sellers.get(auction["seller"])
        if auction["category"] == 10 and seller is not None:
            yield {**{name: seller[name] for name in ("name", "city", "state")}, "id": auction["id"]}


def _q4(events: Sequence[Row]) -> Iterator[Row]:
    finals: dict[int, tuple[int, int]] = {}
    for auction, bid in _valid(events):
        _, highest = finals.get(auction["id"], (0, 0))
        finals[auction["id"]] = auction["category"], max(highest, bid["price"])
    prices: defaultdict[int, list[int]] = defaultdict(list)
    for category, price in finals.values():
        prices[category].append(price)
    for category, of in prices.items():
        yield {"category": category, "average": sum(of) // len(of)}


def _q8(events: Sequence[Row]) -> Iterator[Row]:
    sold = {(auction["seller"], auction["ts"] // 10_000) for auction in of_kind("auction", events)}
    found = {(person["id"], person["name"], person["ts"] // 10_000) for person in of_kind("person", events)}
    for person, name, window in found:
        if (person, window) in sold:
            yield {"id": person, "name": name, "window_start": window * 10_000}


def _q9(events: Sequence[Row]) -> Iterator[Row]:
    winners: dict[int, tuple[Row, Row]] = {}
    for auction, bid in _valid(events):
        best = winners.get(auction["id"])
        if best is None or (-bid["price"], bid["ts"]) < (-best[1]["price"], best[1]["ts"]):
            winners[auction["id"]] = auction, bid
    for auction, bid in winners.values():
        yield {
            **{name: auction[name] for name in AUCTION},
            "auction_ts": auction["ts"],
            "bidder": bid["bidder"],
            "price": bid["price"],
            "bid_ts": bid["ts"],
            "bid_extra": bid["extra"],
        }


def _q13(bids: Sequence[Row]) -> Iterator[Row]:
    for bid in bids:
        names = ("auction", "bidder", "price", "ts")
        yield {**{name: bid[name] for name in names}, "label": f"label-{bid['auction'] % 10_000}"}


def _q18(bids: Sequence[Row]) -> Iterator[Row]:
    last: dict[tuple[int, int], Row] = {}
    for bid in bids:
        pair = bid["bidder"], bid["auction"]
        if pair not in last or bid["ts"] > last[pair]["ts"]:
            last[pair] = bid
    yield from ({name: bid[name] for name in BID} for bid in last.values())


def _q19(bids: Sequence[Row]) -> Iterator[Row]:
    for _, group in _groups(bids, lambda bid: (bid["auction"],)):
        highest = sorted(group, key=lambda bid: -bid["price"])[:10]
        yield from ({**{name: bid[name] for name in BID}, "place": i + 1} for i, bid in enumerate(highest))


def _q20(events: Sequence[Row]) -> Iterator[Row]:
    auctions = {auction["id"]: auction for auction in of_kind("auction", events) if auction["category"] == 10}
    for bid in of_kind("bid", events):
        auction = auctions.get(bid["auction"])
        if auction is not None:
            own = {name: bid[name] for name in ("auction", "bidder", "price", "channel", "url")}
            yield {
                **own,
                "bid_ts": bid["ts"],
                "bid_extra": bid["extra"],
                **{name: auction[name] for name in AUCTION[1:]},
                "auction_ts": auction["ts"],
                "auction_extra": auction["extra"],
            }


def _valid(events: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
    """Each auction with each of its valid bids."""
    auctions = {auction["id"]: auction for auction in of_kind("auction", events)}
    for bid in of_kind("bid", events):
        auction = auctions.get(bid["auction"])
        if auction is not None and auction["ts"] <= bid["ts"] <= auction["expires"]:
            yield auction, bid


_OF_BIDS: Mapping[str, Callable[[Sequence[Row]], Iterator[Row]]] = {
    "q5": _q5,
    "q7": _q7,
    "q11": _q11,
    "q12": _q12,
    "q13": _q13,
    "q15": _q15,
    "q16": _q16,
    "q17": _q17,
    "q18": _q18,
    "q19": _q19,
    "sliding": _sliding,
}
_OF_ALL: Mapping[str, Callable[[Sequence[Row]], Iterator[Row]]] = {
    "q3": _q3,
    "q4": _q4,
    "q8": _q8,
    "q9": _q9,
    "q20": _q20,
}
