"""Removing repeats: card transactions, one in twenty a repeat, from Kafka through `hr.dedupe` to Spark's noop sink.

    python -m bench.dedupe [--events 2000000] [--quick]

Both ways read and decode through the engine, as exact mode does it (the engine's own limit of records a micro-batch,
RocksDB state), on two cores, and recognise repeats less than a minute apart in event time at 10,000 events a second of
it. Ours says `within="1 minute"` behind a watermark delay of 5 seconds. The peer, `dropDuplicatesWithinWatermark`,
remembers for as long as the watermark's delay, so its delay is the minute. The time is that of the whole query, from
its start to its end. Each run must keep exactly the right number of rows, or the bench fails.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

from pyspark.sql import DataFrame

import headrace as hr
from bench.ground import Ground, ground
from bench.records import distinct, transactions
from bench.result import Result, print_result, print_table
from bench.rounds import rounds
from bench.size import size
from headrace.engine.frames import MOST_RECORDS_A_BATCH, Frames
from headrace.engine.mode import Mode
from headrace.graph.plan import plan

SCHEMA = "id string, card string, amount double, at timestamp"
TOPIC = "transactions"
PARTITIONS = 4
WITHIN = "1 minute"


def main() -> None:
    count, warm = size("bench.dedupe", "Each event once.")
    with ground("dedupe", master="local[2]") as here:
        here.load(TOPIC, transactions(count), partitions=PARTITIONS)

        def ours(rows: DataFrame) -> DataFrame:
            return hr.dedupe(rows, by="id", within=WITHIN)

        def theirs(rows: DataFrame) -> DataFrame:
            return rows.dropDuplicatesWithinWatermark(["id"])

        ways = {
            "kernel": lambda: _run(here, "kernel", "5 seconds", ours, distinct(count)),
            "dropDuplicatesWithinWatermark": lambda: _run(here, "spark", WITHIN, theirs, distinct(count)),
        }
        speeds = rounds(ways, events=count, warm=warm)
    mine, peer = speeds["kernel"], speeds["dropDuplicatesWithinWatermark"]
    result = Result(
        case="dedupe",
        mode=str(Mode.EXACT),
        events=count,
        events_per_second=mine.warm,
        events_per_cpu_second=mine.warm_by_cpu,
        cold_events_per_second=mine.cold,
        peer="dropDuplicatesWithinWatermark",
        peer_events_per_second=peer.warm,
        peer_events_per_cpu_second=peer.warm_by_cpu,
        ratio=round(mine.warm / peer.warm, 2),
        goal_events_per_second=100_000,
    )
    print_result(result)
    print_table(
        [result],
        f"{count:,} transactions, local[2], noop sink, {MOST_RECORDS_A_BATCH:,} a batch, median of {warm} warm",
    )


def _run(here: Ground, name: str, delay: str, keep: Callable[[DataFrame], DataFrame], expected: int) -> None:
    """The whole topic once, with a fresh checkpoint; fails when it does not keep `expected` rows."""
    app = hr.App(name)
    app.source(TOPIC, schema=SCHEMA, event_time="at", delay=delay, id="id", partitions=PARTITIONS)

    @app.stream
    def unique(transactions: DataFrame) -> DataFrame:
        return keep(transactions)

    graph = app.graph()
    rows, _ = Frames(here.spark, graph, Mode.EXACT, here.connection).result(plan(graph)[0])
    checkpoint = here.settings.state / "checkpoints" / name
    writer = rows.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    kept = sum(progress.sink.numOutputRows for progress in query.recentProgress)
    shutil.rmtree(checkpoint)
    if kept != expected:
        sys.exit(f"{name} kept {kept:,} rows, and {expected:,} are right")


if __name__ == "__main__":
    main()
