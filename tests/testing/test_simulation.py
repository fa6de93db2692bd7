"""A simulation gives what Spark gives, in both modes, and finds what Spark's order of things can do to an operator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.testing import Delete, Simulation, oracle

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def declared() -> hr.App:
    app = hr.App("simulated")
    app.stream("events", schema="id string, who string, n int, at timestamp", event_time="at", id="id", partitions=2)
    app.table("people", schema="who string, town string", key="who")

    @app.stream(topic="kept")
    def kept(events):
        return events.where("n >= 0")

    @app.stream(topic="seconds")
    def seconds(kept):
        return hr.window(kept, hr.tumbling("1 second"), by="who", n=hr.count(), total=hr.sum("n"))

    @app.stream(topic="once")
    def once(kept):
        return hr.dedupe(kept, by="id", within="1 hour")

    @app.view(key="town")
    def towns(kept, people):
        counted = hr.aggregate(kept, by="who", n=hr.count())
        return hr.aggregate(hr.join(counted, people, on="who"), by="town", n=hr.sum("n"))

    return app


def events(first: int, number: int) -> list[dict[str, Any]]:
    return [
        {"id": f"e{i}", "who": "abc"[i % 3], "n": i % 5 - 1, "at": BEGIN + timedelta(milliseconds=100 * i)}
        for i in range(first, first + number)
    ]


def counted(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def played(simulation: Simulation, batches: Sequence[list[dict[str, Any]]], *, crashes: bool) -> None:
    simulation.push("people", [{"who": who, "town": f"at {who}"} for who in "abcd"])
    for number, batch in enumerate(batches):
        for partition in (0, 1):
            simulation.push("events", batch[partition::2], partition=partition)
        simulation.push("people", [{"who": "a", "town": f"move {number}"}, Delete({"who": "d"})])
        simulation.advance()
        if crashes:
            simulation.crash()


@pytest.mark.parametrize(("mode", "crashes"), [(Mode.EXACT, False), (Mode.EXACT, True), (Mode.LIVE, False)])
def test_it_gives_the_batch_answer(spark: SparkSession, mode: Mode, crashes: bool):
    app = declared()
    batches = [events(0, 60), events(60, 60), events(115, 35), events(100_000, 2), events(200_000, 2)]
    sent = [event for batch in batches for event in batch]
    people = [{"who": "a", "town": "move 4"}, {"who": "b", "town": "at b"}, {"who": "c", "town": "at c"}]
    given = {"events": sent, "people": people}
    with Simulation(app, spark=spark, mode=mode, live_batch=25) as simulation:
        played(simulation, batches, crashes=crashes)
        for name in ("kept", "once"):
            assert counted(simulation.read(name)) == counted(oracle(app, name, given, spark)), name
        told = counted(simulation.read("seconds"))
        wanted = counted(oracle(app, "seconds", given, spark))
        assert told - wanted == Counter()
        assert sum(told.values()) > 20
        assert counted(simulation.view("towns")) == counted(oracle(app, "towns", given, spark))


def test_a_live_shard_that_only_a_timer_wakes_keeps_its_state(spark: SparkSession):
    """When a partition falls idle, the timer of a window is due in a batch without a row, in which Spark looks at no
    timer that is asked for meanwhile: what the shard forgets there must be written there."""
    app = hr.App("woken")
    app.stream("events", schema="id string, who string, n int, at timestamp", event_time="at", id="id", partitions=2)

    @app.stream
    def seconds(events):
        return hr.window(events, hr.tumbling("1 second"), by="who", n=hr.count())

    with Simulation(app, spark=spark, mode=Mode.LIVE) as simulation:
        for turn in range(4):
            sent = events(200 * turn, 101)
            simulation.push("events", sent[:3], partition=0)
            simulation.push("events", sent[-1:], partition=1)
            simulation.advance()
            simulation.idle()
        assert sum(row["n"] for row in simulation.read("seconds")) == 4 * 4 - 1


def test_a_bad_record_is_a_dead_letter_and_a_late_row_is_kept(spark: SparkSession):
    app = hr.App("aside")
    app.stream("events", schema="id string, who string, n int, at timestamp", event_time="at", id="id")

    @app.stream
    def seconds(events):
        return hr.window(events, hr.tumbling("1 second"), by="who", n=hr.count())

    with Simulation(app, spark=spark) as simulation:
        simulation.push("events", [b"{", *events(100, 3)])
        simulation.advance()
        simulation.push("events", events(0, 1))
        simulation.advance()
        (letter,) = simulation.dead("events")
        assert (letter.raw, letter.source.offset) == (b"{", 0)
        assert [row["id"] for row in simulation.late("seconds")] == ["e0"]
