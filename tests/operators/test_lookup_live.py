"""`join` of a stream with a table in live mode, where rows and changes meet one by one, from different tasks."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.kernel import bridge
from headrace.names import HEADER_ID
from headrace.testing import Driver, oracle

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
START = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AFTER = "2026-01-01T02:00"
SALES = "id int, card string, at timestamp, sold timestamp"


def declared(query: Callable[..., DataFrame]) -> hr.App:
    app = hr.App("looked_up")
    app.stream("sales", schema=SALES, event_time="at", delay="30 seconds", partitions=2, id="id")
    app.table("cards", schema="number int, card string, owner int", key="number", partitions=2)
    app.stream(query)
    return app


def sale(number: int, card: str, second: float) -> dict[str, Any]:
    at = START + timedelta(seconds=second)
    return {"id": number, "card": card, "at": at, "sold": at}


def test_every_result_has_an_id_of_its_own(spark: SparkSession, bootstrap: str):
    """A sale is made of several rows, and each of them meets several of the table."""

    def looked_up(sales, cards):
        twice = sales.selectExpr("id", "explode(array(card, card)) as card", "at")
        return hr.join(twice, cards, on="card")

    with Driver(declared(looked_up), spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("cards", [{"number": n, "card": "c", "owner": n} for n in range(3)])
        driver.advance()
        driver.push("sales", [sale(n, "c", n) for n in range(5)])
        driver.advance()
        ids = [dict(record.headers)[HEADER_ID] for record in driver.records("looked_up")]
        assert len(ids) == 5 * 2 * 3
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("view", [False, True], ids=["stream", "view"])
@pytest.mark.parametrize("options", [{}, {"as_of": "sold"}], ids=["latest", "as_of"])
def test_a_row_that_is_replaced_is_never_away_and_never_there_twice(
    spark: SparkSession, bootstrap: str, seed: int, view: bool, options: Any
):
    """The owner of a card changes again and again while it is used: every sale meets one owner."""
    app = hr.App("replaced")
    app.stream("sales", schema=SALES, event_time="at", partitions=2)
    app.table("cards", schema="card string, owner int", key="card", partitions=2)

    def owned(sales, cards):
        return hr.join(sales, cards, on="card", **options)

    def counted(sales, cards):
        return hr.aggregate(owned(sales, cards), by="id", n=hr.count())

    if view:
        app.view(key="id")(counted)
    else:
        app.stream(owned)
    dice = random.Random(seed)
    for _ in range(CASES):
        with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
            driver.push("cards", [{"card": card, "owner": 0} for card in "abc"])
            driver.advance()
            for number in range(1500):
                last = {"id": number, "card": dice.choice("abc"), "at": START, "sold": datetime(9999, 1, 1, tzinfo=UTC)}
                driver._producer.send(driver.graph.node("sales").topic, last)
                if dice.random() < 0.7:
                    card = dice.choice("abc")
                    driver._producer.send(driver.graph.node("cards").topic, {"card": card, "owner": number}, key=card)
            driver._producer.flush()
            driver.advance()
            if view:
                found = {row["id"]: row["n"] for row in driver.view("counted")}
            else:
                found = dict(Counter(row["id"] for row in driver.read("owned")))
            assert found == dict.fromkeys(range(1500), 1), f"seed {seed}"


def by_minute(rows: DataFrame) -> DataFrame:
    return hr.window(rows, hr.tumbling("1 minute"), by="card", n=hr.count())


def behind_lookup(sales, cards):
    return by_minute(hr.join(sales, cards.drop("number"), on="card", how="left"))


def behind_dedupe(sales):
    return by_minute(hr.dedupe(sales, by="id", within="2 hours"))


def behind_both(sales, cards):
    return behind_lookup(hr.dedupe(sales, by="id", within="2 hours"), cards)


def behind_sliding(sales):
    return by_minute(hr.sliding(sales, by="card", within="1 minute", emit="arrival", seen=hr.count()))


@pytest.mark.parametrize("query", [behind_lookup, behind_dedupe, behind_both, behind_sliding], ids=lambda q: q.__name__)
def test_a_partition_that_lags_loses_nothing_behind_an_operator(
    spark: SparkSession, bootstrap: str, query: Callable[..., DataFrame]
):
    """As after a pause, when one partition is read to its end before the other."""
    app = declared(query)
    first, second = ([sale(part * 1000 + n, f"c{n % 8}", n * 30) for n in range(90)] for part in range(2))
    cards = [{"number": n, "card": f"c{n}", "owner": n} for n in range(8)]
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        if query in (behind_lookup, behind_both):
            driver.push("cards", cards)
        driver.push("sales", first, partition=0)
        driver.advance()
        driver.push("sales", second, partition=1)
        driver.advance()
        given = {"sales": first + second, "cards": cards}
        wanted = {(row["card"], row["window_start"]): row["n"] for row in oracle(app, query.__name__, given, spark)}
        until, number, found = time.monotonic() + 60, 0, {}
        while len(found) < len(wanted) and time.monotonic() < until:  # time goes on with the events
            for part in range(2):
                driver.push(
                    "sales", [sale(5000 + number * 8 + n, f"c{n}", 10_000 + number) for n in range(8)], partition=part
                )
                number += 1
            driver.advance()
            rows = driver.read(query.__name__)
            found = {(row["card"], row["window_start"]): row["n"] for row in rows if row["window_start"] < LONG_AFTER}
        assert driver.late(query.__name__) == []
        assert found == wanted


def test_a_time_that_is_not_the_event_time_waits_as_long_as_that(spark: SparkSession, bootstrap: str):
    """Rows that are 20 seconds out of order are not late by `sold`, since the stream waits for 30."""

    def minutes(sales):
        return hr.window(sales, hr.tumbling("1 minute"), by="card", at="sold", n=hr.count())

    with Driver(declared(minutes), spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        for partition in range(2):
            driver.push("sales", [sale(partition, "c", 70)], partition=partition)
        driver.advance()
        for partition in range(2):
            driver.push("sales", [sale(2 + partition, "c", 50)], partition=partition)
        driver.advance()
        for partition in range(2):
            driver.push("sales", [sale(4 + partition, "c", 600 + n) for n in range(3)], partition=partition)
            driver.advance()
        until = time.monotonic() + 60
        while len(driver.read("minutes")) < 2 and time.monotonic() < until:
            time.sleep(0.2)
        assert driver.late("minutes") == []
        assert [row["n"] for row in driver.read("minutes")] == [2, 2]


def test_a_table_without_changes_does_not_hold_the_time(spark: SparkSession, bootstrap: str):
    def waited(sales, cards):
        return hr.join(sales, cards, on="card", how="left", wait="1 second")

    with Driver(declared(waited), spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("sales", [sale(n, f"c{n}", 0) for n in range(8)])
        until, number = time.monotonic() + 60, 100
        while len(driver.read("waited")) < 8 and time.monotonic() < until:
            for partition in range(2):
                driver.push("sales", [sale(number, "late", number)], partition=partition)
                number += 1
            driver.advance()
        first = {row["id"]: row.get("owner") for row in driver.read("waited") if row["id"] < 8}
        assert first == dict.fromkeys(range(8))


def test_how_long_rows_wait_is_part_of_the_state(spark: SparkSession):
    """Rows that wait are filed by when they have waited enough; so another wait needs a new beginning."""

    def state(**options: Any) -> list[dict[str, Any]]:
        build = bridge.Build("q", "q.late", {})
        rows = spark.readStream.format("rate").load().selectExpr("timestamp as at", "'c' as card")
        table = rows.selectExpr("card", "at as valid_from", "at as valid_to", "'+' as change")
        with bridge.building(build):
            hr.join(hr.event_time(rows, "at"), table, on="card", how="left", **options)
        return build.operators

    assert state() == state()
    kinds = [{}, {"wait": "2 seconds"}, {"wait": "5 seconds"}, {"as_of": "at"}, {"as_of": "at", "correct": True}]
    assert len({json.dumps(state(**options)) for options in kinds}) == len(kinds)
