"""One query under supervision: started, watched, started again after a failure that may pass, stopped.

A query that fails is started again from its checkpoint, after a pause that grows. While the log is away it tries for
ever. While the executors of a cluster have no room for its tasks (they are not there yet, or work for others) it tries
for a few minutes. After any other failure it gives up when `MOST_FAILURES` starts in a row have finished no batch: what
stopped it, such as a row that an expression cannot take, would stop it again. Spark says what its real-time mode does
not take when it plans the first batch, so a live query counts as running only after that (`settle`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from headrace.engine import failure, refusal, traces
from headrace.engine.commands import Wanted
from headrace.engine.mode import Mode
from headrace.errors import LogError, RunError
from headrace.graph.plan import Query
from headrace.kernel import bridge

MOST_FAILURES = 3
MOST_WITHOUT_ROOM = 12  # about five minutes
LONGEST_PAUSE_S = 30.0
SETTLED_S = 10.0
PLANNED_S = 60.0
HOPELESS = ("HR-308", "HR-309", "HR-314", "HR-315", "HR-345")
LOG_AWAY = ("HR-201", "HR-206", "HR-220")
LONGEST_TRACE = 6_000
LARGEST_RECORD = 16 * 1024 * 1024

_LOG_AWAY = re.compile(
    r"org\.apache\.kafka\.(common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable|CoordinatorNotAvailable|"
    r"NotLeaderOrFollower|LeaderNotAvailable|RetriableCommitFailed)|common\.Kafka|clients\.consumer\.\w*Timeout)\w*Exception"
)
_NO_SLOTS = re.compile(r"CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT")
_NOT_LIVE = re.compile(r"STREAMING_REAL_TIME_MODE\.(\w+)")
_DATA_LOSS = re.compile(r"KAFKA_DATA_LOSS|failOnDataLoss|Some data may have been lost")
_AHEAD = re.compile(r"the log is ahead of the checkpoint: (.+)")  # as the kernel's Transaction says it
_ELSEWHERE = re.compile(r"another checkpoint has written here: (.+)")
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(?P<said>\w.*)$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by: |\s*)((?:[\w$]+\.)+[\w$]*(?:Exception|Error|Refused)[\w$]*: .+)$", re.MULTILINE)


@dataclass
class SupervisedQuery:
    """`start` makes a Spark query and starts it; after a failure it is called again once `ready` says so. `damaged`
    gets the text of a failure, and gives an error when a damaged file of the checkpoint has caused it."""

    query: Query
    start: Callable[[], StreamingQuery]
    ready: Callable[[], bool] = lambda: True
    damaged: Callable[[str], RunError | None] = lambda _: None
    spark: StreamingQuery | None = None
    failures: int = 0
    without_room: int = 0
    retry_at: float = 0.0
    error: RunError | None = None
    last_failure: RunError | None = None
    waiting: str | None = None
    place: str | None = None
    record: str | None = None
    trace: str | None = None
    began: float = 0.0
    reached: int = -1
    held: bool = False

    def begin(self) -> None:
        """Start it. A plan that Spark refuses is raised at once: only the user can change it."""
        self.began = time.monotonic()
        try:
            with refusal.quiet():
                self.spark = self.start()
        except PySparkException as error:
            raise _refused(self.query, str(error)) from error

    def settle(self) -> None:
        """Live mode, after `begin`: wait until the first batch is planned and its tasks are started. What cannot run
        live is raised; any other failure is left to `supervise`."""
        until = time.monotonic() + PLANNED_S
        while self.spark is not None and not bridge.has_begun(self.spark) and time.monotonic() < until:
            self.supervise()
            if self.error is not None:
                raise self.error
            time.sleep(0.02)

    def verdict(self) -> RunError | None:
        """The error to report when the run ends now: the final failure, or the last one when the query is down or has
        finished no batch since. That the log is away, or a cluster is full, is not a failure of the query."""
        if self.error is not None:
            return self.error
        spark = self.spark
        if spark is not None and not spark.isActive and (error := _raised(spark)):
            return None if _LOG_AWAY.search(error) or _NO_SLOTS.search(error) else self._judged(error)
        return self.last_failure if self.waiting and self.failures else None

    def follow_command(self, wanted: Wanted) -> None:
        """Stop it, or let it run again."""
        if wanted == "stopped" and not self.held and self.error is None:
            self.held = True
            self.stop()
            self.spark = None
        elif wanted == "running" and self.held:
            self.held, self.failures, self.retry_at, self.waiting = False, 0, 0.0, None

    def supervise(self) -> None:
        """Start it again after a failure, if that may help; called often."""
        if self.held:
            return
        if self.spark is None:
            if self.error is None and time.monotonic() >= self.retry_at and self.ready():
                self._again()
            return
        last = self.spark.lastProgress
        if last is not None and last.batchId > self.reached:
            self.reached, self.failures = last.batchId, 0
        if time.monotonic() - self.began > SETTLED_S:
            self.waiting = self.place = self.record = self.trace = None
        error = None if self.spark.isActive else _raised(self.spark)
        if error is not None:
            record = bridge.record_at_hand(self.spark)
            self.spark = None
            self._failed(error, record)

    def _again(self) -> None:
        try:
            self.begin()
        except RunError as error:
            self._failed(str(error.found))
        except LogError as error:
            self._failed(error.what, away=error.code in LOG_AWAY)

    def _failed(self, text: str, record: str | None = None, *, away: bool = False) -> None:
        full = _NO_SLOTS.search(text) is not None
        self.failures += not full
        self.without_room = self.without_room + 1 if full else 0
        self.trace = text[:LONGEST_TRACE]
        at = failure.place(text, self.query)
        self.place, self.record = f"{at.file}:{at.line}" if at else None, record
        self.retry_at = time.monotonic() + min(LONGEST_PAUSE_S, 2.0 ** ((self.without_room or self.failures) - 1))
        away = away or _LOG_AWAY.search(text) is not None
        why = "the log is unreachable" if away else "the cluster has no room yet" if full else "started again after"
        self.waiting = f"{why}: {cause(text)}"
        refused = self._judged(text, record)
        self.last_failure = None if away or full else refused
        hopeless = refused.code in HOPELESS
        given_up = self.without_room > MOST_WITHOUT_ROOM if full else self.failures > MOST_FAILURES and not away
        if hopeless or given_up:
            self.error = refused

    def _judged(self, text: str, record: str | None = None) -> RunError:
        """The error for what Spark has said of a failure."""
        return self.damaged(text) or _refused(self.query, text, record)

    def stop(self) -> None:
        if self.spark is not None and self.spark.isActive:
            self.spark.stop()


def write(
    records: DataFrame,
    query: Query,
    build: bridge.Build,
    *,
    mode: Mode,
    checkpoint: str,
    kafka: Mapping[str, str],
    batch: str = "",
    to_the_end: bool = False,
) -> StreamingQuery:
    """Start writing encoded records to the query's topic; `batch` is how long a batch of the live mode lasts. In exact
    mode a query that goes only `to_the_end` of what is there ends then, at the end of a batch.

    In exact mode every task of a batch writes in a transaction that also records the batch (the kernel's
    TransactionalSink); in live mode records are written as they come.
    """
    writer = records.writeStream.queryName(build.known_as).outputMode("update").option("checkpointLocation", checkpoint)
    writer = writer.options(**kafka).option("topic", query.node.topic).option("kafka.max.request.size", LARGEST_RECORD)
    if mode is Mode.LIVE:
        listeners = ",".join(filter(None, (kafka.get("kafka.interceptor.classes"), bridge.IN_FLIGHT)))
        writer = writer.options(**{"kafka.interceptor.classes": listeners, "kafka.headrace.query": build.known_as})
        with bridge.joining(records):
            return writer.format("kafka").trigger(realTime=batch).start()  # pyright: ignore[reportCallIssue]
    writer = writer.format(bridge.TRANSACTIONAL_SINK).options(query=build.known_as, name=build.sink, run=build.run)
    writer = writer.trigger(availableNow=True) if to_the_end else writer.trigger(processingTime="0 seconds")
    return writer.start()


def _raised(spark: StreamingQuery) -> str | None:
    """What a query has ended with."""
    with refusal.quiet():
        error = spark.exception()
        return None if error is None else str(error)


def cause(text: str) -> str:
    """What a Python function raised, or the last named exception of a Spark error text; else the first line of it."""
    if raised := _RAISED.search(text):
        return raised["said"].strip()[:500]
    named = _CAUSE.findall(text)
    line = named[-1] if named else next((line for line in text.splitlines() if line.strip()), "unknown")
    return line.strip()[:500]


def _refused(query: Query, text: str, record: str | None = None) -> RunError:
    if newer := _AHEAD.search(text):
        return traces.ahead(query, newer[1])
    if other := _ELSEWHERE.search(text):
        return traces.elsewhere(query, other[1])
    if _NOT_LIVE.search(text):
        code, what = "HR-308", f"`{query.name}` cannot run live: Spark's real-time mode does not take this plan."
        fix = (
            "run it with --mode exact, or replace what real-time mode does not take (Python UDFs, Spark's own joins of"
            " streams) by Headrace's operators"
        )
    elif _DATA_LOSS.search(text):
        code, what = "HR-309", f"`{query.name}` has stopped: records that it has not read yet are gone from the log."
        fix = (
            "restore the topic, or begin again with what the log still has:"
            f" `headrace reset app.py {query.node.name}`, which says what will happen"
        )
    else:
        code, what = "HR-310", f"The query `{query.name}` failed: {cause(text)}"
        fix = "correct what the cause names; nothing that was read is lost, the next run goes on from the checkpoint"
    first = next((line.strip() for line in text.splitlines() if line.strip()), "unknown")
    found = first[:500]
    if code == "HR-310" and record:
        found = f"{'a row at or shortly before' if failure.is_in_python(text) else 'the row of'} {record}"
    return RunError(code, what, where=failure.place(text, query) or query.node.where, found=found, fix=fix)
