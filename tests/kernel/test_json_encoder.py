"""Rows as JSON: what the decoder and Python read back, and what stands in the record byte by byte."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.kernel import bridge
from headrace.log import codec

Rows = Callable[[DataFrame], list[dict[str, Any]]]

EVERY_TYPE = (
    "id int NOT NULL, b boolean, t tinyint, s smallint, i int, l bigint, f float, d double, c decimal(10,2), "
    "w decimal(38,18), u string, x binary, day date, at timestamp, local timestamp_ntz, a array<int>, "
    "m map<string,double>, o struct<k: string, n: array<struct<v: decimal(5,3), w: timestamp>>>"
)
NAMES = ["a.b", "back`tick", 'quo"te', "back\\slash", "sp ace", "é😀", "new\nline", "SELECT", "__x"]


def made(spark: SparkSession, values: Sequence[tuple[Any, ...]], ddl: str) -> DataFrame:
    """Rows in one partition, so that they keep their order."""
    return spark.createDataFrame(spark.sparkContext.parallelize(values, 1), ddl)


def back(encoded: DataFrame, ddl: str) -> DataFrame:
    """The rows that the decoder reads from encoded records."""
    records = encoded.select(
        "key",
        "value",
        F.lit(0).alias("partition"),
        F.lit(0).cast("long").alias("offset"),
        F.lit(datetime(2026, 3, 1, tzinfo=UTC)).alias("timestamp"),
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    )
    return bridge.decode(
        records, query="back", topic="t", dead_topic="t.dead", ddl=ddl, event_time=None, future_ms=-1, kafka=None
    )


def texts(frame: DataFrame, key: Sequence[str] = ()) -> list[str]:
    return [row.value.decode("utf-8") for row in bridge.encode(frame, key).collect()]


def shown(value: Any) -> str:
    """A row for comparing: tells -0.0 from 0.0 and True from 1, and finds NaN equal to itself."""
    return json.dumps(value, sort_keys=True, default=repr)


def check_round_trip(frame: DataFrame, ddl: str, rows: Rows) -> None:
    given = rows(frame)
    found = rows(back(bridge.encode(frame, []), ddl))
    assert [shown(row) for row in found] == [shown(row) for row in given]
    for text, row in zip(texts(frame), given, strict=True):
        assert json.loads(text, parse_constant=pytest.fail).keys() == {name for name, v in row.items() if v is not None}


def test_borders_of_every_type_come_back(spark: SparkSession, rows: Rows) -> None:
    inf, tiny = float("inf"), 5e-324
    greatest_float, least_float = 3.4028234663852886e38, 1.401298464324817e-45
    cases: dict[str, list[Any]] = {
        "b": [True, False],
        "t": [-128, 127],
        "s": [-(2**15), 2**15 - 1],
        "i": [-(2**31), 2**31 - 1, 0],
        "l": [-(2**63), 2**63 - 1],
        "f": [0.0, -0.0, inf, -inf, float("nan"), greatest_float, least_float, 0.10000000149011612, 1e10],
        "d": [
            0.0,
            -0.0,
            inf,
            -inf,
            float("nan"),
            1.7976931348623157e308,
            tiny,
            -tiny,
            2.2250738585072014e-308,
            0.1,
            1e21,
            1e-7,
        ],
        "c": [Decimal("99999999.99"), Decimal("-99999999.99"), Decimal("0.01"), Decimal(0), Decimal("1.50")],
        "w": [Decimal("9" * 20 + "." + "9" * 18), Decimal("-0.000000000000000001"), Decimal(10**19)],
        "u": [
            "",
            "null",
            '"',
            "\\",
            "/",
            "".join(map(chr, range(0x20))),
            "\x7f\x80\u2028\ufeff\uffff",
            "é€😀",
            "x" * 5000,
        ],
        "x": [b"", b"\x00", bytes(range(256))],
        "day": [date.min, date.max, date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1582, 10, 10)],
        "at": [datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC)]
        + [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n) for n in (0, 1, -1, 1_000_000, -999_999)],
        "local": [datetime.min, datetime.max, datetime(2026, 3, 29, 2, 30), datetime(1969, 12, 31, 23, 59, 59, 999999)],
        "a": [[], [None], [1, None, -3]],
        "m": [{}, {"": None}, {'q"': 1.5, "é": float("nan"), "a.b": -inf}],
        "o": [
            (None, None),
            ("k", []),
            (None, [None, (Decimal("1.500"), datetime(2026, 3, 1, tzinfo=UTC)), (None, None)]),
        ],
    }
    columns = list(cases)
    alone = [
        tuple(value if name == column else None for name in columns) for column in columns for value in cases[column]
    ]
    all_null = [(None,) * len(columns)]
    together = [tuple(cases[column][i % len(cases[column])] for column in columns) for i in range(12)]
    values = [(i, *row) for i, row in enumerate(all_null + alone + together)]
    check_round_trip(made(spark, values, EVERY_TYPE), EVERY_TYPE, rows)


def test_random_rows_come_back(spark: SparkSession, rows: Rows, rng: random.Random, deep: int) -> None:
    def real(form: str) -> float:
        return struct.unpack(f"<{form}", rng.randbytes(struct.calcsize(form)))[0]

    def word() -> str:
        planes = ["\0\x1f", " ~", " ~", "\x7f\u07ff", "\u0800\ud7ff", "\ue000\uffff", "\U00010000\U0010ffff"]
        low, high = rng.choice(planes)
        return "".join(chr(rng.randint(ord(low), ord(high))) for _ in range(rng.randrange(8)))

    def moment() -> datetime:
        return datetime(2, 1, 1) + timedelta(microseconds=rng.randrange(9990 * 365 * 86_400 * 10**6))

    def row(i: int) -> tuple[Any, ...]:
        whole = [rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) for bits in (8, 16, 32, 64)]
        wide = Decimal((rng.getrandbits(1), tuple(rng.randrange(10) for _ in range(38)), -18))
        values = [
            *(rng.random() < 0.5, *whole, real("f"), real("d"), Decimal(rng.randrange(10**10)) / 100, wide),
            *(word(), rng.randbytes(rng.randrange(20)), moment().date(), moment().replace(tzinfo=UTC), moment()),
            *([whole[2]] * rng.randrange(3), {word(): real("d") for _ in range(3)}),
            (word(), [(Decimal(rng.randrange(10**5)) / 1000, moment().replace(tzinfo=UTC))]),
        ]
        return (i, *(None if rng.random() < 0.1 else value for value in values))

    check_round_trip(made(spark, [row(i) for i in range(1000 * deep)], EVERY_TYPE), EVERY_TYPE, rows)


def test_any_column_name(spark: SparkSession, rows: Rows) -> None:
    ddl = ", ".join(f"`{name.replace('`', '``')}` int" for name in NAMES)
    numbers = ", ".join(f"{i} AS `{name.replace('`', '``')}`" for i, name in enumerate(NAMES))
    frame = spark.sql(f"SELECT {numbers}")
    assert json.loads(texts(frame)[0]) == {name: i for i, name in enumerate(NAMES)}
    check_round_trip(frame, ddl, rows)
    (record,) = bridge.encode(frame, NAMES).collect()
    assert record.key == record.value


def test_the_bytes_are_those_of_every_other_writer(spark: SparkSession) -> None:
    """A key that Spark writes and one that an application writes must be the same, or compaction keeps both."""
    moment = datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=UTC)
    value = {
        "u": "".join(map(chr, range(0x100))) + "/\u2028€😀",
        "l": -(2**63),
        "b": True,
        "d": 1.5,
        "c": Decimal("1.50"),
        "x": b"\x00\xff",
        "day": date(2026, 3, 1),
        "at": moment,
        "a": [1, None],
        "m": {"k\n": float("nan")},
    }
    ddl = (
        "u string, l bigint, b boolean, d double, c decimal(5,2), x binary, day date, at timestamp, a array<int>, "
        "m map<string,double>"
    )
    assert texts(made(spark, [tuple(value.values())], ddl)) == [codec.encode(value).decode()]


def test_null_fields_are_left_out(spark: SparkSession) -> None:
    frame = spark.sql("SELECT null AS a, 1 AS b, named_struct('x', null, 'y', 2) AS s, array(null, 1) AS l")
    frame = frame.select(F.col("a").cast("string"), "b", F.col("s").cast("struct<x: int, y: int>"), "l")
    assert texts(frame) == ['{"b":1,"s":{"y":2},"l":[null,1]}']


def test_text_that_is_not_unicode_does_not_spoil_the_record(spark: SparkSession) -> None:
    frame = spark.sql("SELECT cast(X'61ff62' AS string) AS u, map(cast(X'c3' AS string), 'é') AS m")
    (text,) = texts(frame)
    assert json.loads(text) == {"u": "a\ufffdb", "m": {"\ufffd": "é"}}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([], None),
        (["u"], b'a"\xc3\xa9'),
        (["none"], None),
        (["l"], b'{"l":5}'),
        (["a.b"], b"dotted"),
        (["u", "l"], b'{"u":"a\\"\xc3\xa9","l":5}'),
        (["l", "u"], b'{"l":5,"u":"a\\"\xc3\xa9"}'),
        (["s"], b'{"s":{"x":1}}'),
        (["u", "none"], b'{"u":"a\\"\xc3\xa9"}'),
    ],
)
def test_keys(spark: SparkSession, key: list[str], expected: bytes | None) -> None:
    frame = spark.sql(
        """SELECT 'a"é' AS u, 5L AS l, cast(null AS string) AS none, 'dotted' AS `a.b`, named_struct('x', 1) AS s"""
    )
    (record,) = bridge.encode(frame, key).collect()
    assert record.key == expected
    assert json.loads(record.value) == {"u": 'a"é', "l": 5, "a.b": "dotted", "s": {"x": 1}}


@pytest.mark.parametrize(
    "expression", ["interval 1 day", "map(1, 2)", "array(map(1, 'x'))", "named_struct('i', interval 1 month)"]
)
def test_a_type_that_json_cannot_hold_is_named(spark: SparkSession, expression: str) -> None:
    with pytest.raises(IllegalArgumentException, match=r"JSON cannot hold the type (interval|map<int)"):
        bridge.encode(spark.sql(f"SELECT {expression} AS v"), [])
