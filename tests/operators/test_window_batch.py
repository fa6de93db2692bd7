"""`window` in batch: each kind of window against a plain-Python model, its edges, and what is refused."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import headrace as hr
from headrace.errors import DeclarationError
from headrace.operators import aggregate
from headrace.operators.event_time import EventTime, marked
from headrace.operators.window import Window, window_operator

SEEDS = range(int(os.environ.get("HEADRACE_DEEP", "1")))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)
SCHEMA = "k string, shop int, amount bigint, at timestamp"
Row = tuple[str | None, int | None, int, datetime | None]
Span = tuple[datetime, datetime]


def moments(seed: int) -> Iterator[datetime | None]:
    """Times around the edges of windows and sessions, in 1969, 1970, 2026 and 2099; some are null."""
    dice = random.Random(seed)
    bases = [EPOCH, EPOCH - timedelta(days=40, seconds=3), START, datetime(2099, 12, 31, 23, 59, 50, tzinfo=UTC)]
    while True:
        near = dice.choice(bases) + dice.randrange(-40, 40) * SECOND + dice.choice([-1, 0, 0, 1]) * MICROSECOND
        yield None if dice.random() < 0.05 else near


def events(seed: int, count: int = 300) -> list[Row]:
    dice, times = random.Random(seed), moments(seed)
    return [
        (dice.choice(["a", "b", "", None]), dice.choice([1, 2, None]), dice.randrange(100), next(times))
        for _ in range(count)
    ]


def tumbling(at: datetime, size: timedelta, offset: timedelta = timedelta(0)) -> list[Span]:
    return hopping(at, size, size, offset)


def hopping(at: datetime, size: timedelta, every: timedelta, offset: timedelta = timedelta(0)) -> list[Span]:
    """Every window that holds the time, found by trying those around it."""
    near = (at - EPOCH - offset) // every
    starts = (EPOCH + offset + n * every for n in range(near - size // every - 2, near + 3))
    return [(start, start + size) for start in starts if start <= at < start + size]


def calendar(at: datetime, zone: str, days: int = 1, offset: int = 0) -> list[Span]:
    """The window whose first midnight is the last one that is not after the time."""

    def midnight(number: int) -> datetime:
        day = date(1970, 1, 1) + timedelta(days=number)
        return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC)

    near = (at.astimezone(ZoneInfo(zone)).date() - date(1970, 1, 1)).days
    today = max(number for number in range(near - 2, near + 3) if midnight(number) <= at)
    first = today - (today - offset) % days
    return [(midnight(first), midnight(first + days))]


def grouped(rows: list[Row], keys: list[int], spans: Callable[[datetime], list[Span]]) -> Counter[Any]:
    """The answer: of each key and window how many rows, their sum, and the amounts in the order of time."""
    groups: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        for span in spans(row[3]) if row[3] is not None else []:
            groups[(*(row[key] for key in keys), *span)].append(row)
    return summed(groups)


def sessions(rows: list[Row], keys: list[int], gap: timedelta) -> Counter[Any]:
    groups: defaultdict[Any, list[Row]] = defaultdict(list)
    by_key: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if row[3] is not None:
            by_key[tuple(row[key] for key in keys)].append(row)
    for key, members in by_key.items():
        run: list[Row] = []
        for row in [*sorted(members, key=lambda row: row[3] or EPOCH), None]:
            if run and (row is None or moment(row) - moment(run[-1]) > gap):
                groups[(*key, moment(run[0]), moment(run[-1]) + gap)] = run
                run = []
            if row is not None:
                run.append(row)
    return summed(groups)


def moment(row: Row) -> datetime:
    assert row[3] is not None
    return row[3]


def summed(groups: dict[Any, list[Row]]) -> Counter[Any]:
    return Counter(
        (
            *key,
            len(rows),
            sum(row[2] for row in rows),
            tuple(row[2] for row in sorted(rows, key=lambda r: (r[3], r[2]))),
        )
        for key, rows in groups.items()
    )


def answer(spark: SparkSession, rows: list[Row], windows: Window, keys: list[int], **options: Any) -> Counter[Any]:
    names = ["k", "shop"]
    found = hr.window(
        spark.createDataFrame(rows, SCHEMA), windows, by=[names[key] for key in keys], at="at", **options,
        n=hr.count(), total=hr.sum("amount"), amounts=hr.collect("amount", most=1000),
    )  # fmt: skip
    limits = [F.unix_micros("window_start").alias("window_start"), F.unix_micros("window_end").alias("window_end")]
    plain = found.withColumns({"window_start": limits[0], "window_end": limits[1]})
    return Counter(
        (
            *(row[names[key]] for key in keys),
            EPOCH + row["window_start"] * MICROSECOND,
            EPOCH + row["window_end"] * MICROSECOND,
            row["n"],
            row["total"],
            tuple(row["amounts"]),
        )
        for row in plain.collect()
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("windows", "keys", "spans"),
    [
        (hr.tumbling("10 seconds"), [0], lambda at: tumbling(at, 10 * SECOND)),
        (hr.tumbling("7 seconds", offset="3 seconds"), [0, 1], lambda at: tumbling(at, 7 * SECOND, 3 * SECOND)),
        (hr.tumbling("10 seconds", offset="25 seconds"), [], lambda at: tumbling(at, 10 * SECOND, 5 * SECOND)),
        (hr.hopping("10 seconds", "2 seconds"), [0], lambda at: hopping(at, 10 * SECOND, 2 * SECOND)),
        (
            hr.hopping("10 seconds", "3 seconds", offset="1 second"),
            [1],
            lambda at: hopping(at, 10 * SECOND, 3 * SECOND, SECOND),
        ),
        (hr.hopping("5 seconds", "5 seconds"), [], lambda at: tumbling(at, 5 * SECOND)),
        (hr.tumbling("2 days", timezone="Asia/Kathmandu"), [0], lambda at: calendar(at, "Asia/Kathmandu", 2)),
    ],
    ids=["tumbling", "offset", "long offset", "hopping", "uneven", "no overlap", "days"],
)
def test_windows_equal_the_model(
    spark: SparkSession, seed: int, windows: Window, keys: list[int], spans: Callable[[datetime], list[Span]]
):
    rows = events(seed)
    assert answer(spark, rows, windows, keys) == grouped(rows, keys, spans), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("keys", [[0], [0, 1], []], ids=len)
def test_sessions_equal_the_model(spark: SparkSession, seed: int, keys: list[int]):
    rows = events(seed, 80)
    assert answer(spark, rows, hr.session("2 seconds"), keys) == sessions(rows, keys, 2 * SECOND), f"seed {seed}"


def test_a_session_lasts_as_long_as_each_is_within_the_gap(spark: SparkSession):
    gap = timedelta(seconds=10)
    times = {
        "exactly the gap": [0 * SECOND, gap],
        "just more": [0 * SECOND, gap + MICROSECOND],
        "alone": [0 * SECOND],
        "same time": [0 * SECOND, 0 * SECOND],
        "a bridge": [0 * SECOND, 2 * gap, gap],
    }
    rows: list[Row] = [(name, 1, 1, START + one) for name, all_ in times.items() for one in all_]
    found = answer(spark, rows, hr.session(gap), [0])
    assert {(key, start - START, end - START, n) for key, start, end, n, _, _ in found} == {
        ("exactly the gap", 0 * SECOND, 2 * gap, 2),
        ("just more", 0 * SECOND, gap, 1),
        ("just more", gap + MICROSECOND, 2 * gap + MICROSECOND, 1),
        ("alone", 0 * SECOND, gap, 1),
        ("same time", 0 * SECOND, gap, 2),
        ("a bridge", 0 * SECOND, 3 * gap, 3),
    }


def hourly(zone: str, first: date, days: int) -> list[Row]:
    """An event each half hour of UTC, from a day before to a day after."""
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC) - timedelta(days=1)
    return [(zone, 1, 1, begin + n * timedelta(minutes=30)) for n in range((days + 2) * 48)]


@pytest.mark.parametrize(
    ("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 6, 1), 24), (date(2026, 10, 25), 25)], ids=str
)
def test_a_day_in_berlin_has_23_24_or_25_hours(spark: SparkSession, day: date, hours: int):
    found = answer(spark, hourly("Berlin", day, 1), hr.tumbling("1 day", timezone="Europe/Berlin"), [0])
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
    assert ("Berlin", midnight, midnight + timedelta(hours=hours), hours * 2, hours * 2, (1,) * hours * 2) in found


@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("Europe/Berlin", date(2026, 3, 28)),
        ("Europe/Berlin", date(2026, 10, 24)),
        ("America/Sao_Paulo", date(2017, 10, 14)),  # midnight does not exist on the 15th
        ("America/Havana", date(2026, 10, 31)),  # midnight comes twice on the 1st
        ("Asia/Beirut", date(2026, 10, 24)),  # the clock goes back to the day before
        ("America/St_Johns", date(2010, 11, 6)),  # it goes back over midnight, a minute after it
        ("Pacific/Apia", date(2011, 12, 29)),  # the 30th does not exist
        ("Pacific/Kiritimati", date(2026, 1, 1)),
    ],
)
def test_days_of_strange_zones_equal_the_model(spark: SparkSession, zone: str, first: date):
    rows = hourly(zone, first, 3)
    found = answer(spark, rows, hr.tumbling("1 day", timezone=zone), [0])
    assert found == grouped(rows, [0], lambda at: calendar(at, zone))


def test_weeks_from_monday_follow_the_calendar(spark: SparkSession):
    rows = hourly("Berlin", date(2026, 3, 20), 20)
    windows = hr.tumbling("7 days", offset="4 days", timezone="Europe/Berlin")
    found = answer(spark, rows, windows, [0])
    assert found == grouped(rows, [0], lambda at: calendar(at, "Europe/Berlin", 7, 4))
    assert {start.astimezone(ZoneInfo("Europe/Berlin")).strftime("%a %H:%M") for _, start, *_ in found} == {"Mon 00:00"}


def test_the_session_time_zone_of_spark_changes_nothing(spark: SparkSession):
    rows = hourly("Berlin", date(2026, 3, 28), 2)
    windows = hr.tumbling("1 day", timezone="Europe/Berlin")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        found = answer(spark, rows, windows, [0])
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == grouped(rows, [0], lambda at: calendar(at, "Europe/Berlin"))


def test_a_global_window_is_the_last_state_of_each_key(spark: SparkSession):
    rows = events(5)
    frame = spark.createDataFrame(rows, SCHEMA)
    found = hr.window(frame, hr.global_(every="1 second"), by="k", at="at", n=hr.count())
    assert found.columns == ["k", "n", "change"]
    expected = Counter(row[0] for row in rows if row[3] is not None)
    assert {(row["k"], row["n"], row["change"]) for row in found.collect()} == {
        (k, n, "+") for k, n in expected.items()
    }
    everything = hr.window(frame, hr.global_(), by=[], at="at", n=hr.count()).collect()
    assert [tuple(row) for row in everything] == [(sum(expected.values()), "+")]
    nothing = hr.window(frame.where("false"), hr.global_(), by=[], at="at", n=hr.count())
    assert nothing.collect() == []


# The shape of the result


@pytest.fixture
def empty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA + ", price double, tags array<string>, window_end timestamp, Change string")


@pytest.mark.parametrize(
    ("options", "columns"),
    [
        ({}, "shop int, k string, window_start timestamp, window_end timestamp, n bigint, most bigint"),
        (
            {"emit": "early"},
            "shop int, k string, window_start timestamp, window_end timestamp, n bigint, most bigint, change string",
        ),
        (
            {"lateness": "1 hour", "late": "drop"},
            "shop int, k string, window_start timestamp, window_end timestamp, n bigint, most bigint, change string",
        ),
    ],
)
def test_the_columns_of_the_result(empty: DataFrame, options: dict[str, Any], columns: str):
    found = hr.window(
        empty, hr.tumbling("1 minute"), by=["shop", "k"], at="at", **options, n=hr.count(), most=hr.max("amount")
    )
    fields = [(field.name, field.dataType.simpleString()) for field in found.schema.fields]
    assert ", ".join(f"{name} {type_}" for name, type_ in fields) == columns


def test_the_event_time_of_the_result_is_the_end_of_the_window(empty: DataFrame):
    marked_rows = hr.event_time(empty, "at", delay="5 seconds")
    windows = hr.hopping("1 minute", "10 seconds")

    def time(rows: DataFrame, **options: Any) -> EventTime | None:
        return marked(hr.window(rows, windows, n=hr.count(), **options).schema)

    assert time(marked_rows, by="k") == EventTime("window_end", 5000, 30_000)
    assert time(marked_rows, by="k", lateness="1 minute") == EventTime("window_end", 65_000, 30_000)
    assert time(marked_rows, by=["k", "at"]) == EventTime("window_end", 5000, 30_000)
    assert time(empty, by="k", at="at", lateness="1 minute") == EventTime("window_end", 60_000, 30_000)
    assert time(marked_rows, by="k", at="window_end") == EventTime("window_end", 0, 30_000)


def test_a_window_over_windows(spark: SparkSession):
    rows: list[Row] = [("a", 1, 1, START + n * 20 * SECOND) for n in range(12)]
    minutes = hr.window(
        hr.event_time(spark.createDataFrame(rows, SCHEMA), "at"), hr.tumbling("1 minute"), by="k", n=hr.count()
    )
    found = hr.window(minutes, hr.tumbling("5 minutes"), by="k", most=hr.max("n"), minutes=hr.count()).collect()
    assert [(row["k"], row["most"], row["minutes"]) for row in found] == [("a", 3, 4)]


def test_what_the_kernel_is_told(empty: DataFrame):
    bound, _ = aggregate.bind(empty, {"spent": hr.sum("amount")}, "window", [])

    def told(windows: Window, **options: Any) -> dict[str, Any]:
        given = {"emit": "final", "lateness_ms": 0, "late": "keep", **options}
        return window_operator(empty, windows, ["k", "shop"], "at", bound, **given).told(view=False)

    assert told(hr.hopping("10 minutes", "1 minute", offset="90 seconds"), emit="early", late="drop") == {
        "kind": "hopping",
        "form": 3,
        "layout": {
            "by": ["k", "shop"],
            "time": "at",
            "columns": ["k", "shop", "amount", "at", "price", "tags", "window_end", "Change"],
            "aggregates": [
                {
                    "name": "spent", "kind": "sum", "input": 0, "by": -1, "type": "bigint", "input_type": "bigint",
                    "by_type": None, "taken_back": False,
                }
            ],
            "output": "`k` string, `shop` int, `window_start` timestamp, `window_end` timestamp, `spent` bigint,"
            " `change` string",
            "unique": ["k", "shop", "window_start"],
            "changes": True,
            "view": False,
        },
        "options": {
            "size_ms": 600_000,
            "every_ms": 60_000,
            "offset_ms": 30_000,
            "early": True,
            "lateness_ms": 0,
            "drop_late": True,
        },
    }  # fmt: skip
    late = {"early": False, "lateness_ms": 0, "drop_late": False}
    days = told(hr.tumbling("7 days", offset="4 days", timezone="Europe/Berlin"))
    assert (days["kind"], days["layout"]["changes"]) == ("tumbling", False)
    assert days["options"] == late | {"size_ms": 604_800_000, "offset_ms": 345_600_000, "timezone": "Europe/Berlin"}
    assert told(hr.session("5 minutes"), lateness_ms=1000)["options"] == late | {"lateness_ms": 1000, "gap_ms": 300_000}
    rows, seconds = told(hr.global_(every=100)), told(hr.global_(every="10 seconds"))
    assert (rows["kind"], rows["options"]) == ("global", late | {"every_rows": 100, "every_ms": 0})
    assert (seconds["options"], seconds["layout"]["changes"]) == (late | {"every_rows": 0, "every_ms": 10_000}, True)
    assert seconds["layout"]["output"] == "`k` string, `shop` int, `spent` bigint, `change` string"


# Mistakes


@pytest.mark.parametrize(
    ("declare", "code"),
    [
        (lambda: hr.tumbling("0 seconds"), "HR-005"),
        (lambda: hr.tumbling(timedelta(seconds=-1)), "HR-005"),
        (lambda: hr.tumbling("1 month"), "HR-005"),
        (lambda: hr.tumbling("1 minute", offset="later"), "HR-005"),
        (lambda: hr.hopping("1 minute", "0 seconds"), "HR-005"),
        (lambda: hr.hopping("0 seconds", "1 minute"), "HR-005"),
        (lambda: hr.hopping("1 minute", 10), "HR-005"),  # type: ignore[arg-type]
        (lambda: hr.session("0 seconds"), "HR-005"),
        (lambda: hr.session(timedelta(days=-1)), "HR-005"),
        (lambda: hr.global_(every="0 seconds"), "HR-005"),
        (lambda: hr.hopping("1 minute", "2 minutes"), "HR-038"),
        (lambda: hr.hopping("1 day", "1 ms"), "HR-038"),
        (lambda: hr.global_(every=0), "HR-038"),
        (lambda: hr.global_(every=-5), "HR-038"),
        (lambda: hr.global_(every=True), "HR-038"),
        (lambda: hr.tumbling("1 day", timezone="Europe/Atlantis"), "HR-039"),
        (lambda: hr.tumbling("1 day", timezone=""), "HR-039"),
        (lambda: hr.tumbling("1 day", timezone="../passwd"), "HR-039"),
        (lambda: hr.tumbling("1 day", timezone="Europe"), "HR-039"),
        (lambda: hr.tumbling("1 hour", timezone="Europe/Berlin"), "HR-039"),
        (lambda: hr.tumbling("1 day", offset="6 hours", timezone="Europe/Berlin"), "HR-039"),
        (lambda: hr.hopping("2 days", "1 day", timezone="Europe/Berlin"), "HR-039"),
    ],
)
def test_a_window_that_cannot_be_is_refused_where_it_was_made(declare: Callable[[], Window], code: str):
    with pytest.raises(DeclarationError) as raised:
        declare()
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__


@pytest.mark.parametrize(
    ("windows", "options", "code"),
    [
        (hr.tumbling("1 minute"), {"by": "nope", "n": hr.count()}, "HR-030"),
        (hr.tumbling("1 minute"), {"by": "price", "n": hr.count()}, "HR-032"),
        (hr.tumbling("1 minute"), {"by": ["k", "tags"], "n": hr.count()}, "HR-032"),
        (hr.tumbling("1 minute"), {"by": ["k", "k"], "n": hr.count()}, "HR-032"),
        (hr.tumbling("1 minute"), {"n": hr.count(), "at": "k"}, "HR-007"),
        (hr.tumbling("1 minute"), {"n": hr.count(), "at": None}, "HR-031"),
        (hr.tumbling("1 minute"), {"n": hr.count(), "lateness": "a while"}, "HR-005"),
        (hr.tumbling("1 minute"), {"n": hr.count(), "emit": "sometimes"}, "HR-040"),
        (hr.tumbling("1 minute"), {"n": hr.count(), "late": "ignore"}, "HR-040"),
        (hr.global_(), {"n": hr.count(), "lateness": "1 minute"}, "HR-040"),
        ("1 minute", {"n": hr.count()}, "HR-041"),
        (hr.tumbling, {"n": hr.count()}, "HR-041"),
        (hr.tumbling("1 minute"), {}, "HR-037"),
        (hr.tumbling("1 minute"), {"n": "count(*)"}, "HR-037"),
        (hr.tumbling("1 minute"), {"n": hr.count}, "HR-037"),
        (hr.tumbling("1 minute"), {"k": hr.count()}, "HR-036"),
        (hr.tumbling("1 minute"), {"K": hr.count()}, "HR-036"),
        (hr.tumbling("1 minute"), {"window_start": hr.count()}, "HR-036"),
        (hr.tumbling("1 minute"), {"change": hr.count(), "emit": "early"}, "HR-036"),
        (hr.global_(), {"change": hr.count()}, "HR-036"),
        (hr.tumbling("1 minute"), {"late": hr.count()}, "HR-036"),
        (hr.tumbling("1 minute"), {"by": "window_end", "n": hr.count()}, "HR-036"),
        (hr.tumbling("1 minute"), {"by": "Change", "n": hr.count(), "lateness": "1 s"}, "HR-036"),
    ],
)
def test_a_mistake_is_named_where_it_was_made(empty: DataFrame, windows: Any, options: dict[str, Any], code: str):
    with pytest.raises(DeclarationError) as raised:
        hr.window(empty, windows, **{"by": "k", "at": "at", **options})
    assert raised.value.code == code
    assert raised.value.where is not None
    assert raised.value.where.file == __file__


def test_names_that_are_free_can_be_used(empty: DataFrame):
    found = hr.window(empty, hr.tumbling("1 minute"), by="k", at="at", amount=hr.max("amount"), change=hr.count())
    assert found.columns == ["k", "window_start", "window_end", "amount", "change"]
    assert hr.window(empty, hr.global_(), by="window_end", at="at", n=hr.count()).columns == [
        "window_end",
        "n",
        "change",
    ]
