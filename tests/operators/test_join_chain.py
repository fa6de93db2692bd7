"""`join` behind a join of two streams, whose rows come late by its interval: it is what loops say, in every mode."""

from __future__ import annotations

import inspect
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.operators.event_time import EventTime, delayed, marked, taken
from headrace.testing import Driver, Simulation, oracle

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
START = datetime(2026, 1, 1, tzinfo=UTC)
DELAY_S = 30
COUNT = 150
FIRST_S, SECOND_S = (-60, 20), (-10, 70)
TIMES = ("clicked", "shown", "bought")
LIVE = {"mode": Mode.LIVE, "live_batch": "5 seconds"}
Row = dict[str, Any]


def within(bounds: tuple[int, int]) -> tuple[str, str]:
    return f"{bounds[0]} seconds", f"{bounds[1]} seconds"


def seen(clicks: DataFrame, shows: DataFrame, how: Any = "inner") -> DataFrame:
    return hr.join(clicks, shows, on="ad", within=within(FIRST_S), how=how)


def inner(clicks, shows, buys):
    return hr.join(seen(clicks, shows), buys, on="click", at="clicked", within=within(SECOND_S), lateness="20 seconds")


def by_the_right(clicks, shows, buys):
    """By the other time of the first join, whose rows may be older."""
    return hr.join(seen(clicks, shows), buys, on="click", at="shown", within=within(SECOND_S), lateness="60 seconds")


def turned(clicks, shows, buys):
    """The first join is on the right of the second."""
    options: Any = {"at": (None, "clicked"), "within": ("-70 seconds", "10 seconds"), "lateness": "20 seconds"}
    return hr.join(buys, seen(clicks, shows), on="click", **options)


def left_then_inner(clicks, shows, buys):
    both = seen(clicks, shows, "left")
    return hr.join(both, buys, on="click", at="clicked", within=within(SECOND_S), lateness="20 seconds")


def left_then_full(clicks, shows, buys):
    both = seen(clicks, shows, "left")
    return hr.join(both, buys, on="click", at="clicked", within=within(SECOND_S), lateness="20 seconds", how="full")


def rated(clicks, shows, rates):
    both = seen(clicks, shows, "left")
    return hr.join(both, rates, on="ad", how="left", at="clicked", as_of="clicked", correct=True)


def waited(clicks, shows, owners):
    return hr.join(seen(clicks, shows, "left"), owners, on="ad", how="left", at="clicked", wait="20 minutes")


THREE = (inner, by_the_right, turned, left_then_inner, left_then_full)


def declared(*queries: Callable[..., DataFrame]) -> hr.App:
    app = hr.App("chained")
    options: Any = {"delay": f"{DELAY_S} seconds", "partitions": 2}
    app.stream("clicks", schema="click int, ad string, clicked timestamp", event_time="clicked", **options)
    app.stream("shows", schema="show int, ad string, shown timestamp", event_time="shown", **options)
    app.stream("buys", schema="buy int, click int, bought timestamp", event_time="bought", **options)
    schema = "ad string, number int, valid_from timestamp, valid_to timestamp, rate int"
    app.table("rates", schema=schema, key=["ad", "number"])
    app.table("owners", schema="ad string, owner int", key="ad")
    for query in queries:
        app.stream(query)
    return app


# What is sent


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def events(dice: random.Random) -> list[tuple[str, Row]]:
    """Rows of the three streams, none more out of order than the delay allows; some twice, some without a key."""
    made: list[tuple[str, Row]] = []
    for n in range(COUNT):
        at = second(n * 4 + dice.randrange(-DELAY_S // 2, DELAY_S // 2)) + timedelta(microseconds=dice.randrange(3))
        ad = dice.choice(["a", "b", "c", None])
        name, row = dice.choice(
            [
                ("clicks", {"click": n, "ad": ad, "clicked": at}),
                ("shows", {"show": n, "ad": ad, "shown": at}),
                ("buys", {"buy": n, "click": dice.choice([*range(n - 15, n + 3), None]), "bought": at}),
            ]
        )
        made += [(name, row)] * (2 if dice.random() < 0.05 else 1)
    return made


def closing(seconds: int) -> list[tuple[str, Row]]:
    """What brings the watermark behind all intervals; it meets nobody."""
    at = second(COUNT * 4 + seconds)
    return [
        ("clicks", {"click": -1, "ad": "end", "clicked": at}),
        ("shows", {"show": -1, "ad": "END", "shown": at}),
        ("buys", {"buy": -1, "click": -2, "bought": at}),
    ]


def changes(dice: random.Random) -> list[tuple[str, Row]]:
    """Versions of the rates one after the other, and owners of some ads."""
    made: list[tuple[str, Row]] = []
    for ad in "ab":
        start = dice.randrange(100)
        for number in range(4):
            end = start + dice.randrange(50, 200)
            times = {"valid_from": second(start), "valid_to": second(end)}
            made.append(("rates", {"ad": ad, "number": number, "rate": dice.randrange(100), **times}))
            start = end + dice.choice([0, 7])
        made.append(("owners", {"ad": ad, "owner": dice.randrange(100)}))
    return made


def of(name: str, rows: Sequence[tuple[str, Row]]) -> list[Row]:
    return [row for stream, row in rows if stream == name]


def given(rows: Sequence[tuple[str, Row]]) -> dict[str, list[Any]]:
    return {name: of(name, rows) for name in ("clicks", "shows", "buys", "rates", "owners")}


# What loops say


def near(
    left: Sequence[Row], right: Sequence[Row], key: str, at: tuple[str, str], bounds: tuple[int, int], how: str
) -> list[Row]:
    """The join of two lists; rows without a time are in none."""
    left, right = ([row for row in rows if row.get(time)] for rows, time in zip((left, right), at, strict=True))
    lower, upper = (timedelta(seconds=bound) for bound in bounds)
    found: list[Row] = []
    met: set[int] = set()
    for one in left:
        for other in right:
            apart = other[at[1]] - one[at[0]]
            if one.get(key) is not None and one[key] == other.get(key) and lower <= apart <= upper:
                found.append(one | other)
                met |= {id(one), id(other)}
    alone = (left if how in ("left", "full") else []), (right if how in ("right", "full") else [])
    return [*found, *(row for rows in alone for row in rows if id(row) not in met)]


def model(rows: Sequence[tuple[str, Row]], query: Callable[..., DataFrame]) -> Counter[str]:
    copies = given([(name, dict(row)) for name, row in rows])
    first = "left" if query in (left_then_inner, left_then_full) else "inner"
    both = near(copies["clicks"], copies["shows"], "ad", ("clicked", "shown"), FIRST_S, first)
    how, at = "full" if query is left_then_full else "inner", "shown" if query is by_the_right else "clicked"
    return bag(near(both, copies["buys"], "click", (at, "bought"), SECOND_S, how))


def bag(rows: Sequence[Row]) -> Counter[str]:
    """Each row with its numbers and how often it is put there; without what closes."""
    found: Counter[str] = Counter()
    for row in rows:
        if -1 not in (row.get("click"), row.get("show"), row.get("buy")):
            bare = {k: v for k, v in row.items() if v is not None and k in ("click", "show", "buy", "rate", "owner")}
            found[json.dumps(bare, sort_keys=True)] += -1 if row.get("change") == "-" else 1
    return Counter({row: times for row, times in found.items() if times})


# They agree


def test_the_batch_twin_is_what_loops_say(spark: SparkSession, seed: int):
    rows = events(random.Random(seed))
    app = declared(*THREE)
    for query in THREE:
        expected = model(rows, query)
        assert expected, "the test is about something"
        assert bag(oracle(app, query.__name__, given(rows), spark)) == expected, f"seed {seed}, {query.__name__}"


def test_exact_with_crashes(spark: SparkSession, driven: Callable[[hr.App], Simulation | Driver], seed: int):
    dice = random.Random(seed)
    queries = (*THREE, rated, waited)
    for _ in range(CASES):
        rows = events(dice)
        for change in changes(dice):
            rows.insert(dice.randrange(len(rows)), change)
        app = declared(*queries)
        with driven(app) as driver:
            third = len(rows) // 3 + 1
            for part in range(3):
                for name, row in rows[part * third : part * third + third]:
                    driver.push(name, [row])
                driver.advance()
                driver.crash(seed=dice.randrange(2**32))
            close(driver)
            for query in queries:
                name = query.__name__
                assert driver.late(name) == [], f"seed {seed}, {name}"
                told = model(rows, query) if query in THREE else bag(oracle(app, name, given(rows), spark))
                assert bag(driver.read(name)) == told, f"seed {seed}, {name}"


@pytest.mark.parametrize("query", [*THREE, rated, waited], ids=lambda query: query.__name__)
def test_live(spark: SparkSession, bootstrap: str, seed: int, query: Callable[..., DataFrame]):
    dice = random.Random(seed)
    rows = events(dice)
    for change in changes(dice):
        rows.insert(dice.randrange(len(rows)), change)
    app, name = declared(query), query.__name__
    expected = bag(oracle(app, name, given(rows), spark))
    with Driver(app, spark=spark, bootstrap=bootstrap, **LIVE) as driver:
        for stream, row in rows:
            if stream in read_by(query):
                driver.push(stream, [row])
        driver.advance()
        close(driver, query)
        until = time.monotonic() + 60  # the second join hears of time at the end of a batch, too
        while (found := bag(driver.read(name))) != expected and time.monotonic() < until:
            time.sleep(0.5)
        assert driver.late(name) == [], f"seed {seed}"
        assert found == expected, f"seed {seed}"
        if query is not rated:
            ids = [dict(record.headers)["headrace.id"] for record in driver.records(name)]
            assert len(set(ids)) == len(ids), "each result has an id of its own"


def read_by(query: Callable[..., DataFrame]) -> set[str]:
    """The others have no topic."""
    return set(inspect.signature(query).parameters)


def close(driver: Simulation | Driver, query: Callable[..., DataFrame] = inner) -> None:
    """Time goes on, twice: what is over is told by the batch after."""
    for seconds in (3000, 3001):
        everywhere(driver, *(one for one in closing(seconds) if one[0] in read_by(query)))


# How late rows of a join are


def everywhere(driver: Simulation | Driver, *rows: tuple[str, Row]) -> None:
    for name, row in rows:
        for partition in range(2):
            driver.push(name, [row], partition=partition)
    driver.advance()


@pytest.mark.parametrize("options", [{}, LIVE], ids=["exact", "live"])
def test_a_pair_is_as_late_as_the_interval_is_long_and_no_later(spark: SparkSession, bootstrap: str, options: Any):
    def hasty(clicks, shows, buys):
        return hr.join(seen(clicks, shows), buys, on="click", at="clicked", within=within(SECOND_S))

    at = second(DELAY_S + 20)
    with Driver(declared(inner, hasty), spark=spark, bootstrap=bootstrap, **options) as driver:
        driver.push("clicks", [{"click": 1, "ad": "a", "clicked": second(0)}])
        driver.push("buys", [{"buy": 3, "click": 1, "bought": second(30)}])
        driver.advance()
        last: list[tuple[str, Row]] = [
            ("clicks", {"click": -1, "ad": "x", "clicked": at}),
            ("shows", {"show": -1, "ad": "x", "shown": at}),
            ("buys", {"buy": -1, "click": -1, "bought": at}),
        ]
        everywhere(driver, *last)  # the watermark is at 20
        everywhere(driver, *last)
        driver.push("shows", [{"show": 2, "ad": "a", "shown": second(20)}])
        driver.advance()
        assert bag(driver.read("inner")) == Counter(['{"buy": 3, "click": 1, "show": 2}'])
        assert driver.late("inner") == []
        if not options:  # live, the second join may hear later of the time
            assert bag(driver.read("hasty")) == Counter()
            assert [(row["click"], row["show"]) for row in driver.late("hasty")] == [(1, 2)]


def joined_again(clicks, shows, buys):
    both = seen(clicks, shows, "left")
    return hr.join(both, buys, on="click", at="clicked", within=("0", "10 minutes"), lateness="20 seconds")


def counted(clicks, shows):
    return hr.window(
        seen(clicks, shows, "left"), hr.tumbling("1 minute"), by="ad", at="clicked", lateness="20 seconds", n=hr.count()
    )


def multiplied(clicks, shows):
    each = seen(clicks, shows, "left").withColumn("copy", F.explode(F.sequence(F.lit(1), F.lit(3))))
    return hr.window(
        each, hr.tumbling("1 minute"), by=["ad", "copy"], at="clicked", lateness="20 seconds", n=hr.count()
    )


@pytest.mark.parametrize("query", [joined_again, counted, multiplied], ids=lambda query: query.__name__)
def test_live_rows_that_come_alone_when_time_leaps_are_not_late(
    spark: SparkSession, bootstrap: str, query: Callable[..., DataFrame]
):
    """One partition of each stream is far ahead, so that rows are there whose time has not come; then the other one
    comes near, and many rows are over at once."""
    with Driver(declared(query), spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("clicks", [{"click": n, "ad": f"a{n}", "clicked": second(n)} for n in range(10)], partition=1)
        driver.push("shows", [{"show": -1, "ad": "z", "shown": second(0)}], partition=1)
        if "buys" in read_by(query):
            bought = [{"buy": n, "click": n, "bought": second(500)} for n in range(10)]
            for partition in range(2):
                driver.push("buys", bought, partition=partition)
        driver.push("clicks", [{"click": -1, "ad": f"b{n}", "clicked": second(500)} for n in range(10)], partition=0)
        driver.push("shows", [{"show": -1, "ad": f"b{n}", "shown": second(500)} for n in range(10)], partition=0)
        driver.advance()
        driver.push("shows", [{"show": -1, "ad": f"c{n}", "shown": second(400 + n)} for n in range(20)], partition=1)
        driver.advance()
        for n in range(20):
            driver.push("clicks", [{"click": -1, "ad": f"d{n}", "clicked": second(400 + n)}], partition=1)
        driver.advance()
        assert driver.late(query.__name__) == []
        if query is joined_again:
            found = bag(driver.read(query.__name__))
            assert found == Counter({f'{{"buy": {n}, "click": {n}}}': 2 for n in range(10)})


@pytest.mark.parametrize("options", [{}, {"wait": "1 minute", "at": "clicked"}], ids=["at_once", "waiting"])
def test_live_a_table_in_between_passes_the_time_on(spark: SparkSession, bootstrap: str, options: Any):
    """One partition of each stream is far ahead; what comes of the other is not late behind the table."""

    def owned(clicks, shows, owners):
        both = hr.join(seen(clicks, shows), owners, on="ad", how="left", **options)
        return hr.window(both, hr.tumbling("1 minute"), by=[], at="clicked", lateness="80 seconds", n=hr.count())

    with Driver(declared(owned), spark=spark, bootstrap=bootstrap, mode=Mode.LIVE) as driver:
        driver.push("owners", [{"ad": f"a{n}", "owner": n} for n in range(10)])
        driver.advance()
        for partition, start in ((0, 500), (1, 0)):
            at = second(start)
            driver.push("clicks", [{"click": n, "ad": f"a{n}", "clicked": at} for n in range(10)], partition=partition)
            driver.push("shows", [{"show": n, "ad": f"a{n}", "shown": at} for n in range(10)], partition=partition)
            driver.advance()
        assert driver.late("owned") == []


def test_the_topic_of_a_join_is_given_an_event_time_by_hand(spark: SparkSession, bootstrap: str, seed: int):
    """Two functions read it, so it is a topic; nothing in that says how far its time is."""

    def written(second: Callable[..., DataFrame]) -> hr.App:
        app = declared()

        @app.stream
        def pairs(clicks, shows):
            return seen(clicks, shows)

        @app.stream
        def counted(pairs):
            return pairs.select("click")

        app.stream(second)
        return app

    def refused(pairs, buys):
        return hr.join(pairs, buys, on="click", at="clicked", within=within(SECOND_S), lateness="20 seconds")

    def joined(pairs, buys):
        pairs = hr.event_time(pairs, "clicked", delay="10 minutes")
        return hr.join(pairs, buys, on="click", within=within(SECOND_S))

    with (
        Driver(written(refused), spark=spark, bootstrap=bootstrap) as driver,
        pytest.raises(DeclarationError, match="no watermark follows these rows"),
    ):
        driver.advance()
    rows = events(random.Random(seed))
    with Driver(written(joined), spark=spark, bootstrap=bootstrap) as driver:
        for half in (rows[: COUNT // 2], rows[COUNT // 2 :]):
            for name, row in half:
                driver.push(name, [row])
            driver.advance()
        assert bag(driver.read("joined")) == model(rows, inner), f"seed {seed}"
        assert driver.late("joined") == [], f"seed {seed}"


# What is declared


def clicked(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], "click int, ad string, clicked timestamp, price int")


def bought(spark: SparkSession) -> DataFrame:
    return hr.event_time(spark.createDataFrame([], "buy int, click int, bought timestamp"), "bought")


@pytest.mark.parametrize(
    ("at", "code", "what"),
    [
        ("then", "HR-030", "names the column `then`"),
        (("clicked", "then"), "HR-030", "names the column `then`"),
        ("price", "HR-007", "takes `price` as the event time, but it is not a timestamp"),
        (("clicked", "buy"), "HR-007", "takes `buy` as the event time"),
        (("clicked", "bought", "clicked"), "HR-050", "it is neither a column nor a pair of columns"),
        (["clicked"], "HR-050", "it is neither a column nor a pair of columns"),
        (("clicked", 1), "HR-050", "it is neither a column nor a pair of columns"),
        (5, "HR-050", "it is neither a column nor a pair of columns"),
        ((None, "bought"), "HR-031", "needs an event time"),
    ],
)
def test_a_time_that_cannot_be_used(spark: SparkSession, at: Any, code: str, what: str):
    with pytest.raises(DeclarationError, match=what) as refused:
        hr.join(clicked(spark), bought(spark), on="click", at=at, within=("0", "0"))
    assert refused.value.code == code


@pytest.mark.parametrize("at", ["clicked", ("clicked", None), ["clicked", None], ("clicked", "bought")])
def test_a_time_of_one_side_or_of_both(spark: SparkSession, at: Any):
    assert hr.join(clicked(spark), bought(spark), on="click", at=at, within=("0", "0")).count() == 0


def test_the_fix_names_the_side_that_has_no_time(spark: SparkSession):
    unmarked = spark.createDataFrame([], "buy int, click int, bought timestamp")
    for at, fix in (("clicked", 'at=("clicked", "column")'), (("clicked", None), 'at=("clicked", "column")')):
        with pytest.raises(DeclarationError) as refused:
            hr.join(clicked(spark), unmarked, on="click", at=at, within=("0", "0"))
        assert (refused.value.code, fix in refused.value.fix) == ("HR-031", True)


def test_tables_have_no_time(spark: SparkSession):
    table = spark.createDataFrame([], "ad string, owner int, change string")
    other = spark.createDataFrame([], "ad string, clicked timestamp, change string")
    with pytest.raises(DeclarationError, match="`join` of two tables does not take `at`") as refused:
        hr.join(other, table, on="ad", at="clicked")
    assert refused.value.code == "HR-050"
    with pytest.raises(DeclarationError, match="takes `at` of the stream only") as refused:
        hr.join(clicked(spark), table, on="ad", at=("clicked", "owner"))
    assert refused.value.code == "HR-050"
    with pytest.raises(DeclarationError, match="needs an event time"):
        hr.join(clicked(spark), table, on="ad", wait="1 minute")
    assert hr.join(clicked(spark), table, on="ad", wait="1 minute", at="clicked").count() == 0


def test_the_result_has_no_event_time_in_batch_either(spark: SparkSession):
    """So a function that lacks an `at` is refused wherever it is tried."""
    shows = hr.event_time(spark.createDataFrame([], "show int, ad string, shown timestamp"), "shown")
    clicks = hr.event_time(clicked(spark), "clicked", delay="7 seconds")
    both = hr.join(clicks, shows, on="ad", within=("0", "0"))
    assert marked(both.schema) is None
    with pytest.raises(DeclarationError, match="needs an event time"):
        hr.join(both, bought(spark), on="click", within=("0", "0"))
    time = taken(both.schema, "shown")
    assert time is not None
    assert (time.column, time.delay_ms) == ("shown", 7_000), "it waits as long as the slower of the two"


def test_how_long_a_column_waits(spark: SparkSession):
    rows = hr.event_time(clicked(spark).selectExpr("*", "clicked as sent", "clicked as read"), "clicked", delay="3 s")
    rows = delayed(rows, EventTime("sent", 5_000, 1_000))
    waits = {name: time.delay_ms for name in ("clicked", "sent", "read") if (time := taken(rows.schema, name))}
    assert waits == {"clicked": 3_000, "sent": 5_000, "read": 3_000}
    assert taken(clicked(spark).schema, "clicked") is None


def test_a_stream_that_nothing_waits_for_is_refused(spark: SparkSession):
    """Its rows would be late by the watermark of the other."""
    rate = spark.readStream.format("rate").load()
    rows = rate.selectExpr("value as click", "timestamp as clicked")
    buys = hr.event_time(rate.selectExpr("value as click", "timestamp as bought"), "bought")
    with pytest.raises(DeclarationError, match="no watermark follows these rows") as refused:
        hr.join(rows, buys, on="click", at="clicked", within=("0", "0"))
    assert refused.value.code == "HR-031"
    with pytest.raises(DeclarationError, match="no watermark follows these rows"):
        hr.join(rows, buys.selectExpr("click", "'+' as change"), on="click", at="clicked", wait="1 minute")
    hr.join(hr.event_time(rows, "clicked"), buys, on="click", at="clicked", within=("0", "0"))
