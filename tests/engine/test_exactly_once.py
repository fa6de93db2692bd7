"""What exact mode writes stands in the log once, for readers of committed records, whatever happens to the driver."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer as Client
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import headrace as hr
from headrace import names
from headrace.engine import checkpoint
from headrace.engine.mode import Mode
from headrace.engine.reset import Reset
from headrace.errors import RunError
from headrace.log import catalogue
from headrace.log.consumer import read
from headrace.testing import Driver, oracle

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id string, card string, amount double, at timestamp"


def app() -> hr.App:
    declared = hr.App("once")
    declared.stream("payments", schema=SCHEMA, event_time="at", delay="5 seconds", id="id", partitions=3)

    @declared.stream
    def large(payments):
        return payments.where("amount > 20").select("id", "amount")

    @declared.stream
    def unique(payments):
        return hr.dedupe(payments, by="id", within="10 minutes")

    @declared.stream
    def minutes(payments):
        return hr.window(payments, hr.tumbling("1 minute"), by="card", n=hr.count(), spent=hr.sum("amount"))

    @declared.view(key=["card", "window_start"])
    def totals(payments):
        return hr.window(payments, hr.tumbling("1 minute"), by="card", n=hr.count(), emit="early", lateness="1 hour")

    return declared


def payments(dice: random.Random, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"p{n}",
            "card": dice.choice(["a", "b", "c", None]),
            "amount": dice.randrange(50) / 2,
            "at": START + timedelta(seconds=n, milliseconds=dice.randrange(-3000, 1000)),
        }
        for n in range(count)
    ]


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_a_batch_that_is_run_again_is_not_written_again(spark: SparkSession, bootstrap: str, seed: int):
    """`crash` forgets the commit of the last batch, as kill -9 between the sink's commit and Spark's does."""
    dice = random.Random(seed)
    events = payments(dice, 300)
    bad = [b"{", b'{"id": 7}']
    late = {"id": "late", "card": "a", "amount": 1.0, "at": START - timedelta(days=2)}
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        for part in range(3):
            driver.push("payments", [*events[part * 100 : part * 100 + 100], *(bad if part == 1 else [])])
            if part == 2:
                driver.push("payments", [late])
            driver.advance()
            driver.crash(seed=dice.randrange(2**32))
        closing = {"id": "closing", "card": "closing", "amount": 0.0, "at": START + timedelta(hours=1)}
        for partition in range(3):
            driver.push("payments", [closing | {"id": f"closing{partition}"}], partition=partition)
        driver.advance()
        answers = {name: oracle(app(), name, {"payments": events}, spark) for name in ("large", "minutes", "totals")}
        assert bag(driver.read("large")) == bag(answers["large"])
        assert bag(driver.read("minutes")) == bag(answers["minutes"])
        totals = [row for row in driver.view("totals") if row.get("card") != "closing"]
        assert bag(totals) == bag([row for row in answers["totals"] if row.get("card") is not None])
        unique = Counter(row["id"] for row in driver.read("unique") if row.get("card") != "closing")
        assert unique == Counter(event["id"] for event in events)
        # Each query has met every bad record and the late row once.
        letters = list(read(driver.connection, names.dead_topic(driver.graph.node("payments").topic)))
        assert Counter((one.value, one.header(names.HEADER_QUERY)) for one in letters) == Counter(
            (raw, query) for raw in bad for query in ("large", "unique", "minutes", "totals")
        )
        assert [row["id"] for row in driver.late("unique")] == ["late"]
        assert [row["id"] for row in driver.late("minutes")] == ["late"]


def branches() -> hr.App:
    """A topic that reaches one sink in two ways: read by two functions, and taken twice in one."""
    declared = hr.App("branches")
    declared.stream("payments", schema=SCHEMA, event_time="at", delay="5 seconds", id="id", partitions=2)

    @declared.stream
    def small(payments):
        return payments.where("amount < 15").select("id", "amount", "at")

    @declared.stream
    def even(payments):
        return payments.where("amount % 2 = 0").select("id", "amount", "at")

    @declared.stream
    def both(small, even):
        return hr.union(small, even)

    return declared


def taken_twice() -> hr.App:
    declared = hr.App("twice")
    declared.stream("payments", schema=SCHEMA, event_time="at", delay="5 seconds", id="id", partitions=2)

    @declared.stream
    def both(payments):
        return (
            payments.where("amount < 15")
            .select("id", "amount")
            .union(payments.where("amount % 2 = 0").select("id", "amount"))
        )

    return declared


@pytest.mark.parametrize(
    ("declared", "mode"),
    [(branches, Mode.EXACT), (taken_twice, Mode.EXACT), (branches, Mode.LIVE)],
    ids=["two readers", "one reader", "two readers, live"],
)
def test_branches_that_read_one_topic_are_told_apart(
    spark: SparkSession, bootstrap: str, seed: int, declared: Callable[[], hr.App], mode: Mode
):
    dice = random.Random(seed)
    events = payments(dice, 120)
    bad = [b"{", b'{"id": 7}']
    with Driver(declared(), spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        for part in range(3):
            driver.push("payments", [*events[part * 40 : part * 40 + 40], *(bad if part == 1 else [])])
            driver.advance()
            if mode is Mode.EXACT:
                driver.crash(seed=dice.randrange(2**32))
        driver.advance()
        assert bag(driver.read("both")) == bag(oracle(declared(), "both", {"payments": events}, spark))
        letters = list(read(driver.connection, names.dead_topic(driver.graph.node("payments").topic)))
        assert {one.value for one in letters} == set(bad)
        if mode is Mode.LIVE:
            ids = [one.header(names.HEADER_ID) for one in read(driver.connection, driver.graph.node("both").topic)]
            assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_rows_without_a_key_stay_together_and_in_order(spark: SparkSession, bootstrap: str, mode: Mode):
    declared = hr.App("order")
    declared.stream("readings", schema="n bigint, of string, at timestamp", event_time="at", partitions=3)

    @declared.stream(partitions=3)
    def copied(readings):
        return readings.select("n", "of")

    @declared.stream(partitions=3)
    def counted(readings):
        return hr.window(readings, hr.tumbling("1 hour"), by="of", emit="early", n=hr.count())

    with Driver(declared, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        for part in range(3):
            for partition in range(3):
                events = [{"n": 10 * part + i, "of": f"s{partition}", "at": START} for i in range(10)]
                driver.push("readings", events, partition=partition)
            driver.advance()
        copies = driver.records("copied")
        for partition in range(3):
            rows = [json.loads(one.value or b"") for one in copies if one.partition == partition]
            assert rows == [{"n": n, "of": f"s{partition}"} for n in range(30)]
        counts = driver.records("counted")
        for of in ("s0", "s1", "s2"):
            told = [(one.partition, row) for one in counts if (row := json.loads(one.value or b""))["of"] == of]
            assert len({partition for partition, _ in told}) == 1
            now = None
            for _, row in told:
                # Each count is taken back before the next one stands.
                assert (row["change"], row["n"]) == (("-", now) if row["change"] == "-" else ("+", row["n"]))
                assert (now is None) == (row["change"] == "+")
                now = None if row["change"] == "-" else row["n"]
            assert now == 30


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_task_may_take_longer_than_kafka_waits_by_default(spark: SparkSession, bootstrap: str):
    """The dead letter comes first, and its transaction stays open while the rest of the task computes."""
    declared = hr.App("slow")
    declared.stream("readings", schema="n bigint", partitions=1)

    @udf("bigint")
    def slowly(n: int) -> int:
        time.sleep(70)
        return n

    @declared.stream
    def computed(readings):
        return readings.select(slowly("n").alias("n"))

    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("readings", [b"{", {"n": 1}])
        driver.advance()
        assert driver.read("computed") == [{"n": 1}]
        assert len(driver.dead("readings")) == 1
        assert driver.progress()["computed"].error is None


def test_a_fenced_writer_gives_way_and_nothing_is_lost_or_doubled(spark: SparkSession, bootstrap: str, seed: int):
    """Another writer with the query's name ends its transactions; the query begins again where the log is."""
    dice = random.Random(seed)
    events = payments(dice, 300)
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        for part in range(3):
            driver.push("payments", events[part * 100 : part * 100 + 100])
            driver.advance()
            for task in range(3):
                name = f"{names.sink(driver.graph.app, 'large')}.{driver.graph.node('payments').topic}-{task}"
                intruder = Client({"bootstrap.servers": bootstrap, "transactional.id": name})
                intruder.init_transactions(30)
        driver.advance()
        answer = oracle(app(), "large", {"payments": events}, spark)
        assert bag(driver.read("large")) == bag(answer)


def test_a_new_checkpoint_begins_anew_when_repeats_are_accepted(spark: SparkSession, bootstrap: str):
    """What the log remembers of another checkpoint's batches is forgotten by a reset, and by nothing else."""
    events = payments(random.Random(1), 20)
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("payments", events)
        driver.advance()
        once = len(driver.read("large"))
        assert once > 0
        driver.stop()
        reset = Reset(driver.graph, "large", driver.connection, driver._settings)
        with pytest.raises(RunError, match="written once more") as refused:
            reset.run(repeats=False)
        assert refused.value.code == "HR-317"
        driver.advance()
        assert len(driver.read("large")) == once
        driver.stop()
        assert any("once more" in one for one in reset.consequences())
        reset.run(repeats=True)
        driver.advance()
        assert len(driver.read("large")) == 2 * once


def test_a_batch_that_the_log_may_have_forgotten_is_refused(spark: SparkSession, bootstrap: str):
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("payments", payments(random.Random(2), 20))
        driver.advance()
        driver.crash()
        place = checkpoint.local(checkpoint.location(driver._settings, driver.graph.app, "unique"))
        assert place is not None
        last = max((place / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        month_ago = time.time() - 30 * 86_400
        os.utime(last, (month_ago, month_ago))
        with pytest.raises(RunError, match="stopped 30 days ago in the middle of a batch") as refused:
            driver.resume()
        assert refused.value.code == "HR-312"


def test_the_rows_of_a_view_are_put_and_taken_back(spark: SparkSession, bootstrap: str):
    declared = hr.App("board")
    declared.stream("scores", schema="player string, score bigint", partitions=1)

    @declared.view(key="player")
    def best(scores):
        return hr.top(scores, 2, by="score")

    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        for player, score in (("a", 1), ("b", 2), ("c", 3), (None, 9)):
            driver.push("scores", [{"player": player, "score": score}])
            driver.advance()
        assert {row["player"] for row in driver.view("best")} == {"c"}
        assert all("change" not in row for row in driver.read("best"))
        assert any(record.value is None and record.key == b"a" for record in driver.records("best"))
        (refused,) = read(driver.connection, names.late_topic(driver.graph.node("best").topic))
        assert refused.header(names.HEADER_REASON) == "the key column `player` is null"
        known = catalogue.views(driver.connection, driver.graph.app)["best"]
        assert known.key == ("player",)
        assert "change" not in known.schema
        source, view = driver.graph.node("scores").topic, driver.graph.node("best").topic
        assert known.path == (("best", view, (source,)),)


def test_a_live_row_has_an_id_and_is_written_once(spark: SparkSession, bootstrap: str, seed: int):
    """A stop in the middle of a batch reads it again; a row whose id is in the topic is not written again."""
    declared = hr.App("ids")
    declared.stream("payments", schema=SCHEMA, event_time="at", delay="5 seconds", id="id", partitions=2)

    @declared.stream
    def twice(payments):
        return payments.selectExpr("id", "amount", "explode(array(1, 2)) as part")

    @declared.stream
    def unique(payments):
        return hr.dedupe(payments, by="id", within="10 minutes").select("id", "amount")

    @declared.stream
    def recent(payments):
        return hr.sliding(payments, by="card", within="1 minute", emit="arrival", n=hr.count()).select("id", "n")

    events = payments(random.Random(seed), 60)
    with Driver(declared, spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("payments", events[:30])
        driver.advance()
        driver.crash()
        driver.push("payments", events[30:])
        driver.advance()
        for name, per_event in (("twice", 2), ("unique", 1), ("recent", 1)):
            ids = [record.header("headrace.id") or "" for record in driver.records(name)]
            of = "=dedupe-" if name == "unique" else f"{driver.graph.node('payments').topic}["
            assert all(one.startswith(f"{name}:{of}") for one in ids)
            assert len(set(ids)) == len(ids) == per_event * len(events), name


@pytest.mark.parametrize("python", [False, True], ids=["in the JVM", "behind a Python function"])
def test_partitions_that_come_together_without_a_shuffle_are_refused(
    spark: SparkSession, bootstrap: str, *, python: bool
):
    """A Python function has read the rows of both when the first is written."""
    declared = hr.App("together")
    declared.stream("readings", schema="n bigint", partitions=2)

    @declared.stream
    def all_of_them(readings):
        return readings.coalesce(1).select(udf(lambda n: n, "bigint")("n").alias("n") if python else "n")

    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:
        for partition in range(2):
            driver.push("readings", [{"n": 1}], partition=partition)
        with pytest.raises(RunError, match="come together in one task without a shuffle"):
            driver.advance()
