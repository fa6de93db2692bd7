"""Records that a query has not read and that are gone: it halts and names them, and never goes on silently."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.engine import checkpoint
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import RunError
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.settings import Settings


def app(source: str, result: str) -> hr.App:
    declared = hr.App("lost")
    declared.stream("readings", topic=source, schema="n bigint", partitions=1)

    @declared.stream(topic=result)
    def large(readings: DataFrame) -> DataFrame:
        return readings.where("n >= 0")

    return declared


@pytest.fixture
def stopped(
    spark: SparkSession, bootstrap: str, tmp_path: Path, topic: Callable[[str], str]
) -> tuple[hr.App, Settings, Connection, str]:
    """An app that has read ten records and was stopped; five more have come since."""
    source, settings, connection = topic("readings"), Settings.load(tmp_path), Connection(bootstrap)
    declared = app(source, topic("large"))
    topics.ensure(connection, [topics.Topic(source, 1)])
    with Producer(connection) as producer:
        for n in range(10):
            producer.send(source, {"n": n})
    with Run.start(declared, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark) as run:
        run.finish_input()
    with Producer(connection) as producer:
        for n in range(5):
            producer.send(source, {"n": n})
    return declared, settings, connection, source


def refused(stopped: tuple[hr.App, Settings, Connection, str], spark: SparkSession) -> RunError:
    declared, settings, connection, _ = stopped
    with pytest.raises(RunError) as error:
        Run.start(declared, mode=Mode.EXACT, settings=settings, bootstrap=connection.bootstrap, spark=spark)
    assert error.value.code == "HR-309"
    return error.value


def test_what_retention_has_deleted_is_named(stopped: tuple[hr.App, Settings, Connection, str], spark: SparkSession):
    _, settings, connection, source = stopped
    assert checkpoint.reached(checkpoint.location(settings, "lost", "large")) == {(source, 0): 10}
    admin = connection.admin()
    (answer,) = admin.delete_records([TopicPartition(source, 0, 13)]).values()
    answer.result(30)
    assert f"{source}[0] offsets 10 to 12" in str(refused(stopped, spark).found)


def test_a_topic_that_was_made_anew_is_noticed(stopped: tuple[hr.App, Settings, Connection, str], spark: SparkSession):
    """Also when it has grown beyond the place where the query was."""
    _, _, connection, source = stopped
    topics.delete(connection, source)
    topics.ensure(connection, [topics.Topic(source, 1)])
    with Producer(connection) as producer:
        for n in range(30):
            producer.send(source, {"n": n})
    assert f"{source} was deleted and made anew" in refused(stopped, spark).what
