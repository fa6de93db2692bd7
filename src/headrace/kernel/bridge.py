"""The only code that talks to the JVM.

Python declares, the kernel (`java/`) runs: each function here hands a DataFrame to a static method of the kernel and
wraps what comes back. `building` says for which query a plan is being built, so that operators, which know nothing of
apps and topics, can still send late rows to the right place.

Two runs of one session may have queries of one name. So the kernel and Spark know a query by its name and its run
(`named`), and only what is written to the log has the bare name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from headrace.kernel.operator import Operator

Clock = Any  # the kernel's object
Written = Any  # likewise
PLUGINS = "headrace.kernel.meters.MeterPlugin,headrace.kernel.spark.StorePlugin"
SHUFFLE = "headrace.kernel.spark.PartitionShuffle"
CHECKPOINTS = "headrace.kernel.spark.LocalCheckpoints"
TRANSACTIONAL_SINK = "headrace.kernel.spark.TransactionalSink"
IN_FLIGHT = "headrace.kernel.meters.InFlight"
PACKED = "__hr_row"
SLOTS = 14  # of the kernel's Meter
UNANSWERED = (Py4JError, ConnectionError)  # what a call raises when Spark's process does not answer


@dataclass
class Build:
    """The query whose plan is being built: where its side outputs go, and which operators it turned out to have.

    `operators` describes each stateful operator by what its state means, in the order of the plan, and `named` has
    their names. `run` names this start of it, and `sink` the transactions of what it writes; without one side outputs
    are written as they come. `view` says that rows are put and deleted by key. With `identified` rows are told with
    their ids in exact mode too.
    """

    query: str
    late_topic: str
    kafka: Mapping[str, str]
    live: bool = False
    view: bool = False
    identified: bool = False
    sink: str | None = None
    run: str = ""
    operators: list[dict[str, Any]] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    sides: int = 0

    @property
    def known_as(self) -> str:
        """What the kernel and Spark call it."""
        return named(self.query, self.run)

    def operator(self, kind: str, state: Mapping[str, Any]) -> str:
        """Note an operator; its name is `dedupe`, `dedupe_2`, …"""
        same = sum(1 for known in self.operators if known["operator"] == kind)
        self.operators.append({"operator": kind, **state})
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
    In live mode: the rows with either marker (engine/wave.py) that were `sent` to an operator and `taken`, and the
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
_OF_RUN = "@"  # as in the kernel's RunName
_CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
_HOT_KEY = 3


def named(query: str, run: str) -> str:
    """What the kernel and Spark call a query of a run."""
    return f"{query}{_OF_RUN}{run}" if run else query


@contextmanager
def building(build: Build) -> Iterator[Build]:
    """Operators called inside belong to this query."""
    token = _BUILD.set(build)
    try:
        yield build
    finally:
        _BUILD.reset(token)


class Noted:
    """The operators that the plan being built had at a moment."""

    def __init__(self) -> None:
        self._build = _BUILD.get()
        if self._build is not None:
            self._known = len(self._build.operators)
            self._sides = self._build.sides

    def forget(self) -> None:
        """Forget those that were added since: the plan that has them is not used."""
        if self._build is not None:
            del self._build.operators[self._known :]
            del self._build.named[self._known :]
            self._build.sides = self._sides


def is_live() -> bool:
    """Whether the plan that is being built is that of a query that will run live."""
    build = _BUILD.get()
    return build is not None and build.live


def _is_identified() -> bool:
    build = _BUILD.get()
    return build is not None and build.identified


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
    rows = _kernel(spark).spark.DecodePlan.rows(
        records._jdf, _known_as(query), topic, dead_topic, ddl, epoch_us, times, future_ms, side, clock
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
    rows = _kernel(spark).spark.DecodePlan.changes(
        records._jdf,
        _known_as(query),
        topic,
        dead_topic,
        ddl,
        _strings(spark, key),
        envelope,
        epoch_us,
        sign,
        offset,
        time,
        side,
    )
    return DataFrame(rows, spark)


def packed(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows with these columns replaced by one, `PACKED`, that holds them all."""
    spark = rows.sparkSession
    return DataFrame(_kernel(spark).spark.PackedColumns.packed(rows._jdf, _strings(spark, columns)), spark)


def pack(rows: DataFrame, columns: Sequence[str]) -> Column:
    """These columns of the rows in one."""
    spark = rows.sparkSession
    return Column(_kernel(spark).spark.PackedColumns.packing(rows._jdf, _strings(spark, columns)))


def one_pass(left: DataFrame, right: DataFrame, side: str, names: Sequence[str]) -> DataFrame | None:
    """The rows of two selections of the same rows: `side` 0 or 1, and the columns of each under its name and a number.
    None when they select from different rows."""
    spark = left.sparkSession
    rows = _kernel(spark).spark.OnePass.rows(left._jdf, right._jdf, side, _strings(spark, names))
    return None if rows is None else DataFrame(rows, spark)


def clock(
    spark: SparkSession, query: str, *, partitions: int, idle_ms: int, delay_ms: int, share: float, least_ms: int
) -> Clock:
    """A clock for a source of a query, which `decode` and `follow` share. With a `share` the delay is adaptive."""
    delay = _kernel(spark).time.Delay(share, least_ms, delay_ms)
    return _kernel(spark).time.SourceClock(_known_as(query), partitions, idle_ms, delay)


def follow(rows: DataFrame, column: str, clock: Clock) -> DataFrame:
    """Rows whose watermark follows the clock."""
    spark = rows.sparkSession
    return DataFrame(_kernel(spark).spark.Watermark.follow(rows._jdf, column, clock), spark)


def followed(rows: DataFrame) -> bool:
    """Whether a watermark follows a column of the rows, or of what they are made of."""
    return _kernel(rows.sparkSession).spark.Watermark.set(rows._jdf)


def assume_idle(spark: SparkSession, query: str, run: str = "") -> None:
    """Take the sources of a query for quiet until they speak: its watermark comes to their newest event."""
    _kernel(spark).spark.Watermark.assumeIdle(named(query, run))


def written(spark: SparkSession) -> Written:
    """Which rows `encode` leaves out, because they are in the topic already; none until `leave_out` says so."""
    return _kernel(spark).encode.Written()


def leave_out(spark: SparkSession, written: Written, ids: Iterable[str]) -> None:
    """Say by their ids which rows are left out; before a query is started."""
    java: Any = spark.sparkContext._jsc
    written.set(java.sc(), "\n".join(ids))


def encode(
    rows: DataFrame,
    key: Sequence[str],
    partitions: int = 1,
    build: Build | None = None,
    written: Written | None = None,
) -> DataFrame:
    """Kafka records (`key`, `value`) of rows; the value is JSON. Without a key they have a `partition`, of so many.
    Those of a query that runs live have `headers`: without `written`, which says what is left out, none by which a row
    can be told from others."""
    spark = rows.sparkSession
    live, query = (build.live, build.query) if build is not None else (False, None)
    encoded = _kernel(spark).spark.EncodePlan.encode(rows._jdf, _strings(spark, key), partitions, query, live, written)
    return DataFrame(_kernel(spark).spark.Branches.apart(encoded), spark)


def in_python(rows: DataFrame) -> bool:
    """Whether Python computes something of the rows: it reads ahead, so ids behind it are those of other rows."""
    return bool(_kernel(rows.sparkSession).spark.EncodePlan.isInPython(rows._jdf))


def encode_view(rows: DataFrame, key: Sequence[str], columns: Sequence[str], build: Build) -> DataFrame:
    """The same of these columns of a view's rows; where `change` is not one of them it says what becomes of a row: what
    is taken back has no value. What cannot be in the view goes where late rows go. Those of a query that runs live have
    `headers`."""
    spark = rows.sparkSession
    side = _side_output(spark, build.kafka, build)
    encoded = _kernel(spark).spark.EncodePlan.encodeView(
        rows._jdf, _strings(spark, key), _strings(spark, columns), build.known_as, build.live, build.late_topic, side
    )
    return DataFrame(_kernel(spark).spark.Branches.apart(encoded), spark)


def dedupe(rows: DataFrame, by: Sequence[str], at: str, within_ms: int) -> DataFrame:
    """The streaming plan of `hr.dedupe`."""
    spark = rows.sparkSession
    late = _late_rows(spark, "dedupe", {"by": _typed(rows, by), "within_ms": within_ms, "time": at})
    kept = _kernel(spark).spark.DedupePlan.dedupe(
        rows._jdf,
        _strings(spark, by),
        at,
        within_ms,
        late,
        is_live(),
        _is_identified(),
        *_delay(spark, rows.schema, at),
    )
    return DataFrame(kept, spark)


def sharded(rows: DataFrame, operator: Operator, *beside: DataFrame) -> DataFrame:
    """The streaming plan of an operator that the kernel runs in shards. Rows that are `beside` the others have the same
    columns."""
    spark = rows.sparkSession
    build = _BUILD.get()
    shards = spark.conf.get("spark.sql.shuffle.partitions")
    late = _late_rows(spark, operator.name, operator.means(rows.schema) | {"shards": shards})
    frame = _kernel(spark).spark.OperatorPlan.rows(
        _frames(spark, (rows, *beside)),
        json.dumps(operator.told(view=build is not None and build.view)),
        build.known_as if build else "unnamed",
        is_live(),
        _is_identified(),
        *_delay(spark, rows.schema, operator.time),
        late,
    )
    return DataFrame(frame, spark)


def _typed(rows: DataFrame, names: Sequence[str]) -> list[str]:
    return [f"{name} {rows.schema[name].dataType.simpleString()}" for name in names]


def _delay(spark: SparkSession, schema: StructType, time: str | None) -> tuple[Any, int]:
    """How long the clock of the rows stays behind their `time`, and after how many milliseconds who is quiet is not
    waited for: as it is marked on that column, or else on the one that is the event time."""
    marks = [schema[time].metadata, *(field.metadata for field in schema.fields)] if time else []
    found = next((mark for mark in marks if "headrace.delay_ms" in mark), {})
    delay = _kernel(spark).time.Delay(
        float(found.get("headrace.share", 0)),
        int(found.get("headrace.least_ms", 0)),
        int(found.get("headrace.delay_ms", 0)),
    )
    return delay, int(found.get("headrace.idle_ms", 0))


def sign_lost(rows: DataFrame) -> bool:
    """Whether the rows are those of a table without their `change`, left out by somebody who has not looked at it."""
    return bool(_kernel(rows.sparkSession).spark.Sign.isLost(rows._jdf))


def moving(rows: DataFrame) -> str | None:
    """What is computed of the rows of a table and may be something else when a row goes than when it came, as SQL."""
    return _kernel(rows.sparkSession).spark.Sign.moving(rows._jdf)


def check_streaming(rows: DataFrame) -> None:
    """Refuse, with Spark's error, what Spark takes in no streaming plan."""
    _kernel(rows.sparkSession).spark.PartitionShuffle.check(rows._jdf)


@contextmanager
def joining(rows: DataFrame) -> Iterator[None]:
    """Inside, Spark lets a query of these rows start live though there are operators before a union (the kernel's
    `SHUFFLE` can read them). Everything else that Spark asks of a plan is asked here."""
    spark = rows.sparkSession
    check_streaming(rows)
    before = spark.conf.get(_CHECKS) or "true"
    spark.conf.set(_CHECKS, "false")
    try:
        yield
    finally:
        spark.conf.set(_CHECKS, before)


def unique(rows: DataFrame, key: Sequence[str]) -> bool:
    """Whether the key tells the rows of an operator's result apart, and all changes of a row come from one task."""
    spark = rows.sparkSession
    return bool(_kernel(spark).spark.Uniqueness.holds(rows._jdf, _strings(spark, key)))


def gauges(spark: SparkSession, run: str = "") -> list[Gauge]:
    """What the kernel has counted on all executors, a fraction of a second ago; with a `run`, for its queries."""
    found: list[Gauge] = []
    hot: dict[tuple[str, str, int], HotKey] = {}
    for line in _kernel(spark).meters.Meter.snapshot().split("\n"):
        known_as, of, partition, *values = line.split("\t") if line else ("", "", "")
        query, _, owner = known_as.partition(_OF_RUN)
        if run and owner != run:
            continue
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


def forget(spark: SparkSession, query: str, run: str = "") -> None:
    """Let go of a query's gauges, clocks and state in memory, when it has ended."""
    _kernel(spark).meters.Meter.forget(named(query, run))
    _kernel(spark).state.ShardStore.forget(named(query, run))
    _kernel(spark).spark.Watermark.forget(named(query, run))


def has_begun(query: StreamingQuery) -> bool:
    """Whether tasks of a started query have been on their way: Spark has planned a batch, and takes the plan."""
    return bool(SparkContext.getOrCreate().statusTracker().getJobIdsForGroup(str(query.runId)))


def record_at_hand(query: StreamingQuery) -> str | None:
    """Where the row came from at which a query failed, as `topic[partition]@offset`; None where nobody knows."""
    java: Any = query._jsq
    jvm: Any = SparkContext._jvm
    failure = java.exception()
    return jvm.headrace.kernel.run.Origin.of(failure.get()) if failure.isDefined() else None


def turn(spark: SparkSession, query: str, operator: str, *, run: str = "") -> int:
    """Mark the rows that are sent to an operator from now on; the number that they have."""
    return _kernel(spark).meters.Marker.turn(named(query, run), operator)


def is_alive(spark: SparkSession) -> bool:
    """Whether Spark's process runs."""
    if has_ended():
        return False
    try:
        return _process() is not None or bool(_jvm(spark).java.lang.System.nanoTime())
    except UNANSWERED:
        return False


def has_ended() -> bool:
    """Whether it is known that Spark's process has ended, or was never started."""
    process = _process()
    return SparkContext._gateway is None or (process is not None and process.poll() is not None)


def _process() -> Any:
    """Spark's process, if it was started from here."""
    gateway: Any = SparkContext._gateway
    return gateway.proc if gateway is not None else None


def ended() -> str:
    """How Spark's process has ended, as text."""
    process = _process()
    return "it does not answer" if process is None else f"process {process.pid} ended with {process.poll()}"


def end_with_this_process(spark: SparkSession) -> None:
    """From now on Spark's process ends when this one does, however it does."""
    _kernel(spark).run.Parent.watch(os.getpid())


def hold(spark: SparkSession, lock: str) -> bool:
    """Let Spark's process hold the lock on a file; whether it does. It has it until `release`, or its own end."""
    return bool(_kernel(spark).sinks.WriterLock.hold(lock))


def release(spark: SparkSession, lock: str) -> None:
    """Let it go; a process that has ended has."""
    try:
        _kernel(spark).sinks.WriterLock.release(lock)
    except UNANSWERED:
        if is_alive(spark):
            raise


def abandon(spark: SparkSession) -> None:
    """Kill Spark's process if it still runs, and forget it, so that the next session starts another one."""
    context: Any = spark.sparkContext
    if (process := _process()) is not None:
        process.kill()
        process.wait()
    if context._accumulatorServer is not None:
        context._accumulatorServer.shutdown()
    context._jsc = context._accumulatorServer = None
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def close(spark: SparkSession, run: str) -> None:
    """Close what a run has kept open in this process between its batches; when its queries have stopped."""
    _kernel(spark).sinks.Transaction.close(run)


class Simulation:
    """A query that runs without a stream, on records that are handed to it (the kernel's Simulation). `topics` are
    those that it reads, each with its partitions."""

    def __init__(self, records: DataFrame, *, live: bool, topics: Mapping[str, int]) -> None:
        spark = records.sparkSession
        partitions = _numbers(spark, list(topics.values()))
        kernel = _kernel(spark).simulation
        self._java = kernel.Simulation(records._jdf, live, _strings(spark, list(topics)), partitions)

    def push(self, records: bytes) -> None:
        """Hand records to it."""
        self._java.push(bytearray(records))

    def batch(self) -> bool:
        """Exact: run a batch of what was pushed; whether the watermark has moved."""
        return bool(self._java.batch())

    def again(self) -> None:
        """Exact: run the last batch once more, on the state of before."""
        self._java.again()

    def begin(self) -> None:
        """Live: begin a batch."""
        self._java.begin()

    def end(self) -> bool:
        """Live: end it; whether the watermark has moved."""
        return bool(self._java.end())

    def written(self) -> bytes:
        """The records that were written since the last call."""
        return bytes(self._java.written())


# A user's query, for the compiler


def placeholder(spark: SparkSession, name: str, columns: StructType, *, streaming: bool) -> DataFrame:
    """A DataFrame without rows that stands for another one in a user's query. One that is `streaming` cannot be counted
    or collected, and cannot be in a subquery."""
    java: Any = spark._jsparkSession
    kind = _jvm(spark).org.apache.spark.sql.types.DataType.fromJson(columns.json())
    return DataFrame(_kernel(spark).compiler.Placeholder.of(java, name, kind, streaming), spark)


def query(spark: SparkSession, text: str, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows that a SQL text asks for, over inputs by name."""
    java: Any = spark._jsparkSession
    frames = _frames(spark, list(inputs.values()))
    return DataFrame(
        _kernel(spark).compiler.Placeholder.query(java, text, _strings(spark, list(inputs)), frames), spark
    )


def placeholders(rows: DataFrame) -> list[str]:
    """The names of the placeholders that rows are made of."""
    return _kernel(rows.sparkSession).compiler.Placeholder.names(rows._jdf).split()


def resolved(rows: DataFrame, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows with the frames in the place of their placeholders."""
    spark = rows.sparkSession
    names, known = _strings(spark, list(frames)), _frames(spark, list(frames.values()))
    return DataFrame(_kernel(spark).compiler.Placeholder.resolved(rows._jdf, names, known), spark)


def is_plain(rows: DataFrame) -> bool:
    """Whether each row is treated for itself, but for the operators of Headrace."""
    return bool(_kernel(rows.sparkSession).compiler.Placeholder.isPlain(rows._jdf))


class UserPlan:
    """What a query over placeholders is made of, and its expressions over other rows (the kernel's UserPlan)."""

    def __init__(self, rows: DataFrame) -> None:
        self._spark = rows.sparkSession
        self._java = _kernel(self._spark).compiler.UserPlan(rows._jdf)

    def description(self) -> str:
        """The plan as JSON."""
        return self._java.description()

    def select(self, rows: DataFrame, columns: Mapping[str, int], kept: Sequence[str]) -> DataFrame:
        """Expressions of the plan over rows, each under a name, and columns of the rows as they are."""
        spark = self._spark
        names, kept_names = _strings(spark, list(columns)), _strings(spark, kept)
        return DataFrame(
            self._java.select(rows._jdf, names, _numbers(spark, list(columns.values())), kept_names), spark
        )

    def filter(self, rows: DataFrame, condition: int) -> DataFrame:
        """The rows for which an expression of the plan is true."""
        return DataFrame(self._java.filter(rows._jdf, condition), self._spark)

    def several(self, rows: DataFrame, node: int, kept: Sequence[str]) -> DataFrame:
        """The rows of a node that makes several of each one."""
        return DataFrame(self._java.several(rows._jdf, node, _strings(self._spark, kept)), self._spark)


def _frames(spark: SparkSession, frames: Sequence[DataFrame]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(_jvm(spark).org.apache.spark.sql.Dataset, len(frames))
    for i, one in enumerate(frames):
        array[i] = one._jdf
    return array


def _numbers(spark: SparkSession, values: Sequence[int]) -> Any:
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(_jvm(spark).int, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def _late_rows(spark: SparkSession, kind: str, state: Mapping[str, Any]) -> Any:
    build = _BUILD.get()
    if build is None:
        return _kernel(spark).operators.LateRows("unnamed", f"{kind}_{next(_UNNAMED)}", None, None)
    side = _side_output(spark, build.kafka, build)
    return _kernel(spark).operators.LateRows(build.known_as, build.operator(kind, state), build.late_topic, side)


def _known_as(query: str) -> str:
    build = _BUILD.get()
    return named(query, build.run if build else "")


def _side_output(spark: SparkSession, kafka: Mapping[str, str], build: Build | None) -> Any:
    options = _jvm(spark).java.util.HashMap()
    for option, value in kafka.items():
        options.put(option.removeprefix("kafka."), value)
    if build is None or build.sink is None:
        return _kernel(spark).sinks.SideOutput(options, None, None)
    build.sides += 1
    return _kernel(spark).sinks.SideOutput(options, f"{build.sink}.side{build.sides}", build.run)


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
