"""A run: plans of several queries, what it tells, and what it refuses before anything starts."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace import names
from headrace.engine import checkpoint, progress
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import DeclarationError, HeadraceError, LogError, RunError
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.dead import dead_letters, pending, replay
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.settings import Settings
from headrace.testing import Driver, oracle

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id string, card string, amount double, at timestamp"


def chain() -> hr.App:
    """`unique` is read twice, so it is a topic of its own."""
    app = hr.App("chain")
    app.stream("payments", schema=SCHEMA, event_time="at", delay="5 seconds", id="id")

    @app.stream
    def unique(payments):
        return hr.dedupe(payments, by="id", within="10 minutes")

    @app.stream(key="card")
    def large(unique):
        return unique.where("amount > 50").select("id", "card", "amount", "at")

    @app.view(key="id")
    def named(unique):
        return unique.select("id", F.concat(F.lit("card "), "card").alias("card"))

    return app


def payments(count: int) -> list[dict[str, Any]]:
    return [
        {"id": f"p{n // 2}", "card": f"c{n // 2 % 3}", "amount": float(n // 2), "at": START + timedelta(seconds=n // 2)}
        for n in range(count)
    ]


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path)


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_a_chain_of_queries_gives_the_batch_answer_and_tells_how_it_is(spark: SparkSession, bootstrap: str, mode: Mode):
    app, events = chain(), payments(200)
    bad = [b"{", b'{"id": 5}', b"\xff", b""]
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        driver.push("payments", [*events[:100], *bad, *events[100:]])
        driver.advance()
        for name in ("unique", "large", "named"):
            assert bag(driver.read(name)) == bag(oracle(app, name, {"payments": events}, spark)), name
        assert {record.key for record in driver.records("large")} == {b"c0", b"c1", b"c2"}
        assert len(driver.dead("payments")) == len(bad)
        assert {letter.raw for letter in driver.dead("payments")} == set(bad)
        told = _told(driver)
        assert told["unique"].rows_in == 204
        assert told["unique"].dead == 4
        assert told["unique"].repeats == 100
        assert sum(told["unique"].lag.values()) == 0
        assert [told[name].rows_out for name in ("unique", "large", "named")] == [100, 49, 100]
        group = names.group(driver.graph.app, "unique")
        until = time.monotonic() + 120
        while _committed(driver.connection, group) < 204:  # in live mode a round after it was read
            assert time.monotonic() < until, "nothing is committed"
            time.sleep(0.1)
        assert _committed(driver.connection, group) == 204


def _told(driver: Driver) -> dict[str, progress.Progress]:
    """Progress once every query has said that it has no lag left."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        told = driver.progress()
        if len(told) == 3 and all(event.lag and not sum(event.lag.values()) for event in told.values()):
            return told
        time.sleep(0.2)
    raise AssertionError(driver.progress())


def _committed(connection: Connection, group: str) -> int:
    from confluent_kafka import ConsumerGroupTopicPartitions

    admin = connection.admin()
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10)
    return sum(place.offset for place in answer.topic_partitions)


def test_a_dead_letter_that_is_put_back_flows(spark: SparkSession, bootstrap: str):
    app = chain()
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        source = driver.graph.node("payments").topic
        with Producer(driver.connection) as producer:
            producer.send(
                source,
                b'{"id":"a","card":"c","amount":"99","at":"2026-01-01T00:00:00Z"}',
                key="k",
                headers=[("trace", "7")],
            )
        driver.advance()
        (letter,) = dead_letters(driver.connection, source)
        assert letter.reason == "field `amount`: expected double, found a string"
        assert ("trace", b"7") in [
            header for record in read(driver.connection, names.dead_topic(source)) for header in record.headers
        ]
        assert driver.read("unique") == []
        report = replay(driver.connection, source, transform=lambda dead: (dead.raw or b"").replace(b'"99"', b"99"))
        driver.advance()
        assert report.replayed == 1
        assert [row["amount"] for row in driver.read("unique")] == [99.0]
        assert pending(driver.connection, source) == 0


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_a_dead_letter_larger_than_the_broker_takes_is_kept_whole(
    spark: SparkSession, bootstrap: str, settings: Settings, topic: Callable[[], str], mode: Mode
):
    source, connection = topic(), Connection(bootstrap)
    # Bytes that do not get smaller by compression: more than Kafka's usual limit, and than the embedded broker's.
    large = [random.Random(size).randbytes(size) for size in (5_000_000, 40_000_000)]
    ensure(connection, [Topic(source, 1, config={"max.message.bytes": "64000000"})])
    app = hr.App("large")
    app.stream("payments", schema=SCHEMA, topic=source, event_time="at", id="id", partitions=1)

    @app.stream(topic=topic())
    def result(payments):
        return payments

    with Producer(connection) as producer:
        for value in large:
            producer.send(source, value)
        producer.send(source, payments(1)[0])
    with Run.start(app, mode=mode, settings=settings, bootstrap=bootstrap, spark=spark) as run:
        until, letters = time.monotonic() + 120, []
        while len(letters) < len(large) or not list(read(connection, app.graph().node("result").topic)):
            assert time.monotonic() < until, run.progress()
            run.wait(0.5)
            letters = list(dead_letters(connection, source))
    assert [letter.source.offset for letter in letters] == [0, 1]
    assert [letter.raw for letter in letters] == large


def test_batch_writes_the_answer_over_history(spark: SparkSession, bootstrap: str, settings: Settings, topic):
    app = hr.App("history")
    source, result = topic(), topic()
    app.stream("payments", schema=SCHEMA, topic=source, event_time="at", id="id")

    @app.stream(topic=result)
    def unique(payments):
        return hr.dedupe(payments, by="id", within="10 minutes")

    connection = Connection(bootstrap)
    ensure(connection, [Topic(source, 2)])
    with Producer(connection) as producer:
        for event in payments(60):
            producer.send(source, event, key=event["id"])
    with Run.start(app, mode=Mode.BATCH, settings=settings, bootstrap=bootstrap, spark=spark) as run:
        run.wait()
    found = [json.loads(record.value or b"") for record in read(connection, result)]
    assert bag(found) == bag(oracle(app, "unique", {"payments": payments(60)}, spark))


def test_a_view_is_a_table_for_who_reads_it_in_batch_too(
    spark: SparkSession, bootstrap: str, settings: Settings, topic: Callable[[], str]
):
    source, registered, joined = topic(), topic(), topic()
    app = hr.App("batch")
    app.stream("payments", schema=SCHEMA, topic=source, event_time="at", id="id")
    app.stream("registrations", schema="card string, owner string", topic=registered)

    @app.view(key="card", topic=topic())
    def owners(registrations):
        return registrations

    @app.stream(topic=joined)
    def named(payments, owners):
        return hr.join(payments.select("id", "card", "at"), owners, on="card", how="left")

    registrations = [{"card": card, "owner": f"owner of {card}"} for card in ("c0", "c1", "c1", None)]
    events = {"registrations": registrations, "payments": payments(60)}
    connection = Connection(bootstrap)
    ensure(connection, [Topic(source, 2), Topic(registered, 2)])
    with Producer(connection) as producer:
        for name, to in (("registrations", registered), ("payments", source)):
            for event in events[name]:
                producer.send(to, event)
    with Run.start(app, mode=Mode.BATCH, settings=settings, bootstrap=bootstrap, spark=spark) as run:
        run.wait()
    found = [json.loads(record.value or b"") for record in read(connection, joined)]
    assert bag(found) == bag(oracle(app, "named", events, spark))
    assert len(found) == 60
    assert {row["card"] for row in found if "owner" in row} == {"c0", "c1"}


def test_what_a_run_has_consumed_is_committed_when_it_stops(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.engine.watch.PROGRESS_S", 3600.0)
    with Driver(chain(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("payments", payments(40))
        driver.advance()
        driver.stop()
        assert _committed(driver.connection, names.group(driver.graph.app, "unique")) == 40


def test_a_query_is_not_started_twice(spark: SparkSession, bootstrap: str, settings: Settings):
    place = checkpoint.location(settings, "chain", "unique")
    with checkpoint.held(place, "chain", "unique"), pytest.raises(RunError) as raised:
        Run.start(chain(), mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark)
    assert raised.value.code == "HR-306"
    with checkpoint.held(place, "chain", "unique"):
        pass


def _broken(body: str) -> hr.App:
    app = hr.App("broken")
    app.stream("payments", schema=SCHEMA, topic="broken_payments", event_time="at", id="id")
    if body == "column":

        @app.stream(topic="broken_result")
        def result(payments):
            return payments.where("no_such_column > 1")

    elif body == "raises":

        @app.stream(topic="broken_result")
        def result(payments):
            return payments / 0

    elif body == "not a frame":

        @app.stream(topic="broken_result")  # pyright: ignore[reportArgumentType]
        def result(payments):
            return 5

    elif body == "key":

        @app.stream(topic="broken_result", key="card")
        def result(payments):
            return payments.select("id")

    elif body == "kind of key":

        @app.view(topic="broken_view", key="amount")
        def result(payments):
            return payments.select("id", "amount")

    elif body == "table":
        app.table("cards", hr.postgres("public.cards"), topic="broken_cards", key="card")

        @app.stream(topic="broken_result")
        def result(cards):  # pyright: ignore[reportRedeclaration]
            return cards

    else:

        @app.stream(topic="broken_result")
        def result(payments):
            return payments.withColumn("twice", F.udf(lambda x: x * 2, "double")("amount"))

    return app


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("column", "HR-302"),
        ("raises", "HR-302"),
        ("not a frame", "HR-303"),
        ("key", "HR-303"),
        ("kind of key", "HR-303"),
        ("table", "HR-304"),
        ("udf", "HR-308"),
    ],
)
def test_what_cannot_run_is_said_with_its_place(
    spark: SparkSession, bootstrap: str, settings: Settings, body: str, code: str
):
    app = _broken(body)
    with (
        pytest.raises(RunError) as raised,
        Run.start(app, mode=Mode.LIVE, settings=settings, bootstrap=bootstrap, spark=spark) as run,
    ):
        run.wait(120)
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
    assert [running.name for running in spark.streams.active if running.isActive] == []


def test_what_cannot_run_live_is_told_before_anything_is_said_to_run(
    spark: SparkSession, bootstrap: str, settings: Settings
):
    app = _broken("udf")
    said: list[str] = []
    with pytest.raises(RunError) as raised:
        Run.start(app, mode=Mode.LIVE, settings=settings, bootstrap=bootstrap, spark=spark, report=said.append)
    assert raised.value.code == "HR-308"
    assert [line for line in said if line.startswith("running")] == []
    assert [running.name for running in spark.streams.active if running.isActive] == []


def test_no_query_begins_when_a_later_one_is_wrong(spark: SparkSession, bootstrap: str, settings: Settings):
    app = hr.App("broken")
    app.stream("payments", schema=SCHEMA, topic="broken_payments", event_time="at", id="id")

    @app.stream(topic="broken_first")
    def first(payments):
        return payments.select("id")

    @app.stream(topic="broken_second")
    def second(payments):
        return hr.top(payments, 0, by="amount")

    said: list[str] = []
    with pytest.raises(DeclarationError, match="HR-042"):
        Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark, report=said.append)
    assert [line for line in said if line.startswith("running")] == []
    assert not (settings.state / "runs" / "broken").exists()


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda cards: cards.select("card"), "HR-059"),
        (lambda cards: cards.withColumn("seen", F.current_timestamp()), "HR-060"),
    ],
    ids=["without its sign", "with the clock"],
)
@pytest.mark.parametrize("mode", [Mode.LIVE, Mode.EXACT, Mode.BATCH])
def test_a_result_that_tells_nobody_what_goes_is_refused(
    spark: SparkSession,
    bootstrap: str,
    settings: Settings,
    function: Callable[[DataFrame], DataFrame],
    code: str,
    mode: Mode,
):
    app = hr.App("broken")
    app.table("cards", schema="card string, owner string", key="card", topic="broken_cards")

    @app.stream(topic="broken_changes")
    def changes(cards):
        return function(cards)

    with pytest.raises(DeclarationError) as raised:
        Run.start(app, mode=mode, settings=settings, bootstrap=bootstrap, spark=spark)
    assert (raised.value.code, raised.value.where) == (code, changes.definition.where)


@pytest.mark.parametrize("kept", ["id, at, amount", "id, amount"])
def test_a_second_event_time_is_refused_where_it_is_given(
    spark: SparkSession, settings: Settings, bootstrap, kept: str
):
    app = hr.App("broken")
    app.stream("payments", schema=SCHEMA, topic="broken_payments", event_time="at", id="id")

    @app.stream(topic="broken_result")
    def result(payments):
        return hr.event_time(payments.select(*kept.split(", "), F.expr("at + interval 1 hour").alias("due")), "due")

    with (
        pytest.raises(DeclarationError) as raised,
        Run.start(app, mode=Mode.LIVE, settings=settings, bootstrap=bootstrap, spark=spark),
    ):
        pass
    error = raised.value
    assert (error.code, error.where.file if error.where else None) == ("HR-046", __file__)
    assert error.found == ("at" if "at" in kept.split(", ") else "the event time of the stream that they are made of")


def test_a_topic_with_fewer_partitions_than_declared_is_refused(
    spark: SparkSession, bootstrap: str, settings: Settings, topic
):
    source = topic()
    ensure(Connection(bootstrap), [Topic(source, 1)])
    app = hr.App("few")
    app.stream("payments", schema=SCHEMA, topic=source, event_time="at", id="id", partitions=4)

    @app.stream
    def few_result(payments):
        return payments

    with pytest.raises(LogError, match="1") as raised:
        Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark)
    assert "4" in str(raised.value)


def test_an_app_without_a_function_and_an_unknown_query_are_refused(
    spark: SparkSession, bootstrap: str, settings: Settings
):
    for app, only in ((hr.App("empty"), ()), (chain(), ("no_such",))):
        with pytest.raises(HeadraceError) as raised:
            Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark, only=only)
        assert raised.value.code == "HR-311"


def test_the_last_query_of_a_chain_starts_alone(
    spark: SparkSession, bootstrap: str, settings: Settings, topic: Callable[[], str]
):
    """The columns that it reads are learned through all the queries before it."""
    app = hr.App("alone")
    app.stream("payments", schema=SCHEMA, topic=topic(), event_time="at", id="id")

    @app.stream(topic=topic())
    def first(payments):
        return payments

    @app.stream(topic=topic())
    def second(first):
        return first

    @app.stream(topic=topic())
    def third(second):
        return second

    given: dict[str, Any] = {"settings": settings, "bootstrap": bootstrap, "spark": spark}
    with Run.start(app, mode=Mode.EXACT, only=["third"], **given) as run:
        assert run.queries == ("third",)


def test_progress_files_stay_bounded_and_survive_a_cut_line(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(progress, "MOST_BYTES", 4000)
    events = list(_events(100))
    for event in events:
        progress.write(settings, event)
    file = progress.directory(settings, "app") / "query.jsonl"
    assert file.stat().st_size <= 4000
    with file.open("a") as out:
        out.write('{"app": "app", "que')
    assert progress.history(settings, "app", "query")[-1] == events[-1]
    assert [event.batch for event in progress.latest(settings, "app")] == [99]
    assert progress.apps(settings) == ["app"]


def _events(count: int) -> Iterator[progress.Progress]:
    for number in range(count):
        yield progress.Progress("app", "query", "live", "running", "2026", "2026", 1, batch=number, lag={"t[0]": 1})


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_the_event_time_may_have_any_name(spark: SparkSession, bootstrap: str, mode: Mode):
    declared = hr.App("dotted")
    declared.stream("clicks", schema="id string, `a.b` timestamp", event_time="a.b", id="id", partitions=1)

    @declared.stream
    def counted(clicks):
        return hr.window(clicks, hr.tumbling("1 minute"), by="id", n=hr.count())

    @declared.stream
    def once(clicks):
        return hr.dedupe(clicks, by="id", within="1 minute")

    with Driver(declared, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        times = (START, START + timedelta(seconds=3), START + timedelta(hours=3))
        driver.push("clicks", [{"id": "a" if at < times[-1] else "b", "a.b": at} for at in times])
        driver.advance()
        assert [(row["id"], row["n"]) for row in driver.read("counted")] == [("a", 2)]
        assert sorted(row["id"] for row in driver.read("once")) == ["a", "b"]
