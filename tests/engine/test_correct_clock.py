"""Event times of devices whose clocks are wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.errors import DeclarationErrors
from headrace.testing import Driver, oracle

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
SCHEMA = "id string, phone string, occurred timestamp, sent timestamp, received timestamp"

app = hr.App("devices")
app.stream("taps", schema=SCHEMA, event_time=hr.correct_clock("occurred", sent="sent", received="received"), id="id")


@app.stream
def minutes(taps):
    return hr.window(taps, hr.tumbling("1 minute"), by=[], taps=hr.collect("id"))


def tap(name: str, seconds: float, *, off: timedelta, waited: float = 5) -> dict[str, Any]:
    """A tap at so many seconds after noon on a phone whose clock is off, sent a while after."""
    occurred = NOON + timedelta(seconds=seconds)
    received = occurred + timedelta(seconds=waited)
    return {"id": name, "phone": "p", "occurred": occurred + off, "sent": received + off, "received": received}


def test_the_time_is_that_of_the_server_whatever_the_clock_of_the_device(spark: SparkSession, bootstrap: str):
    plain = {**tap("null", 30, off=timedelta()), "sent": None}
    rows = [
        tap("right", 10, off=timedelta()),
        tap("years behind", 20, off=timedelta(days=-3650)),
        plain,
        tap("a day ahead", 40, off=timedelta(days=1), waited=3600),
        tap("next", 70, off=timedelta(hours=-5)),
        tap("end", 600, off=timedelta()),
    ]
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("taps", rows, partition=0)
        driver.advance()
        found = [row["taps"] for row in driver.read("minutes")]
        assert found == [["right", "years behind", "null", "a day ahead"], ["next"]]
        assert [row["taps"] for row in oracle(app, "minutes", {"taps": rows}, spark)][:2] == found
        assert driver.dead("taps") == []


def test_without_a_column_for_it_the_record_was_received_at_its_time_in_kafka(spark: SparkSession, bootstrap: str):
    declared = hr.App("phones")
    declared.stream(
        "taps",
        schema="id string, occurred timestamp, sent timestamp",
        event_time=hr.correct_clock("occurred", sent="sent"),
        id="id",
    )

    @declared.stream
    def copied(taps):
        return taps.select("id", "occurred")

    off = {"right": timedelta(), "years behind": timedelta(days=-3650), "a day ahead": timedelta(days=1)}
    now = datetime.now(UTC)
    rows = [{"id": name, "occurred": now + by - timedelta(seconds=30), "sent": now + by} for name, by in off.items()]
    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("taps", rows)
        driver.advance()
        received = {
            json.loads(record.value or b"")["id"]: datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
            for record in driver.records("taps")
        }
        found = {row["id"]: datetime.fromisoformat(row["occurred"]) for row in driver.read("copied")}
        assert found == {name: received[name] - timedelta(seconds=30) for name in off}


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(Exception, match="HR-006") as raised:
        hr.App("wrong").stream("taps", schema=SCHEMA, event_time=hr.correct_clock("occurred", sent="nope"))
    assert not isinstance(raised.value, DeclarationErrors)
