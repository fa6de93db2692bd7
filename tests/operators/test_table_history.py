"""`history`: the versions of rows by the time of their changes, in whatever order those came."""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import DeclarationError
from headrace.testing import Delete, Driver, Put, oracle
from headrace.testing.change import Event

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
START = datetime(2026, 3, 1, 12, tzinfo=UTC)

app = hr.App("versions")
app.table("cards", hr.postgres("public.cards"), schema="card string, `limit` int", key="card", partitions=2)
app.table("plain", schema="id bigint, word string", key="id")
app.table("seen", hr.postgres("public.seen"), schema="id bigint, at timestamp", key="id")


@app.view(key=["card", "version"])
def card_history(cards):
    return hr.history(cards)


@app.stream
def versions(cards):
    """The number of versions, of what a history tells."""
    return hr.aggregate(hr.history(cards), by="card", n=hr.count(), first=hr.min("valid_from"))


@app.view(key=["id", "version"])
def words(plain):
    return hr.history(plain)


@app.view(key=["id", "version"])
def sightings(seen):
    return hr.history(seen)


def changes(dice: random.Random, count: int) -> list[Event]:
    """Changes whose times are in disorder, some at one time, some that change nothing."""
    made: list[Event] = []
    for _ in range(count):
        card, at = dice.choice("abcdef"), START + timedelta(seconds=dice.randrange(40))
        if dice.random() < 0.25:
            made.append(Delete({"card": card}, at))
        else:
            made.append(Put({"card": card, "limit": dice.choice([None, 1, 2, 3])}, at))
    return made


def by_hand(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The versions, in plain Python."""
    found: defaultdict[str, dict[datetime, Put | Delete]] = defaultdict(dict)
    for event in events:
        assert isinstance(event, Put | Delete)
        assert event.at is not None
        found[event.row["card"] if isinstance(event, Put) else event.key["card"]][event.at] = event
    told: list[tuple[Any, ...]] = []
    for card, each in found.items():
        times = sorted(each)
        runs: list[tuple[datetime, dict[str, Any] | None]] = []
        for at in times:
            event = each[at]
            row = dict(event.row) if isinstance(event, Put) else None
            if row != (runs[-1][1] if runs else None):
                runs.append((at, row))
        number = 0
        for place, (at, row) in enumerate(runs):
            if row is not None:
                number += 1
                told.append((card, row["limit"], at, runs[place + 1][0] if place + 1 < len(runs) else None, number))
    return sorted(told, key=str)


def plain(rows: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    def time(text: str | None) -> datetime | None:
        return None if text is None else datetime.fromisoformat(text)

    return sorted(
        ((r["card"], r.get("limit"), time(r["valid_from"]), time(r.get("valid_to")), r["version"]) for r in rows),
        key=str,
    )


def test_versions_in_the_order_of_their_times(spark: SparkSession, bootstrap: str, seed: int):
    dice = random.Random(seed)
    for _ in range(CASES):
        events = changes(dice, 120)
        with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
            for part in (slice(50), slice(50, None)):
                driver.push("cards", events[part])
                driver.advance()
                driver.crash(seed=dice.randrange(2**32))
            driver.advance()
            assert plain(driver.view("card_history")) == by_hand(events), f"seed {seed}"
            assert plain(oracle(app, "card_history", {"cards": events}, spark)) == by_hand(events), f"seed {seed}"
            found = [json.dumps(row, sort_keys=True) for row in driver.read("versions")]
            standing = {row for row in found if found.count(row) > found.count(row.replace('"+"', '"-"'))}
            answer = {json.dumps(row, sort_keys=True) for row in oracle(app, "versions", {"cards": events}, spark)}
            assert {row for row in standing if '"+"' in row} == answer, f"seed {seed}"


def test_a_plain_table_has_the_times_of_its_records(spark: SparkSession, bootstrap: str):
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for event in ({"id": 1, "word": "a"}, {"id": 1, "word": "b"}, Delete({"id": 1})):
            driver.push("plain", [event])
            driver.advance()
        one, two = sorted(driver.view("words"), key=lambda row: row["version"])
        assert (one["word"], two["word"], one["valid_to"]) == ("a", "b", two["valid_from"])
        assert one["valid_from"] < two["valid_from"] < two["valid_to"]


def test_what_has_no_times_is_refused(spark: SparkSession):
    rows = spark.createDataFrame([], "id bigint, change string")
    with pytest.raises(DeclarationError, match="the times of its changes") as raised:
        hr.history(rows)
    assert raised.value.code == "HR-057"


def test_versions_differ_by_microseconds(spark: SparkSession):
    moments = [START + timedelta(microseconds=n) for n in (100, 900)]
    events = [Put({"id": 1, "at": at}, START + timedelta(seconds=n)) for n, at in enumerate(moments)]
    told = oracle(app, "sightings", {"seen": events, "cards": [], "plain": []}, spark)
    assert sorted(row["version"] for row in told) == [1, 2]
