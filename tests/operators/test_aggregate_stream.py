"""Every aggregate in a stream gives what it gives in batch; with few rows the sketches are exact too."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine.mode import Mode
from headrace.testing import Driver, oracle

SEED = int(os.environ.get("HEADRACE_SEED", "1"))
START = datetime(2026, 3, 1, tzinfo=UTC)
SCHEMA = (
    "id string, card string, n bigint, small int, x double, price decimal(10, 2), text string, ok boolean, day date"
)

app = hr.App("aggregates")
app.stream("rows", schema=f"{SCHEMA}, at timestamp", event_time="at", id="id", future="3650 days")


@app.stream
def days(rows):
    return hr.window(
        rows,
        hr.tumbling("1 day", timezone="Europe/Berlin"),
        by=["card", "ok"],
        n=hr.count(),
        some=hr.count("n", where="small > 2"),
        total=hr.sum("n"),
        small_total=hr.sum("small"),
        x_total=hr.sum("x", where="n % 2 = 0"),
        spent=hr.sum("price"),
        low=hr.min("n"),
        high=hr.max("x"),
        cheap=hr.min("price"),
        word=hr.max("text"),
        latest=hr.max("day"),
        mean=hr.avg("x"),
        opened=hr.first("text"),
        closed=hr.last("small"),
        least=hr.min_by("text", "n"),
        most=hr.max_by("text", "price"),
        texts=hr.collect("text", most=4),
        words=hr.count_distinct("text"),
        prices=hr.count_distinct("price"),
        about=hr.approx_distinct("text"),
        numbers=hr.approx_distinct("small"),
        median=hr.approx_quantile("x", 0.5),
        common=hr.approx_top_k("text", 3),
        named=hr.count_min("text", ["a", "ß", "zz"]),
    )


def events(seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if dice.random() < 0.15 else value

    return [
        {
            "id": f"r{number}",
            "card": maybe(f"card{dice.randrange(30)}"),
            "n": maybe(dice.randrange(-(2**40), 2**40)),
            "small": maybe(dice.randrange(-5, 6)),
            "x": maybe(dice.randrange(-40, 40) / 8),
            "price": maybe(Decimal(dice.randrange(-9999, 9999)) / 100),
            "text": maybe(dice.choice(["a", "b", "ß", "é", "🦩", "zz", "\ufb01"])),
            "ok": maybe(dice.random() < 0.5),
            "day": maybe((START + timedelta(days=dice.randrange(40))).date()),
            "at": START + timedelta(seconds=dice.randrange(86_400 * 40)),  # over the change of the clocks
        }
        for number in range(1500)
    ]


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_a_stream_gives_what_batch_gives(spark: SparkSession, bootstrap: str, mode: Mode):
    rows = sorted(events(SEED), key=lambda row: row["at"])
    end = [{"id": f"end{n}", "card": "end", "at": START + timedelta(days=99)} for n in range(4)]
    with Driver(app, spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        for piece in (rows[:700], rows[700:]):
            driver.push("rows", piece)
            driver.advance()
        for partition in (0, 1):
            driver.push("rows", end, partition=partition)
        driver.advance()
        found = {_name(row): row for row in driver.read("days") if row.get("card") != "end"}
        expected = {_name(row): row for row in oracle(app, "days", {"rows": rows}, spark)}
        assert sorted(found) == sorted(expected), f"seed {SEED}"
        for name, row in expected.items():
            assert found[name] == row, f"{name}, seed {SEED}"


def _name(row: dict[str, Any]) -> str:
    return f"{row.get('card')} {row.get('ok')} {row['window_start']}"
