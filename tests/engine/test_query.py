"""A query that is to be started again: while the log is away, and when the run ends before it was."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

import headrace as hr
from headrace.engine.query import MOST_FAILURES, SupervisedQuery
from headrace.errors import LogError
from headrace.graph.plan import Query, plan


@pytest.fixture
def query() -> Query:
    app = hr.App("waiting")
    app.stream("readings", schema="n bigint")

    @app.view(key="n")
    def copied(readings):
        return readings

    (found,) = plan(app.graph())
    return found


@pytest.mark.parametrize(("code", "for_ever"), [("HR-201", True), ("HR-203", False)])
def test_a_log_that_is_away_is_waited_for(query: Query, code: str, for_ever: bool):
    def start() -> StreamingQuery:
        raise LogError(code, "Kafka says no", fix="look at it")

    running = SupervisedQuery(query, start)
    for _ in range(MOST_FAILURES + 2):
        running.retry_at = 0.0
        running.supervise()
    assert (running.error is None) == for_ever
    assert running.waiting is not None
    assert "Kafka says no" in running.waiting


def test_a_run_that_ends_while_a_query_is_down_says_why(query: Query):
    def start() -> StreamingQuery:
        raise PySparkException("the plan is wrong")

    running = SupervisedQuery(query, start)
    assert running.verdict() is None
    running.supervise()
    assert running.error is None
    verdict = running.verdict()
    assert verdict is not None
    assert (verdict.code, verdict.what) == ("HR-310", "The query `copied` failed: the plan is wrong")


def test_a_log_that_is_away_is_no_failure_of_a_query(query: Query):
    def start() -> StreamingQuery:
        raise LogError("HR-201", "Kafka says no", fix="look at it")

    running = SupervisedQuery(query, start)
    running.supervise()
    assert running.waiting is not None
    assert running.verdict() is None


def test_it_is_not_started_before_it_is_ready(query: Query):
    starts: list[bool] = []
    ready = False

    def start() -> StreamingQuery:
        starts.append(ready)
        raise LogError("HR-201", "Kafka says no", fix="look at it")

    running = SupervisedQuery(query, start, ready=lambda: ready)
    running.supervise()
    assert starts == []
    ready = True
    running.supervise()
    assert starts == [True]
