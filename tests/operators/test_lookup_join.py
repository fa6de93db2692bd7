"""`join` of a stream with a table: what that holds when a row comes, what it held at the row's time, and waiting."""

from __future__ import annotations

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

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.testing import Delete, Driver, Put, oracle

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
START = datetime(2026, 1, 1, tzinfo=UTC)
LIVE = {"mode": Mode.LIVE, "live_batch": "30 seconds"}


def taxed(sales, taxes):
    return hr.join(sales, taxes, on="country", how="left")


def waited(sales, taxes):
    return hr.join(sales, taxes, on="country", how="left", wait="1 minute")


def rated(sales, rates):
    return hr.join(sales, rates, on="country", how="left", as_of="at", retention="30 days", correct=True)


def declared(query: Callable[..., DataFrame]) -> hr.App:
    app = hr.App("lookups")
    sales = "id int, country string, at timestamp"
    app.stream("sales", schema=sales, event_time="at", delay="30 seconds", partitions=2)
    app.table("taxes", schema="country string, tax int", key="country")
    schema = "country string, number int, valid_from timestamp, valid_to timestamp, rate int"
    app.table("rates", schema=schema, key=["country", "number"])
    app.stream(query)
    return app


def sale(number: int, country: str | None, second: int) -> dict[str, Any]:
    return {"id": number, "country": country, "at": START + timedelta(seconds=second)}


def found(rows: Sequence[dict[str, Any]], column: str) -> dict[int, int | None]:
    assert len({row["id"] for row in rows}) == len(rows), "each row of the stream comes out once"
    return {row["id"]: row.get(column) for row in rows}


@pytest.mark.parametrize("options", [{}, LIVE], ids=["exact", "live"])
def test_a_row_meets_what_the_table_holds_when_it_comes(spark: SparkSession, bootstrap: str, options: Any):
    with Driver(declared(taxed), spark=spark, bootstrap=bootstrap, **options) as driver:
        driver.push("taxes", [{"country": "de", "tax": 19}, {"country": "fr", "tax": 20}])
        driver.advance()
        driver.push("sales", [sale(1, "de", 0), sale(2, "xx", 0), sale(3, None, 0)])
        driver.advance()
        driver.push("taxes", [{"country": "de", "tax": 16}, Delete({"country": "fr"}), {"country": "xx", "tax": 1}])
        driver.advance()
        driver.push("sales", [sale(4, "de", 1), sale(5, "fr", 1), sale(6, "xx", 1)])
        driver.advance()
        assert found(driver.read("taxed"), "tax") == {1: 19, 2: None, 3: None, 4: 16, 5: None, 6: 1}


def test_a_row_waits_for_its_partner(spark: SparkSession, bootstrap: str):
    with Driver(declared(waited), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("sales", [sale(1, "de", 0), sale(2, "xx", 1), sale(3, None, 2), sale(4, "de", 3)])
        driver.advance()
        assert found(driver.read("waited"), "tax") == {3: None}, "a null has no partner to wait for"
        driver.crash()
        driver.push("taxes", [{"country": "de", "tax": 19}])
        driver.advance()
        assert found(driver.read("waited"), "tax") == {1: 19, 3: None, 4: 19}
        for partition in range(2):
            driver.push("sales", [sale(10 + partition, "de", 200)], partition=partition)
        driver.advance()
        driver.push("taxes", [{"country": "xx", "tax": 1}])
        driver.advance()
        expected = {1: 19, 2: None, 3: None, 4: 19, 10: 19, 11: 19}
        assert found(driver.read("waited"), "tax") == expected, "the second row has waited long enough"


def versions(dice: random.Random, countries: str) -> list[dict[str, Any]]:
    """For each country versions one after the other, with gaps between some; the last one is open."""
    made: list[dict[str, Any]] = []
    for country in countries:
        start = dice.randrange(100)
        for number in range(dice.randrange(1, 5)):
            end = start + dice.randrange(1, 100)
            made.append(
                {
                    "country": country,
                    "number": number,
                    "valid_from": START + timedelta(seconds=start),
                    "valid_to": START + timedelta(seconds=end),
                    "rate": dice.randrange(100),
                }
            )
            start = end + dice.choice([0, 0, 7])
        made[-1]["valid_to"] = None
    return made


def folded(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for row in rows:
        bare = {name: row.get(name) for name in ("id", "country", "number", "rate")}
        counted[json.dumps(bare)] += {"+": 1, "-": -1}[row["change"]]
    return Counter({row: times for row, times in counted.items() if times})


def model(sales: Sequence[dict[str, Any]], rates: Sequence[dict[str, Any]]) -> Counter[str]:
    told: Counter[str] = Counter()
    for one in sales:
        met = [
            rate for rate in rates
            if rate["country"] == one["country"] and rate["valid_from"] <= one["at"]
            and (rate["valid_to"] is None or one["at"] < rate["valid_to"])
        ]  # fmt: skip
        for rate in met or [{}]:
            row = {"id": one["id"], "country": one["country"], "number": rate.get("number"), "rate": rate.get("rate")}
            told[json.dumps(row)] += 1
    return told


def test_the_version_of_the_time_whatever_the_order(spark: SparkSession, bootstrap: str, seed: int):
    """Versions and sales come in any order, versions are changed and deleted later, and the driver crashes."""
    dice = random.Random(seed)
    for _ in range(CASES):
        rates = versions(dice, "abc")
        sales = [sale(n, dice.choice(["a", "b", "c", "d", None]), dice.randrange(400)) for n in range(40)]
        events: list[tuple[str, Any]] = [*(("rates", rate) for rate in rates), *(("sales", one) for one in sales)]
        dice.shuffle(events)
        changed = {(rate["country"], rate["number"]): rate for rate in rates}
        for rate in dice.sample(rates, 2):
            changed[rate["country"], rate["number"]] = rate | {"rate": 1000}
            events.append(("rates", rate | {"rate": 1000}))
        gone = dice.choice(rates)
        del changed[gone["country"], gone["number"]]
        events.append(("rates", Delete({"country": gone["country"], "number": gone["number"]})))
        with Driver(declared(rated), spark=spark, bootstrap=bootstrap) as driver:
            third = len(events) // 3 + 1
            for part in range(3):
                for name, event in events[part * third : part * third + third]:
                    driver.push(name, [event])
                driver.advance()
                driver.crash(seed=dice.randrange(2**32))
            driver.advance()
            expected = model(sales, list(changed.values()))
            assert folded(driver.read("rated")) == expected, f"seed {seed}"
        given = {"sales": sales, "rates": [event for name, event in events if name == "rates"], "taxes": []}
        assert folded(oracle(declared(rated), "rated", given, spark)) == expected, f"seed {seed}: the batch twin"


def version(number: int, start: int, end: int | None, rate: int) -> dict[str, Any]:
    until = None if end is None else START + timedelta(seconds=end)
    return {"country": "de", "number": number, "valid_from": START + timedelta(seconds=start), "valid_to": until,
            "rate": rate}  # fmt: skip


def test_an_answer_stays_when_its_version_is_forgotten(spark: SparkSession, bootstrap: str):
    def short(sales, rates):
        return hr.join(sales, rates, on="country", how="left", as_of="at", retention="8 minutes", correct=True)

    with Driver(declared(short), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("rates", [version(1, 0, 20, 7), version(2, 20, 30, 8)])
        driver.push("sales", [sale(1, "de", 10), sale(2, "de", 25)])
        driver.advance()
        for partition in range(2):
            driver.push("sales", [sale(3 + partition, "xx", 8 * 60 + 55)], partition=partition)
        driver.advance()
        driver.push("rates", [version(3, 30, None, 9)])
        driver.advance()
        expected = {1: 7, 2: 8, 3: None, 4: None}
        assert found(driver.read("short"), "rate") == expected, "nothing is taken back"
        for partition in range(2):
            driver.push("sales", [sale(5 + partition, "yy", 20 * 60)], partition=partition)
        driver.advance()
        driver.push("sales", [sale(7, "de", 20 * 60)])
        driver.advance()
        assert found(driver.read("short"), "rate") == expected | {5: None, 6: None, 7: 9}


def test_versions_are_forgotten_though_nothing_more_is_said_of_their_key(spark: SparkSession, bootstrap: str):
    def short(sales, rates):
        return hr.join(sales, rates, on="country", how="left", as_of="at", retention="8 minutes")

    def joined(driver: Driver) -> int | None:
        return driver.progress()["short"].operators.get("join", {}).get("keys")

    def keys(driver: Driver, wanted: int) -> int | None:
        until = time.monotonic() + 30
        while (held := joined(driver)) != wanted and time.monotonic() < until:
            time.sleep(0.2)
        return held

    with Driver(declared(short), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("rates", [version(n, 0, 20, n) | {"country": f"c{n}"} for n in range(30)])
        driver.advance()
        assert keys(driver, 60) == 60, "each with what reminds of its end"
        for partition in range(2):
            driver.push("sales", [sale(partition, "xx", 20 * 60)], partition=partition)
        driver.advance()
        assert keys(driver, 0) == 0


@pytest.mark.parametrize("options", [{}, LIVE], ids=["exact", "live"])
def test_a_row_may_ask_for_another_time_than_its_own(spark: SparkSession, bootstrap: str, options: Any):
    """It waits by its event time, whatever time it asks for, and does not move the clock of others."""
    app = hr.App("bookings")
    schema = "id int, country string, at timestamp, stay timestamp"
    app.stream("bookings", schema=schema, event_time="at", delay="30 seconds", partitions=1)
    schema = "country string, number int, valid_from timestamp, valid_to timestamp, rate int"
    app.table("rates", schema=schema, key=["country", "number"], partitions=1)

    @app.stream
    def booked(bookings, rates):
        return hr.join(bookings, rates, on="country", how="left", as_of="stay", wait="1 minute")

    def booking(number: int, second: int, stay: datetime | None) -> dict[str, Any]:
        return {"id": number, "country": "de", "at": START + timedelta(seconds=second), "stay": stay}

    with Driver(app, spark=spark, bootstrap=bootstrap, **options) as driver:
        driver.push("bookings", [booking(1, 100, datetime(9999, 1, 1, tzinfo=UTC)), booking(2, 101, START)])
        driver.advance()
        driver.push("bookings", [booking(3, 102, START + timedelta(seconds=50)), booking(4, 103, None)])
        driver.advance()
        driver.push("rates", [version(1, 0, 20, 7), version(2, 20, None, 8)])
        driver.advance()
        assert found(driver.read("booked"), "rate") == {1: 8, 2: 7, 3: 8}
        driver.push("bookings", [booking(5, 400, START)])
        driver.advance()
        driver.push("bookings", [booking(6, 401, START)])
        driver.advance()
        assert found(driver.read("booked"), "rate") == {1: 8, 2: 7, 3: 8, 4: None, 5: 7, 6: 7}


def test_the_history_of_a_table_answers_as_of_a_time(spark: SparkSession, bootstrap: str):
    """The times of the versions are those of the commits in the database; one that is heard of late corrects."""
    app = hr.App("history")
    app.stream(
        "sales", schema="id int, country string, at timestamp", event_time="at", delay="30 seconds", partitions=2
    )
    app.table("taxes", hr.postgres("public.taxes"), schema="country string, tax int", key="country")

    @app.view(key="id")
    def taxed(sales, taxes):
        return hr.join(sales, taxes, on="country", how="left", as_of="at", correct=True)

    def committed(tax: int, second: int) -> Put:
        return Put({"country": "de", "tax": tax}, at=START + timedelta(seconds=second))

    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("sales", [sale(1, "de", 100), sale(2, "de", 200), sale(3, "xx", 100)])
        driver.advance()
        assert found(driver.view("taxed"), "tax") == {1: None, 2: None, 3: None}
        driver.push("taxes", [committed(19, 0), committed(16, 150)])
        driver.advance()
        assert found(driver.view("taxed"), "tax") == {1: 19, 2: 16, 3: None}
        driver.push("taxes", [committed(7, 90), Delete({"country": "de"}, at=START + timedelta(seconds=180))])
        driver.advance()
        assert found(driver.view("taxed"), "tax") == {1: 7, 2: None, 3: None}
        driver.push("sales", [sale(4, "de", 10), sale(5, "de", 160)])
        driver.advance()
        assert found(driver.view("taxed"), "tax") == {1: 7, 2: None, 3: None, 4: 19, 5: 16}


def test_the_batch_twin_of_the_latest(spark: SparkSession):
    given = {"sales": [sale(1, "de", 0), sale(2, "xx", 0)], "taxes": [{"country": "de", "tax": 19}], "rates": []}
    assert found(oracle(declared(taxed), "taxed", given, spark), "tax") == {1: 19, 2: None}


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"how": "full"}, "rows of the table alone never come out"),
        ({"within": ("0", "0")}, "does not take `within`"),
        ({"as_of": "at"}, "needs versions to answer `as_of`"),
        ({"as_of": "then"}, "names the column `then`"),
        ({"correct": True}, "corrects what it said `as_of` a time"),
        ({"wait": "soon"}, "cannot use its `wait`"),
    ],
)
def test_what_cannot_be_looked_up(spark: SparkSession, options: Any, what: str):
    sales = hr.event_time(spark.createDataFrame([], "country string, at timestamp"), "at")
    taxes = spark.createDataFrame([], "country string, tax int, change string")
    with pytest.raises(DeclarationError, match=what):
        hr.join(sales, taxes, on="country", **options)


def test_a_time_is_asked_for_by_rows_that_have_one(spark: SparkSession):
    sales = spark.createDataFrame([], "country string, at timestamp")
    rates = spark.createDataFrame([], "country string, valid_from timestamp, valid_to timestamp, change string")
    with pytest.raises(DeclarationError, match="needs an event time"):
        hr.join(sales, rates, on="country", as_of="at")


def test_the_stream_is_on_the_left(spark: SparkSession):
    sales = spark.createDataFrame([], "country string, at timestamp")
    taxes = spark.createDataFrame([], "country string, tax int, change string")
    with pytest.raises(DeclarationError, match="put the stream on the left"):
        hr.join(taxes, sales, on="country")
