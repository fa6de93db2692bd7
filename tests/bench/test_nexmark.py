"""Nexmark on Headrace, in exact mode, against the oracle; nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.nexmark import flink, oracle, ours
from bench.nexmark.events import CHUNK, START_MS, Events
from bench.nexmark.queries import PARTITIONS, QUERIES, closing
from pyspark.sql import SparkSession

from headrace.engine import frames
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic

# The queries


def test_every_query_gives_the_right_answer(
    spark: SparkSession, bootstrap: str, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Forty seconds of event time with half a second of disorder, in several batches, so that windows end in them."""
    monkeypatch.setattr(frames, "MOST_RECORDS_A_BATCH", 6_000)
    events = Events(20_000, seed=7, rate=500, shuffle=250)
    name, results, connection = topic("nexmark"), topic("results"), Connection(bootstrap)
    topics.ensure(connection, [Topic(name, PARTITIONS)])
    producer = Producer(connection)
    for number, record in enumerate([*events, *closing(events)]):
        producer.send(name, record, partition=number % PARTITIONS)
    producer.flush()
    queries, ends = list(QUERIES), closing(events)
    ours.emit(spark, bootstrap, queries, topic=name, results=results, closing=ends, directory=tmp_path)
    bids = oracle.bids(events)
    wrong = {}
    for query in QUERIES:
        rows = [json.loads(record.value) for record in read(connection, f"{results}.{query}") if record.value]
        verdict = oracle.compare(query, bids, rows)
        if not verdict.equal:
            wrong[query] = str(verdict)
    assert wrong == {}


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
    assert oracle.compare("q11", [bid(0)], given).equal is equal


def test_the_last_version_of_an_update_counts():
    right = oracle.answer("q17", [bid(0)])[0]
    old = {**right, "bids_all": 0}
    versions = [{**old, "change": "+"}, {**old, "change": "-"}, {**right, "change": "+"}]
    assert oracle.compare("q17", [bid(0)], versions).equal
    assert not oracle.compare("q17", [bid(0)], versions[:2]).equal
    assert oracle.compare("q17", [bid(0)], [old, right]).equal
