"""What the console makes of what it has gathered: health that needs more than one look, levels, secrets, figures."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from tests.console.stage import iso

import headrace as hr
from headrace.engine import progress
from headrace.engine.progress import Progress
from headrace.log.connection import Connection
from headrace.serve.console import figure
from headrace.serve.console.levels import Level
from headrace.serve.console.secret import HIDDEN, MASK, masked, masked_bytes, secrets
from headrace.serve.console.trail import POINTS, Query, Trail
from headrace.serve.console.watch import Watch
from headrace.settings import Settings

app = hr.App("pairs")
app.stream("clicks", schema="id string, at timestamp", event_time="at", delay="5 seconds", id="id", secret="id")
app.stream("orders", schema="id string, at timestamp", event_time="at", id="id")


@app.stream
def both(clicks: DataFrame, orders: DataFrame) -> DataFrame:
    return clicks.union(orders)


def event(query: str = "both", **given: object) -> Progress:
    now = iso(time.time())
    values = {"mode": "exact", "state": "running", "at": now, "started_at": now, "pid": 1, **given}
    return Progress(app="pairs", query=query, **values)  # pyright: ignore[reportArgumentType]


def level(moved: float | None) -> Level:
    made = Level()
    made.moved = moved
    return made


def test_a_silent_input_holds_others_back(tmp_path: Path):
    now = time.time()
    watch = Watch(app.graph(), Settings.load(tmp_path), Connection("127.0.0.1:1"))
    query = Query(event(watermark=iso(now - 300), event_time=iso(now)))
    watch.levels.topics.update(clicks=level(now - 200), orders=level(now))
    held = watch._held_back("both", query)
    assert held
    assert held.sentence == "held back by stream clicks, idle for 3m"
    watch.levels.topics["clicks"] = level(None)
    held = watch._held_back("both", query)
    assert held
    assert held.sentence == "held back by stream clicks, which has brought nothing yet"
    for clicks, orders, mark in ((now, now, 300), (now - 200, now - 200, 300), (now - 200, now, 20)):
        watch.levels.topics.update(clicks=level(clicks), orders=level(orders))
        assert watch._held_back("both", Query(event(watermark=iso(now - mark), event_time=iso(now)))) is None


def test_a_trail_is_read_as_it_grows_and_after_it_was_cut(tmp_path: Path):
    settings = Settings.load(tmp_path)
    trail = Trail(settings, "pairs")
    trail.look()
    assert trail.queries == {}
    for rows in range(5):
        progress.write(settings, event(rows_in=rows))
        time.sleep(0.002)
    trail.look()
    assert [trail.queries["both"].last.rows_in, len(trail.queries["both"].points)] == [4, 5]
    file = progress.directory(settings, "pairs") / "both.jsonl"
    with file.open("a") as out:
        out.write('{"cut": ')  # a writer in the middle of a line
    trail.look()
    with file.open("a") as out:
        out.write("1}\nnothing\n")
    progress.write(settings, event(rows_in=5))
    trail.look()
    assert trail.queries["both"].last.rows_in == 5
    shorter = file.with_suffix(".new")
    shorter.write_text("".join(file.read_text().splitlines(keepends=True)[-2:]))
    shorter.replace(file)
    time.sleep(0.002)  # events are told apart by their milliseconds
    progress.write(settings, event(rows_in=6))
    trail.look()
    assert trail.queries["both"].last.rows_in == 6
    assert len(trail.queries["both"].points) <= POINTS


def test_rates_come_from_levels():
    made = Level()
    for second in range(10):
        made.rise(100.0 + second, {0: 50 * second, 1: 10 * second})
    assert made.per_second == pytest.approx(60)
    assert made.moved == 109.0
    for second in range(10, 30):
        made.rise(100.0 + second, {0: 450, 1: 90})
    assert made.per_second == 0
    assert made.moved == 109.0


def test_secrets_follow_their_names():
    graph = app.graph()
    assert secrets(graph) == {"clicks": {"id"}, "orders": set(), "both": {"id"}}
    secret = frozenset({"id"})
    assert masked("id", "x", secret) == MASK
    assert masked("id", None, secret) is None
    assert masked("nested", {"id": 1, "a": [{"id": 2}]}, secret) == '{"id": "••••••", "a": [{"id": "••••••"}]}'
    assert masked("at", 5, secret) == 5
    assert masked_bytes(b'{"id": "x", "at": 1}', secret) == '{"id": "••••••", "at": 1}'
    assert masked_bytes(b'{"id": "x', secret) == HIDDEN
    assert masked_bytes(b"\xff", secret) == HIDDEN
    assert masked_bytes(b"\xffabc", frozenset()) == "\\xffabc"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figure.count(0), "0"),
        (figure.count(9_999), "9,999"),
        (figure.count(12_345), "12.3k"),
        (figure.count(999_999), "1M"),
        (figure.count(4_560_000), "4.56M"),
        (figure.rate(None), "–"),
        (figure.rate(0.42), "0.4/s"),
        (figure.rate(1240), "1,240/s"),
        (figure.milliseconds(4.23), "4.2 ms"),
        (figure.milliseconds(3400), "3.4 s"),
        (figure.milliseconds(600_000), "10 min"),
        (figure.size(1_400_000), "1.34 MB"),
    ],
)
def test_figures(shown: str, text: str):
    assert shown == text


def test_a_spark_is_svg_of_numbers_only():
    assert figure.spark([]).startswith("<svg")
    assert figure.spark([0, 0, 0]).count("L") >= 2
    assert "nan" not in figure.spark([0.0, 1.5, 2.5])
