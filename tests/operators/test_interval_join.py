"""`join` of two streams: whatever the order, the delays, the crashes and the mode, it is what loops say."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError
from headrace.testing import Driver, Simulation, oracle

CASES = int(os.environ.get("HEADRACE_DEEP", "1"))
START = datetime(2026, 1, 1, tzinfo=UTC)
DELAY_S = 30
LOWER_S, UPPER_S = -60, 20
HOW = ("inner", "left", "right", "full")


def declared(*names: str) -> hr.App:
    app = hr.App("intervals")
    time = {"delay": f"{DELAY_S} seconds", "partitions": 2}
    app.stream("clicks", schema="click int, ad string, at timestamp", event_time="at", **time)
    app.stream("shows", schema="show int, ad string, shown timestamp", event_time="shown", **time)

    def joined(how: Any) -> Any:
        def function(clicks, shows):
            return hr.join(clicks, shows, on="ad", within=(f"{LOWER_S} seconds", f"{UPPER_S} seconds"), how=how)

        return function

    for name in names:
        app.stream(_named(joined(name), name))
    return app


def _named(function: Any, name: str) -> Any:
    function.__name__ = name
    return function


def events(dice: random.Random, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Rows of both streams, none more out of order than the delay allows; some without an ad."""
    made: list[tuple[str, dict[str, Any]]] = []
    for n in range(count):
        at = START + timedelta(
            seconds=n * 4 + dice.randrange(-DELAY_S // 2, DELAY_S // 2), microseconds=dice.randrange(3)
        )
        ad = dice.choice(["a", "b", "c", None])
        if dice.random() < 0.5:
            made.append(("clicks", {"click": n, "ad": ad, "at": at}))
        else:
            made.append(("shows", {"show": n, "ad": ad, "shown": at}))
    return made


def closing(count: int) -> list[tuple[str, dict[str, Any]]]:
    """What brings the watermark behind all intervals; it meets nobody, and its own interval stays open."""
    at = START + timedelta(seconds=count * 4 + 1000)
    return [("clicks", {"click": -1, "ad": "end", "at": at}), ("shows", {"show": -1, "ad": "END", "shown": at})]


def model(rows: Sequence[tuple[str, dict[str, Any]]], how: str) -> Counter[str]:
    clicks = [row for name, row in rows if name == "clicks"]
    shows = [row for name, row in rows if name == "shows"]
    found: list[dict[str, Any]] = []
    met: set[int] = set()
    for click in clicks:
        for show in shows:
            apart = show["shown"] - click["at"]
            if click["ad"] is not None and click["ad"] == show["ad"] and (
                timedelta(seconds=LOWER_S) <= apart <= timedelta(seconds=UPPER_S)
            ):  # fmt: skip
                found.append(click | show)
                met |= {click["click"], show["show"]}
    if how in ("left", "full"):
        found += [click for click in clicks if click["click"] not in met]
    if how in ("right", "full"):
        found += [show for show in shows if show["show"] not in met]
    return Counter(_bare(row) for row in found if row.get("click") != -1 and row.get("show") != -1)


def _bare(row: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in row.items() if v is not None and k not in ("at", "shown")}, sort_keys=True)


def bag(rows: Sequence[dict[str, Any]]) -> Counter[str]:
    return Counter(_bare(row) for row in rows if row.get("click") != -1 and row.get("show") != -1)


def given(rows: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, list[Any]]:
    return {name: [row for of, row in rows if of == name] for name in ("clicks", "shows")}


def test_the_batch_twin_is_what_loops_say(spark: SparkSession, seed: int):
    rows = events(random.Random(seed), 150)
    app = declared(*HOW)
    for how in HOW:
        assert bag(oracle(app, how, given(rows), spark)) == model(rows, how), f"seed {seed}, {how}"


def test_exact_with_crashes(spark: SparkSession, driven: Callable[[hr.App], Simulation | Driver], seed: int):
    dice = random.Random(seed)
    for _ in range(CASES):
        rows = events(dice, 120)
        with driven(declared(*HOW)) as driver:
            for part in range(3):
                for name, row in rows[part * 40 : part * 40 + 40]:
                    driver.push(name, [row])
                driver.advance()
                driver.crash(seed=dice.randrange(2**32))
            for name, row in closing(120):
                driver.push(name, [row])
            driver.advance()
            for how in HOW:
                assert driver.late(how) == [], f"seed {seed}, {how}"
                assert bag(driver.read(how)) == model(rows, how), f"seed {seed}, {how}"


def test_live(spark: SparkSession, bootstrap: str, seed: int):
    rows = events(random.Random(seed), 80)
    with Driver(declared("full"), spark=spark, bootstrap=bootstrap, mode=Mode.LIVE, live_batch="30 seconds") as driver:
        for name, row in rows:
            driver.push(name, [row])
        driver.advance()
        for name, row in closing(80):
            for partition in range(2):
                driver.push(name, [row], partition=partition)
        driver.advance()
        assert bag(driver.read("full")) == model(rows, "full"), f"seed {seed}"
        ids = [dict(record.headers)["headrace.id"] for record in driver.records("full")]
        assert len(set(ids)) == len(ids), "each result has an id of its own"


def test_what_is_late_is_kept_with_the_columns_of_its_side(spark: SparkSession, bootstrap: str):
    with Driver(declared("left"), spark=spark, bootstrap=bootstrap) as driver:
        for name, row in closing(0):
            for partition in range(2):
                driver.push(name, [row], partition=partition)
        driver.advance()
        driver.push("clicks", [{"click": 1, "ad": "a", "at": START}])
        driver.push("shows", [{"show": 2, "ad": "a", "shown": START}])
        driver.advance()
        late = sorted(
            json.dumps({k: v for k, v in row.items() if k not in ("at", "shown")}) for row in driver.late("left")
        )
        assert late == ['{"click": 1, "ad": "a"}', '{"show": 2, "ad": "a"}']


@pytest.mark.parametrize(
    ("within", "what"),
    [
        (None, "needs an interval"),
        (("0", "-1 hour"), "its first bound is after its second"),
        (("-1 fortnight", "0"), "is not a unit of time"),
        ("1 hour", "it is not a pair of durations"),
        ((1, 2), "it is not a pair of durations"),
    ],
)
def test_an_interval_that_cannot_be_used(spark: SparkSession, within: Any, what: str):
    clicks = hr.event_time(spark.createDataFrame([], "ad string, at timestamp"), "at")
    shows = hr.event_time(spark.createDataFrame([], "ad string, shown timestamp"), "shown")
    with pytest.raises(DeclarationError, match=what) as refused:
        hr.join(clicks, shows, on="ad", within=within)
    assert refused.value.code == "HR-050"


def test_options_of_other_joins_are_refused(spark: SparkSession):
    clicks = hr.event_time(spark.createDataFrame([], "ad string, at timestamp"), "at")
    shows = spark.createDataFrame([], "ad string, shown timestamp")
    with pytest.raises(DeclarationError, match="`join` of two streams does not take `wait`"):
        hr.join(clicks, shows, on="ad", within=("0", "0"), wait="1 minute")
    with pytest.raises(DeclarationError, match="needs an event time") as refused:
        hr.join(clicks, shows, on="ad", within=("0", "0"))
    assert refused.value.code == "HR-031"
