"""What tests of the compiler share: tables whose rows come, change and go, a query over them that is kept up to date,
and the same query as Spark answers it over the rows that are there."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import headrace as hr
from headrace.names import CHANGE
from headrace.testing import Delete, Simulation

Row = Mapping[str, Any]
Schemas = Mapping[str, tuple[str, tuple[str, ...]]]
Change = tuple[str, Row | Delete]


def declared(schemas: Schemas, query: str) -> hr.App:
    """An app with the tables that a query reads and one function, `answer`, that keeps it up to date."""
    app = hr.App("asked")
    read = [name for name in schemas if re.search(rf"\b{name}\b", query)]
    for name in read:
        ddl, key = schemas[name]
        app.table(name, schema=ddl, key=key, partitions=2)

    def answer(*rows: DataFrame) -> DataFrame:
        return hr.sql(query, **dict(zip(read, rows, strict=True)))

    parameters = ", ".join(read)
    space: dict[str, Any] = {"given": answer}
    exec(f"def answer({parameters}):\n    return given({parameters})", space)
    app.stream(space["answer"])
    return app


class Tables:
    """The rows that the tables have."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._rows: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in schemas}

    def apply(self, table: str, change: Row | Delete) -> None:
        row = change.key if isinstance(change, Delete) else change
        key = tuple(row[name] for name in self._schemas[table][1])
        if isinstance(change, Delete):
            self._rows[table].pop(key, None)
        else:
            self._rows[table][key] = change

    def answer(self, spark: SparkSession, query: str, read: Sequence[str]) -> DataFrame:
        """Spark's own, over the rows as they are."""
        for name, rows in self.frames(spark, read).items():
            rows.createOrReplaceTempView(name)
        return spark.sql(query)

    def frames(self, spark: SparkSession, read: Sequence[str]) -> dict[str, DataFrame]:
        """The rows as they are."""
        found = {}
        for name in read:
            types = StructType.fromDDL(self._schemas[name][0])
            assert isinstance(types, StructType)
            texts = ", ".join(f"{one.name} {_plain_type(one.dataType.simpleString())}" for one in types.fields)
            rows = [tuple(row[column] for column in types.names) for row in self._rows[name].values()]
            typed = (F.col(one.name).cast(one.dataType) for one in types.fields)
            found[name] = spark.createDataFrame(rows, texts).select(*typed)
        return found


def _plain_type(kind: str) -> str:
    """As it is pushed: days and times are texts."""
    return "string" if kind.startswith(("date", "timestamp")) else kind


def plain(value: Any) -> str:
    """A value as both sides write it."""
    if isinstance(value, list):
        return str([plain(one) for one in value])
    if isinstance(value, float) or re.fullmatch(r"-?\d+\.\d+", str(value)):
        return f"{float(value):.9g}"
    return str(value)


def told(rows: Sequence[Row], columns: Sequence[str]) -> Counter[tuple[str, ...]]:
    """What is there after all changes."""
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        found[tuple(plain(row.get(name)) for name in columns)] += {"+": 1, "-": -1}[row[CHANGE]]
    assert min(found.values(), default=0) >= 0, "a row was taken back that was not there"
    return Counter({row: n for row, n in found.items() if n})


def kept_up_to_date(
    spark: SparkSession,
    schemas: Schemas,
    query: str,
    changes: Sequence[Sequence[Change]],
    *,
    driven: Callable[[hr.App], Any] | None = None,
) -> int:
    """Push the changes part by part, with a crash behind the first, and hold the answer against Spark's after each; how
    many rows were compared."""
    app = declared(schemas, query)
    read = [node.name for node in app.graph().sources]
    tables, compared = Tables(schemas), 0
    with driven(app) if driven else Simulation(app, spark=spark) as run:
        for part, some in enumerate(changes):
            for table, change in some:
                if table in read:
                    tables.apply(table, change)
                    run.push(table, [change])
            run.advance()
            assert [letter for name in read for letter in run.dead(name)] == []
            if part == 0:
                run.crash(seed=random.Random(len(some)).randrange(2**32))
            answer = tables.answer(spark, query, read)
            wanted = Counter(tuple(map(plain, row)) for row in answer.collect())
            if all(set(row) == {"None"} for row in wanted):
                wanted.clear()  # Spark's one row over nothing
            found = told(run.read("answer"), answer.columns)
            assert found == wanted, f"part {part}: too much {found - wanted}, missing {wanted - found}"
            compared += wanted.total()
    return compared
