"""The queries, written with Headrace's operators.

`ts` is the event time in milliseconds. Windows are [start, start + size), aligned to the epoch; days are those of UTC.
Nothing is late as long as the disorder of the events stays below DELAY. Levels of price: low below 10,000, mid below
1,000,000, high from there.

q5        windows of 10 s, one every 2 s: the auctions with the largest number of bids, all of them when tied
q7        windows of 10 s: every bid with the highest price
q11       sessions of a bidder, which end after more than 10 s without a bid
q12       windows of 10 s of processing time: the bids of each bidder
q15       a day: bids, bidders and auctions, over all bids and at each level of price
q16       the same by channel and day, with the last minute of a bid
q17       an auction and day: bids by level, lowest, highest, mean and sum of the prices
sliding   each bid with the number of bids of its bidder in the last minute

q15, q16 and q17 update; the others give each row once. After the events each partition holds a record of the kind
`close`, a minute later than everything else: it moves the watermark past the last window, and is in no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headrace as hr
from bench.nexmark.events import Events
from headrace.operators.aggregate import Aggregate

PARTITIONS = 4
DELAY = "4 seconds"
CLOSED_AFTER_MS = 60_000
MOST_TIES = 100

_LEVELS = {
    "all": None,
    "low": "price < 10000",
    "mid": "price >= 10000 and price < 1000000",
    "high": "price >= 1000000",
}


@dataclass(frozen=True)
class Query:
    """Its rows from the events, the columns of the events that it reads beside `kind` and `ts`, and its Kafka key.

    One of `processing_time` knows no event time.
    """

    rows: Callable[[DataFrame], DataFrame]
    columns: Sequence[str]
    key: Sequence[str] = ()
    processing_time: bool = False


def closing(events: Events) -> list[bytes]:
    """The last record of each partition."""
    return [b'{"kind":"close","ts":%d}' % (events.end_ms + CLOSED_AFTER_MS)] * PARTITIONS


def app(queries: Sequence[str], *, topic: str, results: str) -> hr.App:
    """An app of some queries over the events of a topic; a query writes to the topic `<results>.<query>`.

    Queries of event time and of processing time do not go into one app.
    """
    declared = hr.App("nexmark")
    columns = dict.fromkeys(column for query in queries for column in QUERIES[query].columns)
    schema = ", ".join(["kind string", *(f"{column} {_TYPES[column]}" for column in columns)])
    if any(QUERIES[query].processing_time for query in queries):
        declared.stream("events", topic=topic, schema=schema, partitions=PARTITIONS)
    else:
        declared.stream("events", topic=topic, schema=f"{schema}, ts timestamp", event_time="ts", epoch="milliseconds",
                        delay=DELAY, partitions=PARTITIONS)  # fmt: skip
    for query in queries:
        _declare(declared, query, f"{results}.{query}")
    return declared


def _declare(declared: hr.App, name: str, topic: str) -> None:
    query = QUERIES[name]

    def rows(events: DataFrame) -> DataFrame:
        return query.rows(events)

    rows.__name__ = name
    declared.stream(topic=topic, key=list(query.key) or None, partitions=2)(rows)


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


_TYPES = {"auction": "bigint", "bidder": "bigint", "price": "bigint", "channel": "string", "extra": "string"}

QUERIES: Mapping[str, Query] = {
    "q5": Query(_q5, ["auction"]),
    "q7": Query(_q7, ["auction", "bidder", "price", "extra"]),
    "q11": Query(_q11, ["bidder"]),
    "q12": Query(_q12, ["bidder"], processing_time=True),
    "q15": Query(_q15, ["auction", "bidder", "price"], key=["day"]),
    "q16": Query(_q16, ["auction", "bidder", "price", "channel"], key=["channel", "day"]),
    "q17": Query(_q17, ["auction", "price"], key=["auction", "day"]),
    "sliding": Query(_sliding, ["bidder"]),
}
