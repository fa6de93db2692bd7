"""A live view after a crash: what an unfinished batch has told is taken back, whatever course the second run takes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace import names
from headrace.engine import checkpoint, commands, rollback, unfinished
from headrace.engine.checkpoint import Finished
from headrace.engine.mode import Mode
from headrace.engine.rollback import Change
from headrace.log import consumer
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ends, ensure
from headrace.testing import Delete, Driver, oracle

MINE = "0b3c2c1e-6b1f-4f57-9c3a-1f6d4b1d2a3e"
OTHER = "11111111-2222-3333-4444-555555555555"
FINISHED = Finished(MINE, 7)
Told = tuple[int, str, str | None, str | None]


def header(batch: int, query: str = MINE) -> str:
    return f"{query}:{batch}"


def log(*told: Told) -> list[Record]:
    """Records of a partition, key, value and header."""
    return [
        Record(
            "view",
            partition,
            offset,
            0,
            key.encode(),
            None if value is None else value.encode(),
            () if batch is None else ((names.HEADER_BATCH, batch.encode()),),
        )
        for offset, (partition, key, value, batch) in enumerate(told)
    ]


def taken_back(records: Sequence[Record], finished: Finished = FINISHED) -> dict[tuple[int, bytes], bytes | None]:
    keys, _ = rollback.unfinished(records, finished)
    before = rollback.settled(records, finished, keys)
    return {key: before.get(key) for key in keys}


# What is taken back


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        pytest.param([(0, "a", "1", header(7))], {}, id="nothing since"),
        pytest.param([(0, "a", "1", header(7)), (0, "a", "2", header(8))], {(0, b"a"): b"1"}, id="a value before"),
        pytest.param([(0, "a", "1", header(8)), (0, "a", "2", header(9))], {(0, b"a"): None}, id="none before"),
        pytest.param(
            [(0, "a", "1", header(6)), (0, "a", None, header(7)), (0, "a", "2", header(8))],
            {(0, b"a"): None},
            id="deleted before",
        ),
        pytest.param([(0, "a", "1", header(7)), (0, "a", None, header(8))], {(0, b"a"): b"1"}, id="deleted since"),
        pytest.param([(0, "a", "1", None), (0, "a", "2", header(8))], {(0, b"a"): b"1"}, id="written by hand before"),
        pytest.param([(0, "a", "1", header(8)), (0, "a", "2", None)], {}, id="written by hand since"),
        pytest.param(
            [(0, "a", "1", header(9, OTHER)), (0, "a", "2", header(8))], {(0, b"a"): b"1"}, id="another checkpoint"
        ),
        pytest.param([(0, "a", "1", header(9, OTHER))], {}, id="only another checkpoint"),
        pytest.param(
            [(0, "a", "1", header(7)), (1, "a", "2", header(8)), (0, "b", "3", header(8)), (1, "b", "4", header(7))],
            {(1, b"a"): None, (0, b"b"): None},
            id="each partition by itself",
        ),
        pytest.param([(0, "a", "1", "x"), (0, "b", "2", f"{MINE}:"), (0, "c", "3", f"{MINE}:-1")], {}, id="no batch"),
    ],
)
def test_what_is_taken_back(told: list[Told], wanted: dict[tuple[int, bytes], bytes | None]):
    assert taken_back(log(*told)) == wanted


def test_before_the_first_batch_everything_is_taken_back():
    told = log((0, "a", "1", header(0)), (0, "b", "1", None))
    assert taken_back(told, Finished(MINE, -1)) == {(0, b"a"): None}


def test_a_record_of_a_finished_batch_says_how_far_to_look():
    told = log((0, "a", "1", header(7)), (0, "a", "2", header(8)), (1, "a", "1", None), (2, "a", "1", header(7, OTHER)))
    assert rollback.unfinished(told, FINISHED)[1] == {0}


# In a topic


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look begins with very few records, so that it has to be taken again and again."""
    monkeypatch.setattr(unfinished, "FIRST_LOOK", 2)


def table(connection: Connection, name: str) -> dict[tuple[int, bytes | None], bytes | None]:
    return {(record.partition, record.key): record.value for record in consumer.read(connection, name)}


def test_a_kill_in_the_middle_is_made_good_by_the_next_start(bootstrap: str, topic: Callable[[str], str], short: None):
    connection, name, dice = Connection(bootstrap), topic("view"), random.Random(7)
    ensure(connection, [Topic(name, 3, compacted=True)])
    wanted: dict[tuple[int, bytes | None], bytes | None] = {}
    with Producer(connection) as producer:

        def tell(key: str, partition: int, value: str | None, batch: str | None) -> None:
            headers = {} if batch is None else {names.HEADER_BATCH: batch}
            producer.send(name, value, key=key, partition=partition, headers=headers)

        for number in range(300):
            key, partition, value = f"k{dice.randrange(90)}", dice.randrange(2), dice.choice([None, str(number)])
            wanted[partition, key.encode()] = value.encode() if value else None
            tell(key, partition, value, header(number // 40))
        for number in range(200):
            tell(f"k{dice.randrange(120)}", dice.randrange(2), dice.choice([None, "ghost"]), header(8 + number // 150))
    changes = rollback.due(connection, name, FINISHED)
    assert len(changes) > 50
    rollback.write(connection, name, changes[:20])
    left = rollback.due(connection, name, FINISHED)
    assert left == changes[20:]
    rollback.write(connection, name, left)
    found = table(connection, name)
    assert found.keys() >= wanted.keys()
    assert {key: value for key, value in found.items() if value} == {
        key: value for key, value in wanted.items() if value
    }
    before = ends(connection, name)
    assert rollback.due(connection, name, FINISHED) == []
    assert ends(connection, name) == before


def test_at_rest_only_the_end_is_read(
    bootstrap: str, topic: Callable[[str], str], short: None, monkeypatch: pytest.MonkeyPatch
):
    connection, name = Connection(bootstrap), topic("view")
    ensure(connection, [Topic(name, 2, compacted=True)])
    with Producer(connection) as producer:
        for number in range(100):
            producer.send(name, b"1", key=str(number), partition=number % 2, headers={names.HEADER_BATCH: header(7)})
    seen: list[Record] = []

    def read(*given: Any, **options: Any) -> list[Record]:
        found = list(consumer.read(*given, **options))
        seen.extend(found)
        return found

    monkeypatch.setattr(unfinished, "read", read)
    assert rollback.due(connection, name, FINISHED) == []
    assert len(seen) == 4
    seen.clear()
    assert rollback.due(connection, name, Finished(MINE, 6)) == [
        Change(number % 2, str(number).encode(), None) for number in sorted(range(100), key=lambda n: (n % 2, str(n)))
    ]


# In a run


def followed() -> hr.App:
    app = hr.App("followed")
    app.table("posts", schema="post string, author string", key="post", partitions=2)
    app.table("follows", schema="id string, follower string, author string", key="id", partitions=2)

    @app.view(key=["follower", "post"])
    def timelines(posts, follows):
        return hr.join(follows, posts, on="author").select("follower", "post", "change")

    @app.view(key="place")
    def longest(posts):
        return hr.top(posts.selectExpr("post", "author", "length(post) as size", "change"), 2, by="size")

    return app


def rows(found: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def progressed(driver: Driver, view: str) -> Finished:
    """How far the query of a view is, once it has finished a batch."""
    until = time.monotonic() + 120
    while True:
        found = checkpoint.finished(checkpoint.location(driver._settings, driver.graph.app, view))
        if found is not None and found.batch >= 0:
            return found
        assert time.monotonic() < until, driver.progress()
        time.sleep(0.2)


def test_a_ghost_of_an_unfinished_batch_is_taken_back(spark: SparkSession, bootstrap: str):
    app = hr.App("ghosts")
    app.table("scores", schema="player string, score int", key="player", partitions=1)

    @app.view(key="player")
    def high(scores):
        return scores.where("score > 5")

    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE, live_batch="5 seconds") as driver:
        driver.push("scores", [{"player": name, "score": 9} for name in "abcd"])
        driver.advance()
        progressed(driver, "high")
        driver.stop()
        view = driver.graph.node("high").topic
        finished = progressed(driver, "high")
        told = {record.header(names.HEADER_BATCH) for record in driver.records("high")}
        assert told <= {header(batch, finished.query) for batch in range(finished.batch + 1)}
        where = {record.key: record.partition for record in driver.records("high")}
        ghost = {names.HEADER_BATCH: header(finished.batch + 1, finished.query)}
        with Producer(driver.connection) as producer:
            producer.send(view, b'{"player":"a","score":99}', key="a", partition=where[b"a"], headers=ghost)
            producer.send(view, None, key="b", partition=where[b"b"], headers=ghost)
            producer.send(view, b'{"player":"nobody","score":77}', key="nobody", partition=1, headers=ghost)
            producer.send(view, b'{"player":"mine","score":8}', key="mine", partition=1)
        driver.push("scores", [{"player": "c", "score": 7}])
        driver.advance(seconds=60)
        assert rows(driver.view("high")) == rows(
            [{"player": name, "score": score} for name, score in (("a", 9), ("b", 9), ("c", 7), ("d", 9), ("mine", 8))]
        )
        again = [record for record in driver.records("high") if record.key in (b"a", b"b", b"nobody")][-3:]
        assert {record.header(names.HEADER_BATCH) for record in again} == {None}


def test_a_query_that_is_started_again_within_its_run_takes_back_too(spark: SparkSession, bootstrap: str):
    app = hr.App("ordered")
    app.table("scores", schema="player string, score int", key="player", partitions=1)

    @app.view(key="player")
    def high(scores):
        return scores.where("score > 5")

    def wait(condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < until, driver.progress()
            time.sleep(0.2)

    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE, live_batch="5 seconds") as driver:
        driver.push("scores", [{"player": "a", "score": 9}])
        driver.advance()
        wait(lambda: "high" in driver.progress())
        of = (driver._settings, driver.graph.app, "high")
        commands.send(*of, "stopped", driver.progress()["high"].started_at)
        wait(lambda: driver.progress()["high"].state == "stopped")
        finished = checkpoint.finished(checkpoint.location(*of))
        assert finished is not None
        ghost = {names.HEADER_BATCH: header(finished.batch + 1, finished.query)}
        with Producer(driver.connection) as producer:
            producer.send(driver.graph.node("high").topic, b'{"player":"b","score":9}', key="b", headers=ghost)
        commands.send(*of, "running", driver.progress()["high"].started_at)
        wait(lambda: driver.view("high") == [{"player": "a", "score": 9}])


def test_exact_mode_takes_back_what_live_mode_left(spark: SparkSession, bootstrap: str):
    app = hr.App("handed")
    app.table("scores", schema="player string, score int", key="player", partitions=1)

    @app.view(key="player")
    def high(scores):
        return scores.where("score > 5")

    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE, live_batch="5 seconds") as driver:
        driver.push("scores", [{"player": "a", "score": 9}])
        driver.advance()
        progressed(driver, "high")
        driver.stop()
        finished = progressed(driver, "high")
        ghost = {names.HEADER_BATCH: header(finished.batch + 1, finished.query)}
        with Producer(driver.connection) as producer:
            producer.send(driver.graph.node("high").topic, b'{"player":"b","score":9}', key="b", headers=ghost)
        driver.mode = Mode.EXACT
        driver.push("scores", [{"player": "c", "score": 7}])
        driver.advance()
        assert rows(driver.view("high")) == rows([{"player": "a", "score": 9}, {"player": "c", "score": 7}])


def test_views_are_right_whatever_happened_while_the_query_was_away(spark: SparkSession, bootstrap: str):
    """The batch that is run again finds rows gone that it had told of, and takes another course."""
    app = followed()
    given: dict[str, list[Any]] = {
        "follows": [{"id": f"f{n}", "follower": f"u{n % 5}", "author": f"a{n}"} for n in range(20)],
        "posts": [{"post": "p" * (n + 1), "author": f"a{n}"} for n in range(20)],
    }
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        for name, events in given.items():
            driver.push(name, events)
        driver.advance()
        assert rows(driver.view("timelines")) == rows(oracle(app, "timelines", given, spark))
        driver.crash()
        gone: dict[str, list[Any]] = {
            "follows": [Delete({"id": f"f{n}"}) for n in range(0, 20, 2)],
            "posts": [Delete({"post": "p" * (n + 1)}) for n in range(5, 20, 3)],
        }
        for name, events in gone.items():
            driver.push(name, events)
            given[name] += events
        driver.advance()
        for view in ("timelines", "longest"):
            assert rows(driver.view(view)) == rows(oracle(app, view, given, spark)), view
