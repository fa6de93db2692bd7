"""The only code that talks to the JVM.

Python declares, the kernel (`java/`) runs: each function here hands a DataFrame to a static method of the kernel and
wraps what comes back. `building` says for which query a plan is being built, so that operators, which know nothing of
apps and topics, can still send late rows to the right place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

Clock = Any  # the kernel's object
PLUGINS = "headrace.kernel.MeterPlugin,headrace.kernel.StorePlugin"
SHUFFLE = "headrace.kernel.PartitionShuffle"
CHECKPOINTS = "headrace.kernel.LocalCheckpoints"
TRANSACTIONAL_SINK = "headrace.kernel.TransactionalSink"
IN_FLIGHT = "headrace.kernel.InFlight"
PACKED = "__hr_row"
SLOTS = 14  # of the kernel's Meter


@dataclass
class Build:
    """The query whose plan is being built: where its side outputs go, and which operators it turned out to have.

    `operators` describes each stateful operator by what its state depends on, in the order of the plan, and `named`
    has their names. `sink` names the transactions of what the query writes, and `run` this start of it; without a
    `sink` side outputs are written as they come. `view` says that rows are put and deleted by key.
    """

    query: str
    late_topic: str
    kafka: Mapping[str, str]
    live: bool = False
    view: bool = False
    sink: str | None = None
    run: str = ""
    operators: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    sides: int = 0

    def operator(self, kind: str, state: str) -> str:
        """Note an operator; its name is `dedupe`, `dedupe_2`, …"""
        same = sum(1 for known in self.operators if known.startswith(f"{kind} "))
        self.operators.append(f"{kind} {state}")
        self.named.append(kind if same == 0 else f"{kind}_{same + 1}")
        return self.named[-1]


@dataclass(frozen=True)
class HotKey:
    """A key as JSON, how often it was noted, and how often any key was, in a sample."""

    key: str
    noted: int
    of: int


@dataclass(frozen=True)
class Gauge:
    """The counts of one source partition or operator partition in this run; -1 or None where it has none.

    A topic that a query reads more than once has a gauge for each of its readers: `payments`, `payments~1`, …
    `hot` is the most frequent key of what the task of this number sends to an operator.
    In live mode: the rows of either wave (engine/wave.py) that were `sent` to an operator and `taken` by it, and the
    time of the oldest record that the log has not acknowledged. Of what a query writes: how many records are in the
    log, and how many of them took how long (engine/latency.py).
    """

    query: str
    of: str
    partition: int
    rows: int
    dead: int
    late: int
    repeats: int
    next_offset: int
    event_time_us: int | None
    state_keys: int = -1
    state_bytes: int = -1
    sent: tuple[int, int] = (0, 0)
    taken: tuple[int, int] = (0, 0)
    unwritten_ms: int | None = None
    written: int = 0
    latencies: tuple[int, ...] = ()
    hot: HotKey | None = None

    @property
    def topic(self) -> str:
        """The topic that is read."""
        return self.of.partition("~")[0]


_BUILD: ContextVar[Build | None] = ContextVar("headrace_build", default=None)
_UNNAMED = count(1)  # operators outside of any query are still to be told apart
_NO_TIME = -(2**63)
_LAYOUT = ("size_ms", "every_ms", "offset_ms", "gap_ms", "within_ms", "timezone", "n", "score", "lower_ms", "upper_ms",
           "slice_ms", "sides", "on", "whole", "taken_back", "holds", "wait_ms", "correct")  # fmt: skip
_FORM = 3  # of the state that the kernel's ShardStore writes
_CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
_HOT_KEY = 3


@contextmanager
def building(build: Build) -> Iterator[Build]:
    """Operators called inside belong to this query."""
    token = _BUILD.set(build)
    try:
        yield build
    finally:
        _BUILD.reset(token)


def is_live() -> bool:
    """Whether the plan that is being built is that of a query that will run live."""
    build = _BUILD.get()
    return build is not None and build.live


def decode(
    records: DataFrame,
    *,
    query: str,
    topic: str,
    dead_topic: str,
    ddl: str,
    event_time: str | None,
    future_ms: int,
    kafka: Mapping[str, str] | None,
    clock: Clock | None = None,
    epoch_us: int = 0,
    sent: str | None = None,
    received: str | None = None,
) -> DataFrame:
    """Rows of a schema from Spark's Kafka records; what does not fit goes to the dead-letter topic.

    Where a timestamp is declared, a number stands for `epoch_us` microseconds since 1970; 0 refuses numbers.
    With `sent` the event time is corrected by how far the device's clock was off when the record was `received`.
    """
    spark = records.sparkSession
    side = _side_output(spark, kafka, _BUILD.get()) if kafka is not None else None
    times = _strings(spark, (event_time, sent, received))
    rows = _kernel(spark).RecordDecoder.rows(
        records._jdf, query, topic, dead_topic, ddl, epoch_us, times, future_ms, side, clock
    )
    return DataFrame(rows, spark)


def changes(
    records: DataFrame,
    *,
    query: str,
    topic: str,
    dead_topic: str,
    ddl: str,
    key: Sequence[str],
    envelope: bool,
    epoch_us: int,
    sign: str,
    offset: str,
    kafka: Mapping[str, str] | None,
    time: str | None = None,
) -> DataFrame:
    """What the records of a table's topic put and delete: rows of its schema, with the columns `sign` and `offset`, and
    the `time` of the change where a column for it is named.

    With `envelope` they are Debezium's.
    """
    spark = records.sparkSession
    side = _side_output(spark, kafka, _BUILD.get()) if kafka is not None else None
    rows = _kernel(spark).RecordDecoder.changes(
        records._jdf, query, topic, dead_topic, ddl, _strings(spark, key), envelope, epoch_us, sign, offset, time, side
    )
    return DataFrame(rows, spark)


def packed(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows with these columns replaced by one, `PACKED`, that holds them all."""
    spark = rows.sparkSession
    return DataFrame(_kernel(spark).PackedRow.packed(rows._jdf, _strings(spark, columns)), spark)


def pack(rows: DataFrame, columns: Sequence[str]) -> Column:
    """These columns of the rows in one."""
    spark = rows.sparkSession
    return Column(_kernel(spark).PackedRow.packing(rows._jdf, _strings(spark, columns)))


def one_pass(left: DataFrame, right: DataFrame, side: str, names: Sequence[str]) -> DataFrame | None:
    """The rows of two selections of the same rows: `side` 0 or 1, and the columns of each under its name and a number.
    None when they select from different rows."""
    spark = left.sparkSession
    rows = _kernel(spark).OnePass.rows(left._jdf, right._jdf, side, _strings(spark, names))
    return None if rows is None else DataFrame(rows, spark)


def clock(
    spark: SparkSession, query: str, *, partitions: int, idle_ms: int, delay_ms: int, share: float, least_ms: int
) -> Clock:
    """A clock for a source of a query, which `decode` and `follow` share. With a `share` the delay is adaptive."""
    return _kernel(spark).SourceClock(query, partitions, idle_ms, _kernel(spark).Delay(share, least_ms, delay_ms))


def follow(rows: DataFrame, column: str, clock: Clock) -> DataFrame:
    """Rows whose watermark follows the clock."""
    spark = rows.sparkSession
    return DataFrame(_kernel(spark).Watermark.follow(rows._jdf, column, clock), spark)


def followed(rows: DataFrame) -> bool:
    """Whether a watermark follows a column of the rows, or of what they are made of."""
    return _kernel(rows.sparkSession).Watermark.set(rows._jdf)


def hush(spark: SparkSession, query: str) -> None:
    """Take the sources of a query for quiet until they speak: its watermark comes to their newest event."""
    _kernel(spark).Watermark.hush(query)


def encode(rows: DataFrame, key: Sequence[str], partitions: int = 1, build: Build | None = None) -> DataFrame:
    """Kafka records (`key`, `value`) of rows; the value is JSON. Without a key they have a `partition`, of so many, and
    those of a query that runs live have `headers`."""
    spark = rows.sparkSession
    query = build.query if build is not None and build.live else None
    encoded = _kernel(spark).RecordEncoder.encode(rows._jdf, _strings(spark, key), partitions, query)
    return DataFrame(_kernel(spark).Branches.apart(encoded), spark)


def encode_view(rows: DataFrame, key: Sequence[str], columns: Sequence[str], build: Build) -> DataFrame:
    """The same of these columns of a view's rows; where `change` is not one of them it says what becomes of a row: what
    is taken back has no value. What cannot be in the view goes where late rows go. Those of a query that runs live have
    `headers`."""
    spark = rows.sparkSession
    side = _side_output(spark, build.kafka, build)
    encoded = _kernel(spark).ViewEncoder.encode(
        rows._jdf, _strings(spark, key), _strings(spark, columns), build.query, build.live, build.late_topic, side
    )
    return DataFrame(_kernel(spark).Branches.apart(encoded), spark)


def dedupe(rows: DataFrame, by: Sequence[str], at: str, within_ms: int) -> DataFrame:
    """The streaming plan of `hr.dedupe`."""
    spark = rows.sparkSession
    key = ", ".join(f"{name} {rows.schema[name].dataType.simpleString()}" for name in by)
    late = _late_rows(spark, "dedupe", f"by {key}")
    kept = _kernel(spark).Dedupe.dedupe(
        rows._jdf, _strings(spark, by), at, within_ms, late, is_live(), *_delay(spark, rows.schema, at)
    )
    return DataFrame(kept, spark)


def sharded(rows: DataFrame, spec: Mapping[str, Any], *beside: DataFrame) -> DataFrame:
    """The streaming plan of an operator that the kernel runs in shards; the spec says which and how. Rows that are
    `beside` the others have the same columns."""
    spark = rows.sparkSession
    build = _BUILD.get()
    shards = spark.conf.get("spark.sql.shuffle.partitions")
    keys = ", ".join(f"{name} {rows.schema[name].dataType.simpleString()}" for name in spec["by"])
    aggregates = ", ".join(map(_described, spec["aggregates"]))
    layout = {name: spec[name] for name in _LAYOUT if spec.get(name)}
    state = f"{spec['kind']} {layout} by {keys} of {aggregates} in {shards} shards, form {_FORM}"
    late = _late_rows(spark, spec["operator"], state)
    gateway: Any = spark.sparkContext._gateway
    inputs = gateway.new_array(_jvm(spark).org.apache.spark.sql.Dataset, 1 + len(beside))
    for i, one in enumerate((rows, *beside)):
        inputs[i] = one._jdf
    frame = _kernel(spark).Operator.rows(
        inputs,
        json.dumps({**spec, "view": build is not None and build.view}),
        build.query if build else "unnamed",
        is_live(),
        *_delay(spark, rows.schema, spec["time"]),
        late,
    )
    return DataFrame(frame, spark)


def _described(aggregate: Mapping[str, Any]) -> str:
    types = [aggregate[name] for name in ("type", "input_type", "by_type") if aggregate[name] is not None]
    return " ".join([aggregate["name"], aggregate["kind"], *types])


def _delay(spark: SparkSession, schema: StructType, time: str | None) -> tuple[Any, int]:
    """How long the clock of the rows stays behind their `time`, and after how many milliseconds who is quiet is not
    waited for: as it is marked on that column, or else on the one that is the event time."""
    marks = [schema[time].metadata, *(field.metadata for field in schema.fields)] if time else []
    found = next((mark for mark in marks if "headrace.delay_ms" in mark), {})
    delay = _kernel(spark).Delay(
        float(found.get("headrace.share", 0)),
        int(found.get("headrace.least_ms", 0)),
        int(found.get("headrace.delay_ms", 0)),
    )
    return delay, int(found.get("headrace.idle_ms", 0))


def sign_lost(rows: DataFrame) -> bool:
    """Whether the rows are those of a table without their `change`, left out by somebody who has not looked at it."""
    return bool(_kernel(rows.sparkSession).Sign.isLost(rows._jdf))


def moving(rows: DataFrame) -> str | None:
    """What is computed of the rows of a table and may be something else when a row goes than when it came, as SQL."""
    return _kernel(rows.sparkSession).Sign.moving(rows._jdf)


@contextmanager
def joining(rows: DataFrame) -> Iterator[None]:
    """Inside, Spark lets a query of these rows start live though there are operators before a union (the kernel's
    `SHUFFLE` can read them). Everything else that Spark asks of a plan is asked here."""
    spark = rows.sparkSession
    _kernel(spark).PartitionShuffle.check(rows._jdf)
    before = spark.conf.get(_CHECKS) or "true"
    spark.conf.set(_CHECKS, "false")
    try:
        yield
    finally:
        spark.conf.set(_CHECKS, before)


def unique(rows: DataFrame, key: Sequence[str]) -> bool:
    """Whether the key tells the rows of an operator's result apart, and all changes of a row come from one task."""
    spark = rows.sparkSession
    return bool(_kernel(spark).Uniqueness.holds(rows._jdf, _strings(spark, key)))


def gauges(spark: SparkSession) -> list[Gauge]:
    """What the kernel has counted on all executors, a fraction of a second ago."""
    found: list[Gauge] = []
    hot: dict[tuple[str, str, int], HotKey] = {}
    for line in _kernel(spark).Meter.snapshot().split("\n"):
        query, of, partition, *values = line.split("\t") if line else ("", "", "")
        if len(values) == _HOT_KEY:
            hot[query, of, int(partition)] = HotKey(values[0], int(values[1]), int(values[2]))
        if len(values) <= _HOT_KEY:
            continue
        numbers = map(int, values)
        rows, dead, late, repeats, s0, s1, t0, t1, written, next_offset, event_time, keys, size, unwritten = (
            next(numbers) for _ in range(SLOTS)
        )
        time = None if event_time == _NO_TIME else event_time
        counts = (rows, dead, late, repeats, next_offset, time, keys, size)
        waiting = None if unwritten == _NO_TIME else -unwritten
        found.append(Gauge(query, of, int(partition), *counts, (s0, s1), (t0, t1), waiting, written, tuple(numbers)))
    known = [replace(gauge, hot=hot.pop((gauge.query, gauge.of, gauge.partition), None)) for gauge in found]
    return known + [_sender(*place, key) for place, key in hot.items()]


def _sender(query: str, of: str, partition: int, hot: HotKey) -> Gauge:
    """The gauge of a task that has only sent to an operator so far."""
    return Gauge(query, of, partition, 0, 0, 0, 0, -1, None, hot=hot)


def forget(spark: SparkSession, query: str) -> None:
    """Let go of a query's gauges, clocks and state in memory; before it is planned, and when it has ended."""
    _kernel(spark).Meter.forget(query)
    _kernel(spark).Watermark.forget(query)


def record_at_hand(query: StreamingQuery) -> str | None:
    """Where the row came from at which a query failed, as `topic[partition]@offset`; None where nobody knows."""
    java: Any = query._jsq
    jvm: Any = SparkContext._jvm
    failure = java.exception()
    return jvm.headrace.kernel.Origin.of(failure.get()) if failure.isDefined() else None


def turn(spark: SparkSession, query: str, operator: str) -> int:
    """Mark the rows that are sent to an operator from now on; the number that they have."""
    return _kernel(spark).Wave.turn(query, operator)


def close(spark: SparkSession, run: str) -> None:
    """Close what a run has kept open in this process between its batches; when its queries have stopped."""
    _kernel(spark).Transaction.close(run)


def _late_rows(spark: SparkSession, kind: str, state: str) -> Any:
    build = _BUILD.get()
    if build is None:
        return _kernel(spark).LateRows("unnamed", f"{kind}_{next(_UNNAMED)}", None, None)
    side = _side_output(spark, build.kafka, build)
    return _kernel(spark).LateRows(build.query, build.operator(kind, state), build.late_topic, side)


def _side_output(spark: SparkSession, kafka: Mapping[str, str], build: Build | None) -> Any:
    options = _jvm(spark).java.util.HashMap()
    for option, value in kafka.items():
        options.put(option.removeprefix("kafka."), value)
    if build is None or build.sink is None:
        return _kernel(spark).SideOutput(options, None, None)
    build.sides += 1
    return _kernel(spark).SideOutput(options, f"{build.sink}.side{build.sides}", build.run)


def _kernel(spark: SparkSession) -> Any:
    return _jvm(spark).headrace.kernel


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _strings(spark: SparkSession, values: Sequence[str | None]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(_jvm(spark).java.lang.String, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array
