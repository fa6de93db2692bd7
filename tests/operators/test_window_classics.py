"""The cases that the literature on event time tells of, with the exact output of each, in exact mode."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.kernel import bridge
from headrace.testing import Driver

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SCHEMA = "id string, who string, score bigint, at timestamp"

app = hr.App("classics")
app.stream("clicks", schema=SCHEMA, event_time="at", delay="10 seconds", id="id")
app.stream("phones", schema=SCHEMA, event_time="at", delay="10 seconds", id="id")


@app.stream
def visits(clicks):
    return hr.window(
        clicks,
        hr.session("10 minutes"),
        by="who",
        emit="early",
        lateness="1 hour",
        clicks=hr.count(),
        of=hr.collect("id"),
    )


@app.stream
def hops(clicks):
    return hr.window(clicks, hr.hopping("10 minutes", "2 minutes"), by="who", n=hr.count())


@app.stream
def minutes(clicks):
    return hr.window(clicks, hr.tumbling("1 minute"), by=[], n=hr.count(), total=hr.sum("score"))


@app.stream
def hours(phones):
    return hr.window(phones, hr.tumbling("1 hour"), by="who", lateness="5 hours", n=hr.count())


@app.stream
def running(clicks):
    return hr.window(clicks, hr.global_(every=2), by="who", n=hr.count(), best=hr.max("score"))


@app.stream
def undated(clicks):
    seen = clicks.withColumn("seen", F.expr("if(who = 'nobody', null, at)"))
    return hr.window(seen, hr.tumbling("1 minute"), by="who", at="seen", n=hr.count())


def click(name: str, minutes: float, who: str = "ann", score: int = 1) -> dict[str, Any]:
    return {"id": name, "who": who, "score": score, "at": NOON + timedelta(minutes=minutes)}


def clock(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def short(rows: Iterable[dict[str, Any]], *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def test_the_classics(spark: SparkSession, bootstrap: str):
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("clicks", [click("a", 0), click("b", 15)], partition=0)
        driver.push("phones", [click("p1", 0, "phone"), click("q1", 0, "other")], partition=0)
        driver.advance()
        # Two visits, more than ten minutes apart.
        told = ("change", "window_start", "window_end", "clicks", "of")
        assert sorted(short(driver.read("visits"), *told)) == [
            ("+", clock(0), clock(10), 1, ["a"]),
            ("+", clock(15), clock(25), 1, ["b"]),
        ]
        # A late click between them makes one visit of the two.
        driver.push("clicks", [click("between", 8)], partition=0)
        driver.advance()
        assert sorted(short(driver.read("visits")[2:], *told)) == [
            ("+", clock(0), clock(25), 3, ["a", "between", "b"]),
            ("-", clock(0), clock(10), 1, ["a"]),
            ("-", clock(15), clock(25), 1, ["b"]),
        ]
        # The click at 15 minutes is in five windows of ten minutes that begin every two.
        driver.push("clicks", [click("bob", 15, "bob"), click("far", 60, "far")], partition=0)
        driver.advance()
        bob = [row for row in driver.read("hops") if row["who"] == "bob"]
        assert sorted(short(bob, "window_start", "window_end", "n")) == [
            (clock(start), clock(start + 10), 1) for start in (6, 8, 10, 12, 14)
        ]
        # Every minute that has clicks is told once, in its minute's numbers, however late the backlog is read.
        by_minute = {row["window_start"]: row["n"] for row in driver.read("minutes")}
        assert by_minute == {clock(0): 1, clock(15): 2}
        assert short(driver.late("minutes"), "id") == [("between",)]
        # A phone comes back after four hours offline: its events count for the hours in which they happened.
        driver.push("phones", [click("q2", 250, "other")], partition=0)
        driver.advance()
        driver.push("phones", [click("p2", 1, "phone"), click("p3", 61, "phone")], partition=0)
        driver.advance()
        # The changes of a window come in order; windows that change at once, in any.
        phone = [row for row in driver.read("hours") if row["who"] == "phone"]
        phone.sort(key=lambda row: row["window_start"])
        assert short(phone, "change", "window_start", "n") == [
            ("+", clock(0), 1),
            ("-", clock(0), 1),
            ("+", clock(0), 2),
            ("+", clock(60), 1),
        ]
        assert driver.late("hours") == []
        # A global window tells after every second row of a key, and takes back what it told.
        driver.push("clicks", [click("z1", 61, "zoe", 5), click("z2", 62, "zoe", 3)], partition=0)
        driver.advance()
        driver.push("clicks", [click("z3", 63, "zoe", 9), click("z4", 64, "zoe", 1)], partition=0)
        driver.advance()
        zoe = [row for row in driver.read("running") if row["who"] == "zoe"]
        assert short(zoe, "change", "n", "best") == [("+", 2, 5), ("-", 2, 5), ("+", 4, 9)]
        # A row without an event time is kept aside, not counted anywhere.
        driver.push("clicks", [click("n1", 64, "nobody")], partition=0)
        driver.advance()
        assert short(driver.late("undated"), "id")[-1] == ("n1",)
        assert "nobody" not in {row["who"] for row in driver.read("undated")}


def test_a_day_of_events_leaves_a_bounded_state(spark: SparkSession, bootstrap: str):
    """The same few people all day long: what is remembered at the end is what the last windows need."""
    day = hr.App("day")
    day.stream("clicks", schema=SCHEMA, event_time="at", delay="10 seconds", id="id")

    @day.stream
    def minutes(clicks):
        return hr.window(clicks, hr.hopping("10 minutes", "1 minute"), by="who", lateness="5 minutes", n=hr.count())

    @day.stream
    def visits(clicks):
        return hr.window(clicks, hr.session("3 minutes"), by="who", n=hr.count())

    @day.stream
    def recent(clicks):
        return hr.sliding(clicks, by="who", within="5 minutes", n=hr.count())

    held: dict[str, list[int]] = {"minutes": [], "visits": [], "recent": []}
    with Driver(day, spark=spark, bootstrap=bootstrap) as driver:
        for hour in range(0, 24, 4):
            rows = [click(f"{hour}-{n}", hour * 60 + n / 2, f"who{n % 20}") for n in range(4 * 120)]
            driver.push("clicks", rows, partition=0)
            driver.advance()
            for gauge in bridge.gauges(spark):
                if gauge.query in held and gauge.state_keys >= 0:
                    held[gauge.query].append(gauge.state_keys)
    for query, counts in held.items():
        assert 0 < max(counts[-2:]) <= max(counts[:4]), query
        assert max(counts) < 700, query
