"""Delivery: what exactly-once costs, and how fast derived stores follow the log.

    python -m bench.delivery [--events 1000000] [--only sink latency follower changes] [--quick]

`sink`: a stateless query over all events of a topic, in exact mode, to a topic; the transactional sink beside Spark's
plain Kafka sink, taking turns. `latency`: the same query at 200 events a second, end to end, with either sink; the goal
is what the transactions may add.

"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import headrace as hr
from bench import records
from bench.ground import Ground, ground, note
from bench.latency import measure, stateless
from bench.result import Result, print_result, print_table
from bench.rounds import rounds
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.graph.plan import Query
from headrace.kernel import bridge
from headrace.log import topic

PARTITIONS = 4
CASES = ("sink", "latency")
MOST_ADDED_MS = 60.0
SINK_GOAL = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delivery", description="Exactly-once, and who follows.")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many records (default 1,000,000)")
    parser.add_argument("--warm", type=int, default=3, help="warm rounds, of which the median counts (default 3)")
    parser.add_argument("--seconds", type=float, default=40, help="seconds of a latency measurement (default 40)")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="50,000 records, one warm round, 3 seconds")
    given = parser.parse_args()
    if given.quick:
        given.events, given.warm, given.seconds = 50_000, 1, 3.0
    results: list[Result] = []
    with ground("delivery") as here:
        if "sink" in given.only:
            results.append(_sink(here, given.events, given.warm))
        if "latency" in given.only:
            results.append(_latency(here, given.seconds))
        for result in results:
            print_result(result)
    print_table(results, "exact mode")
    if any(result.lost for result in results):
        sys.exit("events were lost")


@contextmanager
def plain_sink() -> Iterator[None]:
    """Spark's Kafka sink instead of the transactional one."""

    def write(
        records: DataFrame,
        query: Query,
        build: bridge.Build,
        *,
        mode: Mode,
        checkpoint: str,
        kafka: Mapping[str, str],
        batch: str,
    ) -> StreamingQuery:
        writer = records.writeStream.format("kafka").queryName(query.name).outputMode("update")
        writer = writer.options(**kafka).option("topic", query.node.topic).option("checkpointLocation", checkpoint)
        return writer.trigger(processingTime="0 seconds").start()

    with patch("headrace.engine.run.write", write):
        yield


def _sink(here: Ground, count: int, warm: int) -> Result:
    here.load("loaded", records.transactions(count), partitions=PARTITIONS)
    app = hr.App("sink")
    app.stream(
        "events", topic="loaded", schema="id string, card string, amount double, at timestamp", partitions=PARTITIONS
    )

    @app.stream(topic="copied", partitions=PARTITIONS)
    def copied(events: DataFrame) -> DataFrame:
        return events.where("amount >= 0")

    def all_once() -> None:
        with Run.start(
            app, mode=Mode.EXACT, settings=here.settings, bootstrap=here.connection.bootstrap, spark=here.spark
        ) as run:
            run.finish_input()
        shutil.rmtree(here.settings.state / "checkpoints" / "sink")

    def plain() -> None:
        with plain_sink():
            all_once()

    speeds = rounds({"transactional": all_once, "plain": plain}, events=count, warm=warm)
    ours, theirs = speeds["transactional"], speeds["plain"]
    expected = 2 * (1 + warm) * count
    written = sum(topic.ends(here.connection, "copied").values())
    note(f"{written:,} offsets for {expected:,} records")
    return Result(
        case="sink",
        mode=str(Mode.EXACT),
        events=count,
        events_per_second=ours.warm,
        events_per_cpu_second=ours.warm_by_cpu,
        cold_events_per_second=ours.cold,
        peer="plain Kafka sink",
        peer_events_per_second=theirs.warm,
        peer_events_per_cpu_second=theirs.warm_by_cpu,
        ratio=round(ours.warm / theirs.warm, 2),
        goal=SINK_GOAL,
    )


def _latency(here: Ground, seconds: float) -> Result:
    def once() -> Result:
        return measure(here, stateless, Mode.EXACT, rate=200, warmup=min(seconds, 10.0), seconds=seconds)

    ours = once()
    shutil.rmtree(here.settings.state / "checkpoints")
    with plain_sink():
        theirs = once()
    goal = None if theirs.p50_ms is None else theirs.p50_ms + MOST_ADDED_MS
    return replace(ours, case="latency", peer="plain Kafka sink", peer_p50_ms=theirs.p50_ms, goal_p50_ms=goal)


if __name__ == "__main__":
    main()
