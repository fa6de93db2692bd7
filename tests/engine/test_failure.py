"""A row that stops a query again and again ends the run, and is told with its line and its record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

import headrace as hr
from headrace.engine import failure, progress, query
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import Location, RunError
from headrace.graph.plan import plan
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.settings import Settings

SCHEMA = "id string, card string, at timestamp"
MANY = 30


@F.udf(IntegerType())
def number(card: str) -> int:
    return int(card)  # python


def called(payments: DataFrame) -> DataFrame:
    return payments.withColumn("number", F.col("card").cast("int"))  # called


def sql(payments: DataFrame) -> DataFrame:
    return payments.where("cast(card as int) > 3")  # sql


def behind(payments: DataFrame) -> DataFrame:
    rows = hr.dedupe(payments, by="id", within="1 minute")
    return rows.withColumn("number", F.col("card").cast("int"))  # behind


def python(payments: DataFrame) -> DataFrame:
    return payments.select("id", number("card").alias("number"))


def line_of(name: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, text in enumerate(lines, 1) if text.endswith(f"  # {name}"))


@pytest.mark.parametrize(
    ("function", "mode"),
    [(called, Mode.EXACT), (called, Mode.LIVE), (behind, Mode.LIVE), (sql, Mode.EXACT), (python, Mode.EXACT)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_a_row_that_stops_a_query_again_and_again_ends_the_run(
    function: Callable[[DataFrame], DataFrame],
    mode: Mode,
    spark: SparkSession,
    bootstrap: str,
    tmp_path: Path,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(query, "MOST_FAILURES", 0)
    source, settings, connection = topic("payments"), Settings.load(tmp_path), Connection(bootstrap)
    app = hr.App("poison")
    app.stream("payments", schema=SCHEMA, topic=source, event_time="at", id="id", partitions=2)
    app.stream(topic=topic())(function)
    ensure(connection, [Topic(source, 2)])
    with Producer(connection) as producer:
        for n in range(MANY):
            card = "not a number" if n == MANY // 2 else str(n)
            producer.send(source, {"id": f"p{n}", "card": card, "at": datetime.now(UTC)}, partition=1)
    with (
        pytest.raises(RunError, match=r"CAST_INVALID_INPUT|ValueError|invalid literal") as raised,
        Run.start(app, mode=mode, settings=settings, bootstrap=bootstrap, spark=spark) as run,
    ):
        run.wait(120)
    assert raised.value.code == "HR-310"
    where = raised.value.where
    assert where
    assert (Path(where.file).name, where.line) == ("test_failure.py", line_of(function.__name__))
    told = progress.latest(settings, "poison")[0]
    assert told.state == "failed"
    assert told.place == f"{where.file}:{where.line}"
    assert told.record
    at, _, offset = told.record.partition("@")
    assert at == f"{source}[1]"
    if function is python:
        assert int(offset) >= MANY // 2
        assert f"a row at or shortly before {told.record}" in str(raised.value)
    else:
        assert int(offset) == MANY // 2
        assert f"the row of {told.record}" in str(raised.value)


def test_lines_of_libraries_are_passed_over():
    app = hr.App("poison")
    app.stream("payments", schema=SCHEMA, event_time="at", id="id")
    app.stream(called)
    (planned,) = plan(app.graph())
    here = f'File "{__file__}", line {line_of("python")}, in number'
    theirs = f'File "{F.__file__}", line 10, in inner'
    gone = 'File "/nowhere/app.py", line 3, in gone'
    assert failure.place(f"Traceback\n  {theirs}\n  {here}\n  {theirs}\n  {gone}\n", planned) == Location(
        __file__, line_of("python")
    )
    assert failure.place("java.lang.Error: nothing of it", planned) is None


def test_a_cluster_without_room_is_waited_for():
    app = hr.App("room")
    app.stream("payments", schema=SCHEMA, event_time="at")
    app.stream(called)
    (one,) = plan(app.graph())

    def start() -> NoReturn:
        raise AnalysisException("[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] it needs 4 concurrent task slots, 0 are free")

    running = query.SupervisedQuery(one, start)
    for _ in range(query.MOST_WITHOUT_ROOM):
        running.retry_at = 0.0
        running.supervise()
        assert running.error is None
        assert (running.waiting or "").startswith("the cluster has no room yet: ")
    running.retry_at = 0.0
    running.supervise()
    assert running.error is not None
    assert running.error.code == "HR-310"
