"""The right answer: the declared functions called with static DataFrames of all events.

The events go through the same strict decoding as in a run; what does not fit is left out. The answer has the shape that
`Driver.read` gives: one dictionary a row, with the values as they stand in the log. That of a view has the rows of the
table, which `Driver.view` gives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.app import App
from headrace.compiler.function import called
from headrace.engine import views
from headrace.graph.node import Source
from headrace.kernel import bridge
from headrace.log import codec
from headrace.operators import table
from headrace.operators.event_time import EventTime, mark
from headrace.testing.change import Delete, Event, Put, row

_RECORDS = (
    "value binary, key binary, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key: string, value: binary>>"
)


def oracle(app: App, name: str, events: Mapping[str, Sequence[Event]], spark: SparkSession) -> list[dict[str, Any]]:
    """The batch answer of the node `name` for these events of the sources."""
    graph = app.graph()

    def frame(wanted: str) -> DataFrame:
        node = graph.node(wanted)
        if isinstance(node, Source):
            return _static(node, events.get(wanted, ()), spark)
        return called(node.function, [given(read) for read in node.inputs])

    def given(wanted: str) -> DataFrame:
        node, rows = graph.node(wanted), frame(wanted)
        return table.of_view(rows, node.key) if node.kind == "view" else rows

    rows = frame(name)
    if graph.node(name).kind == "view":
        rows = rows.select(*views.columns(rows.schema).fieldNames())
    return [json.loads(row.value) for row in bridge.encode(rows, ()).collect()]


def _static(source: Source, events: Sequence[Event], spark: SparkSession) -> DataFrame:
    if source.schema is None:
        raise ValueError(f"`{source.name}` is captured from a database and has no schema here")
    now = datetime.now(UTC)
    if source.kind == "table":
        return _table(source, source.schema.ddl, events, spark)
    given = (event for event in events if not isinstance(event, Delete | Put))
    values = (event if isinstance(event, bytes) else codec.encode(event) for event in given)
    records = [(bytearray(value), None, 0, offset, now, None) for offset, value in enumerate(values)]
    rows = bridge.decode(
        spark.createDataFrame(records, _RECORDS),
        query="oracle",
        topic=source.topic,
        dead_topic="",
        ddl=source.schema.ddl,
        event_time=source.event_time,
        future_ms=-1,
        kafka=None,
        epoch_us=source.epoch_us,
        sent=source.sent,
        received=source.received,
    )
    time = EventTime(source.event_time, source.delay_ms, source.idle_ms) if source.event_time else None
    return mark(rows, time) if time else rows


def _table(source: Source, ddl: str, events: Sequence[Event], spark: SparkSession) -> DataFrame:
    now = datetime.now(UTC)
    records = [
        (None if value is None else bytearray(value), bytearray(key), 0, offset, now, None)
        for offset, (key, value) in enumerate(row(source, event) for event in events)
    ]

    def changes(time: str | None) -> DataFrame:
        return bridge.changes(
            spark.createDataFrame(records, _RECORDS),
            query="oracle",
            topic=source.topic,
            dead_topic="",
            ddl=ddl,
            key=source.key,
            envelope=source.connector is not None,
            epoch_us=source.epoch_us,
            sign=table.SIGN,
            offset=table.OFFSET,
            kafka=None,
            time=time,
        )

    return table.of_records(changes, source.key)
