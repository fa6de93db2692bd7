"""Decoding JSON: five columns of auction events from Kafka to Spark's noop sink, on two cores.

    python -m bench.decode [--events 2000000] [--quick]

Ours is the kernel's strict decoder, as the engine uses it, with the dead-letter topic behind it. The peer is Spark's
`from_json` of the same columns, which is lenient. Reading without parsing is the limit of both. The records are written
before, and that time is not counted. At the end both ways must give the same sums, or the bench fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bench.ground import Ground, ground
from bench.records import auction_events
from bench.result import Result, print_result, print_table
from bench.rounds import rounds
from bench.size import size
from headrace import names
from headrace.kernel import bridge

COLUMNS = "kind string, ts bigint, auction bigint, bidder bigint, price bigint"
TOPIC = "auction_events"
PARTITIONS = 4


def main() -> None:
    count, warm = size("bench.decode", "JSON records to rows.")
    with ground("decode", master="local[2]") as here:
        here.load(TOPIC, auction_events(count), partitions=PARTITIONS)
        raw, kernel, from_json = _ways(here)
        ways: dict[str, Callable[[], None]] = {
            "no parsing": lambda: _discard(raw()),
            "kernel": lambda: _discard(kernel()),
            "from_json": lambda: _discard(from_json()),
        }
        speeds = rounds(ways, events=count, warm=warm)
        ours, theirs = _sums(kernel()), _sums(from_json())
    limit, mine, peer = speeds["no parsing"], speeds["kernel"], speeds["from_json"]
    results = [
        Result(
            case="decode",
            mode="batch",
            events=count,
            events_per_second=mine.warm,
            events_per_cpu_second=mine.warm_by_cpu,
            cold_events_per_second=mine.cold,
            peer="from_json",
            peer_events_per_second=peer.warm,
            peer_events_per_cpu_second=peer.warm_by_cpu,
            ratio=round(mine.warm / peer.warm, 2),
            goal=1.5,
            goal_events_per_second=300_000,
        ),
        Result(
            case="read without parsing",
            mode="batch",
            events=count,
            events_per_second=limit.warm,
            events_per_cpu_second=limit.warm_by_cpu,
            cold_events_per_second=limit.cold,
        ),
    ]
    for result in results:
        print_result(result)
    print_table(results, f"{count:,} records of about 274 bytes, 5 columns, local[2], noop sink, median of {warm} warm")
    if ours != theirs or sum(row[1] for row in ours) != count:
        sys.exit(f"the decoders do not agree: kernel {ours}, from_json {theirs}, {count} records written")


def _ways(here: Ground) -> tuple[Callable[[], DataFrame], Callable[[], DataFrame], Callable[[], DataFrame]]:
    kafka = here.connection.spark()

    def raw(**more: str) -> DataFrame:
        options = {**kafka, "kafka.isolation.level": "read_committed", "subscribe": TOPIC, **more}
        return here.spark.read.format("kafka").options(**options).load()

    def kernel() -> DataFrame:
        return bridge.decode(
            raw(includeHeaders="true"),
            query="decode",
            topic=TOPIC,
            dead_topic=names.dead_topic(TOPIC),
            ddl=COLUMNS,
            event_time=None,
            future_ms=-1,
            kafka=kafka,
        )

    def from_json() -> DataFrame:
        return raw().select(F.from_json(F.col("value").cast("string"), COLUMNS).alias("row")).select("row.*")

    return raw, kernel, from_json


def _discard(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _sums(rows: DataFrame) -> list[tuple[int, ...]]:
    """What the rows add up to, by kind, so that every column counts."""
    sums = (F.sum(column) for column in ("ts", "auction", "bidder", "price"))
    return sorted(tuple(row) for row in rows.groupBy("kind").agg(F.count("*"), *sums).collect())


if __name__ == "__main__":
    main()
