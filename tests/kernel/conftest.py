"""What the tests of the kernel share: records as Spark's Kafka source gives them, decoded in one job, with the fate of
each; and a source of randomness whose seed is printed.

`HEADRACE_DEEP` multiplies the number of generated cases; `HEADRACE_SEED` repeats a run whose seed was printed.
"""

from __future__ import annotations

import os
import random
import shutil
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, TimestampNTZType, TimestampType

from headrace.kernel import bridge
from headrace.log import dead
from headrace.log.connection import Connection
from headrace.log.topic import ensure
from headrace.parts import kernel_jar
from headrace.parts.jars import pyspark_jars

WRITTEN_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Refused:
    """The fate of a record that went to the dead letters."""

    reason: str


Fate = dict[str, Any] | Refused
Records = Callable[..., DataFrame]
Decode = Callable[..., list[Fate]]
Rows = Callable[[DataFrame], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def deep() -> int:
    return int(os.environ.get("HEADRACE_DEEP", "1"))


@pytest.fixture(scope="session")
def kernel_with_tests(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the kernel, with the Java programs of these tests in its rooms, and of Spark."""
    sources = tmp_path_factory.mktemp("sources")
    for found in (kernel_jar.SOURCES, Path(__file__).with_name("java")):
        shutil.copytree(found, sources, dirs_exist_ok=True)
    return f"{kernel_jar.kernel_jar(print, sources)}:{pyspark_jars()}/*"


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("HEADRACE_SEED") or random.SystemRandom().randrange(2**32))
    print(f"HEADRACE_SEED={seed}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


@pytest.fixture
def records(spark: SparkSession, tmp_path: Path) -> Records:
    """A static DataFrame with the columns of Spark's Kafka source: one Spark partition, offsets from zero.

    The records go through a file, because rows made from Python objects would go through Python workers first.
    """

    def make(values: Sequence[bytes | None], keys: Sequence[bytes | None] = (), partition: int = 0) -> DataFrame:
        pairs = zip_longest(keys, values)
        lines = [f"{offset} {_line(key)} {_line(value)}\n" for offset, (key, value) in enumerate(pairs)]
        file = tmp_path / f"{uuid4()}.txt"
        file.write_text("".join(lines))
        part = F.split("value", " ")
        return (
            spark.read.text(str(file))
            .select(
                F.when(part[1] != "-", F.unbase64(part[1])).alias("key"),
                F.when(part[2] != "-", F.unbase64(part[2])).alias("value"),
                F.lit("t").alias("topic"),
                F.lit(partition).alias("partition"),
                part[0].cast("long").alias("offset"),
                F.lit(WRITTEN_AT).alias("timestamp"),
                F.lit(0).alias("timestampType"),
                F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
            )
            .coalesce(1)
            .sortWithinPartitions("offset")
        )

    return make


def _line(raw: bytes | None) -> str:
    return "-" if raw is None else b64encode(raw).decode()


@pytest.fixture(scope="session")
def rows() -> Rows:
    """The rows as dicts; timestamps come as UTC without a zone, whatever the zone of this machine."""

    def collect(frame: DataFrame) -> list[dict[str, Any]]:
        return [row.asDict(recursive=True) for row in frame.select(*map(_zoneless, frame.schema)).collect()]

    return collect


@pytest.fixture
def decode(connection: Connection, topic: Callable[[], str], records: Records, rows: Rows) -> Decode:
    """The fate of each value, in one Spark job: its row, or why it is dead."""

    def run(values: Sequence[bytes | str | None], ddl: str, **options: Any) -> list[Fate]:
        source = topic()
        ensure(connection, [dead.declaration(source)])
        raw = [value.encode() if isinstance(value, str) else value for value in values]
        settings = {"event_time": None, "future_ms": -1} | options
        decoded = bridge.decode(
            records(raw),
            query="decode",
            topic=source,
            dead_topic=dead.declaration(source).name,
            ddl=ddl,
            kafka=connection.spark(),
            **settings,
        )
        accepted = iter(rows(decoded))
        refused = {letter.source.offset: letter for letter in dead.dead_letters(connection, source)}
        assert all(letter.raw == raw[offset] for offset, letter in refused.items())
        fates = [
            Refused(refused[i].reason) if i in refused else next(accepted, "neither a row nor a dead letter")
            for i in range(len(raw))
        ]
        assert next(accepted, None) is None, "more rows than accepted records"
        return fates  # pyright: ignore[reportReturnType]

    return run


def _zoneless(field: StructField) -> Column:
    quoted = "`" + field.name.replace("`", "``") + "`"
    return F.col(quoted).cast(_zoneless_type(field.dataType)).alias(field.name)


def _zoneless_type(kind: DataType) -> DataType:
    match kind:
        case TimestampType():
            return TimestampNTZType()
        case ArrayType():
            return ArrayType(_zoneless_type(kind.elementType), kind.containsNull)
        case MapType():
            return MapType(kind.keyType, _zoneless_type(kind.valueType), kind.valueContainsNull)
        case StructType():
            return StructType([StructField(f.name, _zoneless_type(f.dataType), f.nullable) for f in kind.fields])
    return kind
