"""Nexmark on Headrace, in exact mode and in batch, against the oracle; nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bench.nexmark import flink, oracle, ours
from bench.nexmark.events import CHUNK, START_MS, Events
from bench.nexmark.queries import JOINS, PARTITIONS, QUERIES, WINDOWS, app, closing, labels
from bench.nexmark.verdict import compare
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine import frames
from headrace.graph.node import Source
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic

# The queries


@pytest.mark.parametrize(
    "queries", [list(WINDOWS), pytest.param(list(JOINS), marks=pytest.mark.deep)], ids=["windows", "joins"]
)
def test_every_query_gives_the_right_answer(
    queries: list[str],
    spark: SparkSession,
    bootstrap: str,
    topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    """Forty seconds of event time with half a second of disorder, in several batches, so that windows end in them.

    The labels of all these auctions are in the first of them.
    """
    monkeypatch.setattr(frames, "MOST_RECORDS_A_BATCH", 6_000)
    events = Events(20_000, seed=7, rate=500, shuffle=250)
    name, results, connection = topic("nexmark"), topic("results"), Connection(bootstrap)
    topics.ensure(connection, [Topic(name, PARTITIONS)])
    producer = Producer(connection)
    for number, record in enumerate([*events, *closing(events)]):
        producer.send(name, record, partition=number % PARTITIONS)
    producer.flush()
    if any(QUERIES[query].labels for query in queries):
        ours.load_labels(connection, name)
    ends = closing(events)
    ours.emit(spark, bootstrap, queries, topic=name, results=results, closing=ends, directory=tmp_path)
    known = oracle.events(events)
    wrong = {}
    for query in queries:
        rows = [json.loads(record.value) for record in read(connection, f"{results}.{query}") if record.value]
        verdict = compare(query, known, rows)
        if not verdict.equal:
            wrong[query] = str(verdict)
    assert wrong == {}


def test_every_join_gives_the_right_answer_in_batch(spark: SparkSession):
    """Sixteen seconds of event time, so that a window ends between persons and what they sell."""
    known = oracle.events(Events(8_000, seed=7, rate=500, shuffle=250))
    timed = [query for query in JOINS if JOINS[query].time == "event"]
    plain = [query for query in JOINS if JOINS[query].time == "number"]
    assert {*timed, *plain} == set(JOINS)
    table = spark.createDataFrame(
        [(row["k"], row["label"], "+") for row in labels()], "k bigint, label string, change string"
    )
    wrong = {}
    for queries in (timed, plain):
        events = frame(spark, queries, known).cache()
        for query in queries:
            given = JOINS[query].rows(events, *([table] if JOINS[query].labels else []))
            verdict = compare(query, known, [row.asDict() for row in given.collect()])
            if not verdict.equal or not verdict.rows:
                wrong[query] = str(verdict)
        events.unpersist()
    assert wrong == {}


def frame(spark: SparkSession, queries: list[str], events: Sequence[oracle.Row]) -> DataFrame:
    """The events as the queries are given them."""
    source = app(queries, topic="events", results="results").graph().node("events")
    assert isinstance(source, Source)
    assert source.schema is not None
    timed = source.event_time is not None
    if timed:
        events = [{**event, "ts": datetime.fromtimestamp(event["ts"] / 1000, UTC)} for event in events]
    rows = [tuple(event.get(name) for name in source.schema.names) for event in events]
    given = spark.createDataFrame(rows, source.schema.ddl)
    return hr.event_time(given, "ts") if timed else given


def test_flink_runs_the_same_queries():
    assert flink.QUERIES.keys() == QUERIES.keys()
    for name, query in QUERIES.items():
        assert set(flink.QUERIES[name].columns) == set(query.columns)


# The events


def test_a_shorter_run_is_a_prefix_of_a_longer_one():
    assert list(Events(1_000)) == list(Events(CHUNK + 500))[:1_000]
    assert list(Events(1_000, seed=2)) != list(Events(1_000))


def test_shuffled_events_are_the_same_events():
    shuffled = list(Events(1_000, shuffle=500))
    assert shuffled != list(Events(1_000))
    assert sorted(shuffled) == sorted(Events(1_000))


def test_events_come_at_their_rate():
    times = [json.loads(record)["ts"] for record in Events(1_000, rate=500)]
    assert times == [START_MS + 2 * n for n in range(1_000)]
    assert all(json.loads(record)["ts"] > times[-1] + 10_000 for record in closing(Events(1_000, rate=500)))


# The oracle


def bid(ts: int, **more: Any) -> dict[str, Any]:
    return {"kind": "bid", "ts": ts, "auction": 1, "bidder": 7, "price": 100, "channel": "c", "extra": "", **more}


def test_tied_auctions_are_all_hot():
    rows = oracle.answer("q5", [bid(1_000, auction=1), bid(1_500, auction=2)])
    assert {(row["window_start"], row["auction"]) for row in rows} == {
        (start, auction) for start in (-8_000, -6_000, -4_000, -2_000, 0) for auction in (1, 2)
    }


def test_a_session_goes_on_after_exactly_the_gap():
    rows = oracle.answer("q11", [bid(0), bid(10_000), bid(20_001)])
    assert [(row["bids"], row["first_ts"], row["last_ts"]) for row in rows] == [(2, 0, 10_000), (1, 20_001, 20_001)]


def test_the_last_minute_is_open_at_its_start():
    rows = oracle.answer("sliding", [bid(0), bid(59_999), bid(60_000), bid(60_000)])
    assert [row["bids"] for row in rows] == [1, 2, 3, 3]


def auction(ts: int, expires: int, **more: Any) -> dict[str, Any]:
    texts = {"item": "i", "descr": "d", "extra": ""}
    numbers = {"id": 1, "initial_bid": 1, "reserve": 2, "seller": 5, "category": 10}
    return {"kind": "auction", "ts": ts, "expires": expires, **texts, **numbers, **more}


def person(ts: int, **more: Any) -> dict[str, Any]:
    return {"kind": "person", "ts": ts, "id": 5, "name": "Ada", "city": "Bend", "state": "OR", **more}


def test_an_auction_may_come_before_its_seller():
    rows = oracle.answer("q3", [auction(0, 9), auction(0, 9, id=2, category=11), person(1), person(2, id=6)])
    assert rows == [{"name": "Ada", "city": "Bend", "state": "OR", "id": 1}]
    assert oracle.answer("q3", [auction(0, 9), person(1, state="AZ")]) == []


def test_a_bid_is_valid_from_the_start_of_its_auction_to_the_end():
    bids = [bid(9, price=900), bid(10, price=100), bid(20, price=200), bid(21, price=800)]
    assert oracle.answer("q4", [*bids, auction(10, 20)]) == [{"category": 10, "average": 200}]
    (winner,) = oracle.answer("q9", [*bids, auction(10, 20)])
    assert (winner["price"], winner["bid_ts"], winner["auction_ts"]) == (200, 20, 10)


def test_a_mean_is_cut_and_auctions_without_bids_do_not_count():
    auctions = [auction(0, 9), auction(0, 9, id=2), auction(0, 9, id=3)]
    rows = oracle.answer("q4", [*auctions, bid(1, price=10), bid(2, price=7), bid(3, auction=2, price=5)])
    assert rows == [{"category": 10, "average": 7}]


def test_the_earliest_of_equal_bids_wins():
    rows = oracle.answer("q9", [auction(0, 9), bid(5), bid(3, bidder=8), bid(4), bid(2, price=99)])
    assert [(row["bidder"], row["bid_ts"]) for row in rows] == [(8, 3)]


def test_a_new_seller_sells_in_the_window_of_the_arrival():
    events = [person(9_999), auction(0, 9, seller=5), auction(1, 9, seller=5), person(10_000, id=6)]
    assert oracle.answer("q8", [*events, auction(9_999, 9, seller=6)]) == [{"id": 5, "name": "Ada", "window_start": 0}]


# The comparison


@pytest.mark.parametrize(
    ("chosen", "equal"),
    [
        ([{"price": 1, "channel": "a"}], True),
        ([{"price": 2, "channel": "b"}], True),
        ([{"price": 1, "channel": "b"}], False),
        ([], False),
    ],
)
def test_any_of_the_tied_bids_is_right_but_no_mixture(chosen: list[dict[str, Any]], equal: bool):
    bids = [bid(5, url="u", price=1, channel="a"), bid(5, url="u", price=2, channel="b"), bid(4, url="u")]
    given = [{name: {**bids[0], **one}[name] for name in oracle.BID} for one in chosen]
    assert compare("q18", bids, given).equal is equal


def test_no_bid_has_two_places():
    bids = [bid(1, url="u"), bid(2, url="u")]
    first, second = ({name: one[name] for name in oracle.BID} for one in bids)
    assert compare("q19", bids, [{**first, "place": 1}, {**second, "place": 2}]).equal
    assert compare("q19", bids, [{**second, "place": 1}, {**first, "place": 2}]).equal
    assert not compare("q19", bids, [{**first, "place": 1}, {**first, "place": 2}]).equal


@pytest.mark.parametrize(
    ("given", "equal"),
    [
        ([{"bidder": 7, "bids": 1, "first_ts": 0, "last_ts": 0}], True),
        ([], False),
        ([{"bidder": 7, "bids": 1, "first_ts": 0, "last_ts": 0}] * 2, False),
        ([{"bidder": 7, "bids": 1, "first_ts": 0, "last_ts": 1, "change": "-"}], False),
        (
            [
                {"bidder": 7, "bids": 2, "first_ts": 0, "last_ts": 0, "change": "+"},
                {"bidder": 7, "bids": 2, "first_ts": 0, "last_ts": 0, "change": "-"},
                {"bidder": 7, "bids": 1, "first_ts": 0, "last_ts": 0, "change": "+"},
            ],
            True,
        ),
    ],
)
def test_an_append_query_is_compared_row_by_row(given: list[dict[str, Any]], equal: bool):
    assert compare("q11", [bid(0)], given).equal is equal


def test_the_last_version_of_an_update_counts():
    right = oracle.answer("q17", [bid(0)])[0]
    old = {**right, "bids_all": 0}
    versions = [{**old, "change": "+"}, {**old, "change": "-"}, {**right, "change": "+"}]
    assert compare("q17", [bid(0)], versions).equal
    assert not compare("q17", [bid(0)], versions[:2]).equal
    assert compare("q17", [bid(0)], [old, right]).equal
