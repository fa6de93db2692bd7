"""The queries, written with Headrace's operators.

`ts` is the event time in milliseconds. Windows are [start, start + size), aligned to the epoch; days are those of UTC.
Nothing is late as long as the disorder of the events stays below DELAY. Levels of price: low below 10,000, mid below
1,000,000, high from there. A bid is *valid* for the auction that it names from the auction's `ts` to its `expires`,
both included. Means are cut to whole numbers.

Windows:

q5        windows of 10 s, one every 2 s: the auctions with the largest number of bids, all of them when tied
q7        windows of 10 s: every bid with the highest price
q11       sessions of a bidder, which end after more than 10 s without a bid
q12       windows of 10 s of processing time: the bids of each bidder
q15       a day: bids, bidders and auctions, over all bids and at each level of price
q16       the same by channel and day, with the last minute of a bid
q17       an auction and day: bids by level, lowest, highest, mean and sum of the prices
sliding   each bid with the number of bids of its bidder in the last minute

Joins, whose state is never forgotten, since an auction may come before its seller and a bid before its auction:

q3        auctions of category 10 with their seller, of three states
q4        a category: the mean of its auctions' highest valid price
q8        windows of 10 s: persons who are new in it and sell something in it
q9        an auction and its winner: of the valid bids with the highest price the earliest
q13       each bid with a label from a table of 10,000
q18       the last bid of each bidder at each auction
q19       the ten highest bids of an auction, with their places
q20       each bid with its auction of category 10

q4, q9, q15, q16, q17, q18 and q19 update; the others give each row once. After the events each partition holds a record
of the kind `close`, a minute later than everything else: it moves the watermark past the last window, and is in no
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headrace as hr
from bench.nexmark.events import Events
from headrace.operators.aggregate import Aggregate

PARTITIONS = 4
DELAY = "4 seconds"
CLOSED_AFTER_MS = 60_000
MOST_TIES = 100
LABELS = 10_000

_BID = ("auction", "bidder", "price", "channel", "url", "ts", "extra")
_AUCTION = ("id", "item", "descr", "initial_bid", "reserve", "expires", "seller", "category")
_LEVELS = {
    "all": None,
    "low": "price < 10000",
    "mid": "price >= 10000 and price < 1000000",
    "high": "price >= 1000000",
}


@dataclass(frozen=True)
class Query:
    """Its rows from the events, the columns of the events that it reads beside `kind` and `ts`, and its Kafka key.

    `ts` is the time by which the watermark moves (`event`), a `number` like any other, or not read (`processing`). One
    with `labels` is given their table, too.
    """

    rows: Callable[..., DataFrame]
    columns: Sequence[str]
    key: Sequence[str] = ()
    time: Literal["event", "number", "processing"] = "event"
    labels: bool = False


def closing(events: Events) -> list[bytes]:
    """The last record of each partition."""
    return [b'{"kind":"close","ts":%d}' % (events.end_ms + CLOSED_AFTER_MS)] * PARTITIONS


def labels() -> Iterator[dict[str, Any]]:
    """The rows of the table that q13 looks into."""
    return ({"k": k, "label": f"label-{k}"} for k in range(LABELS))


def labels_topic(topic: str) -> str:
    """Where that table is, beside the events of a topic."""
    return f"{topic}.labels"


def app(queries: Sequence[str], *, topic: str, results: str) -> hr.App:
    """An app of some queries over the events of a topic; a query writes to the topic `<results>.<query>`.

    Queries of one app have the same `time`.
    """
    declared = hr.App("nexmark")
    columns = dict.fromkeys(column for query in queries for column in QUERIES[query].columns)
    schema = ", ".join(["kind string", *(f"{column} {_TYPES[column]}" for column in columns)])
    (time,) = {QUERIES[query].time for query in queries}
    if time == "event":
        declared.source("events", topic=topic, schema=f"{schema}, ts timestamp", event_time="ts", epoch="milliseconds",
                        delay=DELAY, partitions=PARTITIONS)  # fmt: skip
    else:
        more = ", ts bigint" if time == "number" else ""
        declared.source("events", topic=topic, schema=schema + more, partitions=PARTITIONS)
    if any(QUERIES[query].labels for query in queries):
        declared.table("labels", topic=labels_topic(topic), schema="k bigint, label string", key="k", partitions=1)
    for query in queries:
        _declare(declared, query, f"{results}.{query}")
    return declared


def _declare(declared: hr.App, name: str, topic: str) -> None:
    query = QUERIES[name]

    def rows(events: DataFrame) -> DataFrame:
        return query.rows(events)

    def labelled(events: DataFrame, labels: DataFrame) -> DataFrame:
        return query.rows(events, labels)

    function: Callable[..., DataFrame] = labelled if query.labels else rows
    function.__name__ = name
    declared.stream(topic=topic, key=list(query.key) or None, partitions=2)(function)


def _bids(events: DataFrame) -> DataFrame:
    return events.where("kind = 'bid'")


def _q5(events: DataFrame) -> DataFrame:
    counts = hr.window(_bids(events), hr.hopping("10 seconds", "2 seconds"), by="auction", bids=hr.count())
    most = hr.window(
        counts, hr.tumbling("2 seconds"), by=[],
        bids=hr.max("bids"), auctions=hr.max_by("auction", "bids", ties=MOST_TIES),
    )  # fmt: skip
    start = "unix_millis(window_start) - 10000 as window_start"
    return most.selectExpr(start, "explode(auctions) as auction", "bids")


def _q7(events: DataFrame) -> DataFrame:
    bid = "struct(auction, bidder, price, unix_millis(ts) as ts, extra)"
    highest = hr.max_by(bid, "price", ties=MOST_TIES)
    return hr.window(_bids(events), hr.tumbling("10 seconds"), by=[], bids=highest).selectExpr("inline(bids)")


def _q11(events: DataFrame) -> DataFrame:
    return hr.window(
        _bids(events), hr.session("10 seconds"), by="bidder",
        bids=hr.count(), first_ts=hr.min("ts"), last_ts=hr.max("ts"),
    ).selectExpr("bidder", "bids", "unix_millis(first_ts) as first_ts", "unix_millis(last_ts) as last_ts")  # fmt: skip


def _q12(events: DataFrame) -> DataFrame:
    # The record that closes the windows counts here, and has no bidder.
    read = events.where("kind in ('bid', 'close')").withColumn("at", F.current_timestamp())
    counts = hr.window(hr.event_time(read, "at"), hr.tumbling("10 seconds"), by="bidder", bids=hr.count())
    return counts.where("bidder is not null").selectExpr("bidder", "bids", "unix_millis(window_start) as window_start")


def _q15(events: DataFrame) -> DataFrame:
    days = hr.window(_bids(events), hr.tumbling("1 day"), by=[], emit="early", **_levels())
    return days.select(_day(), *_levels(), "change")


def _q16(events: DataFrame) -> DataFrame:
    days = hr.window(_bids(events), hr.tumbling("1 day"), by="channel", emit="early", last=hr.max("ts"), **_levels())
    return days.select("channel", _day(), F.date_format("last", "HH:mm").alias("last_minute"), *_levels(), "change")


def _q17(events: DataFrame) -> DataFrame:
    days = hr.window(
        _bids(events), hr.tumbling("1 day"), by="auction", emit="early", **_level("bids"),
        low_price=hr.min("price"), top_price=hr.max("price"), sum_price=hr.sum("price"),
    )  # fmt: skip
    mean = F.expr("sum_price div bids_all").alias("avg_price")
    return days.select("auction", _day(), *_level("bids"), "low_price", "top_price", mean, "sum_price", "change")


def _sliding(events: DataFrame) -> DataFrame:
    recent = hr.sliding(_bids(events), by="bidder", within="1 minute", emit="final", bids=hr.count())
    return recent.selectExpr("bidder", "unix_millis(ts) as ts", "bids")


def _day() -> Column:
    return F.date_format("window_start", "yyyy-MM-dd").alias("day")


def _levels() -> dict[str, Any]:
    return {**_level("bids"), **_level("bidders", "bidder"), **_level("auctions", "auction")}


def _level(name: str, distinct: str | None = None) -> dict[str, Any]:
    def counted(where: str | None) -> Aggregate:
        return hr.count(where=where) if distinct is None else hr.count_distinct(distinct, where=where)

    return {f"{name}_{level}": counted(where) for level, where in _LEVELS.items()}


# Joins


def _table(rows: DataFrame) -> DataFrame:
    """Rows that come and stay."""
    return rows.withColumn("change", F.lit("+"))


def _joined(left: DataFrame, right: DataFrame, on: str) -> DataFrame:
    """Two streams without a bound of time: as tables. What only comes on both sides takes nothing back, so that the
    result is a stream again, and an operator behind it keeps only what may still count."""
    return hr.join(_table(left), _table(right), on=on).where("change = '+'").drop("change")


def _valid(events: DataFrame, auction: Sequence[str], bid: Sequence[str]) -> DataFrame:
    """The valid bids with their auction: `id`, the columns of the auction, and then those of the bid."""
    auctions = events.where("kind = 'auction'").selectExpr("id", *auction, "ts as auction_ts")
    bids = _bids(events).selectExpr("auction as id", "ts as bid_ts", *bid)
    return _joined(auctions, bids, "id").where("bid_ts between auction_ts and expires")


def _q3(events: DataFrame) -> DataFrame:
    auctions = events.where("kind = 'auction' and category = 10").select("id", "seller")
    persons = events.where("kind = 'person' and state in ('OR', 'ID', 'CA')")
    sellers = persons.selectExpr("id as seller", "name", "city", "state")
    return _joined(auctions, sellers, "seller").select("name", "city", "state", "id")


def _q4(events: DataFrame) -> DataFrame:
    valid = _valid(events, ["expires", "category"], ["price"])
    finals = hr.aggregate(valid, by=["id", "category"], final=hr.max("price"))
    means = hr.aggregate(finals, by="category", auctions=hr.count(), total=hr.sum("final"))
    return means.selectExpr("category", "total div auctions as average", "change")


def _q8(events: DataFrame) -> DataFrame:
    # Persons and what they sell in one window by person: the events are read once, and nothing is joined.
    both = events.where("kind in ('person', 'auction')")
    both = both.selectExpr("kind", "if(kind = 'person', id, seller) as id", "name", "ts")
    sold = hr.count(where="kind = 'auction'")
    windows = hr.window(both, hr.tumbling("10 seconds"), by="id", name=hr.max("name"), sold=sold)
    return windows.where("name is not null and sold > 0").selectExpr(
        "id", "name", "unix_millis(window_start) as window_start"
    )


def _q9(events: DataFrame) -> DataFrame:
    # Of the same price the least row is first, and in those of an auction `bid_ts` is the first column to differ.
    valid = _valid(events, _AUCTION[1:], ["bidder", "price", "extra as bid_extra"])
    return hr.top(valid, 1, by="price", within="id").drop("place")


def _q13(events: DataFrame, labels: DataFrame) -> DataFrame:
    bids = _bids(events).selectExpr("auction", "bidder", "price", "ts", f"auction % {LABELS} as k")
    return hr.join(bids, labels, on="k").drop("k")


def _q18(events: DataFrame) -> DataFrame:
    # Of a stream the ranking keeps one row of a pair, and sends only what may be it out of the task that reads.
    return hr.top(_bids(events).select(*_BID), 1, by="ts", within=["bidder", "auction"]).drop("place")


def _q19(events: DataFrame) -> DataFrame:
    return hr.top(_bids(events).select(*_BID), 10, by="price", within="auction")


def _q20(events: DataFrame) -> DataFrame:
    auctions = events.where("kind = 'auction' and category = 10")
    auctions = auctions.selectExpr("id as auction", *_AUCTION[1:], "ts as auction_ts", "extra as auction_extra")
    bids = _bids(events).selectExpr(*_BID[:5], "ts as bid_ts", "extra as bid_extra")
    return _joined(bids, auctions, "auction")


_TEXTS = ("channel", "url", "extra", "item", "descr", "name", "city", "state")
_NUMBERS = ("auction", "bidder", "price", "id", "initial_bid", "reserve", "expires", "seller", "category")
_TYPES = {**dict.fromkeys(_TEXTS, "string"), **dict.fromkeys(_NUMBERS, "bigint")}

WINDOWS: Mapping[str, Query] = {
    "q5": Query(_q5, ["auction"]),
    "q7": Query(_q7, ["auction", "bidder", "price", "extra"]),
    "q11": Query(_q11, ["bidder"]),
    "q12": Query(_q12, ["bidder"], time="processing"),
    "q15": Query(_q15, ["auction", "bidder", "price"], key=["day"]),
    "q16": Query(_q16, ["auction", "bidder", "price", "channel"], key=["channel", "day"]),
    "q17": Query(_q17, ["auction", "price"], key=["auction", "day"]),
    "sliding": Query(_sliding, ["bidder"]),
}
_WHOLE_BID = [name for name in _BID if name != "ts"]
JOINS: Mapping[str, Query] = {
    "q3": Query(_q3, ["id", "seller", "category", "name", "city", "state"], time="number"),
    "q4": Query(_q4, ["auction", "price", "id", "category", "expires"], key=["category"], time="number"),
    "q8": Query(_q8, ["id", "name", "seller"]),
    "q9": Query(_q9, ["auction", "bidder", "price", "extra", *_AUCTION], key=["id"], time="number"),
    "q13": Query(_q13, ["auction", "bidder", "price"], time="number", labels=True),
    "q18": Query(_q18, _WHOLE_BID, key=["bidder", "auction"], time="number"),
    "q19": Query(_q19, _WHOLE_BID, key=["auction", "place"], time="number"),
    "q20": Query(_q20, [*_WHOLE_BID, *_AUCTION], time="number"),
}
QUERIES: Mapping[str, Query] = {**WINDOWS, **JOINS}
