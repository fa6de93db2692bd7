"""From a planned query to DataFrames: read, decode, call the declared functions.

A topic is read anew for every use, because real-time mode does not take one source twice. What a function returns is
checked here, so that a mistake is shown at the function's own line and not inside Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace import names
from headrace.compiler.function import called
from headrace.engine import refusal, udf_types, views
from headrace.engine.mode import Mode
from headrace.errors import DeclarationError, HeadraceError, RunError
from headrace.graph.graph import Graph
from headrace.graph.node import Derived, Node, Source
from headrace.graph.plan import Query
from headrace.kernel import bridge
from headrace.log.connection import Connection
from headrace.log.schema import Schema
from headrace.operators import sign, table
from headrace.operators.columns import quoted
from headrace.operators.event_time import EventTime, mark, marked
from headrace.operators.keys import is_key
from headrace.operators.upserts import to_upserts

NO_BOUND = -1
MOST_RECORDS_A_BATCH = 1_000_000
# A batch knows what is there to be read. Kafka's consumer asks for more while it gives the last records, and what Spark
# then asks on the same connection, where the partition ends, has to wait for that answer.
_FETCHES = {
    "kafka.max.poll.records": "5000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.wait.ms": "5",
}


@dataclass
class Frames:
    """Builds the frames of one run, which `run` names. `schemas` remembers what each written node holds.

    `starts` are the offsets at which a query without a checkpoint begins, by topic and as Spark takes them; topics that
    it does not name are read from their beginning. `columns` are those of tables that leave them to the database, by
    query and table.
    """

    spark: SparkSession
    graph: Graph
    mode: Mode
    connection: Connection
    run: str = ""
    schemas: dict[str, StructType] = field(default_factory=dict)
    starts: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, Schema]] = field(default_factory=dict)

    def result(self, query: Query, *, identified: bool = False) -> tuple[DataFrame, bridge.Build]:
        """The rows of a query, and its operators. Rows carry their ids in live mode, and where they have to be
        `identified`."""
        late_topic = names.late_topic(query.node.topic)
        live, view = self.mode is Mode.LIVE, query.node.kind == "view"
        build = bridge.Build(query.name, late_topic, self.connection.spark(), live=live, view=view, run=self.run)
        build.identified = identified
        if self.mode is Mode.EXACT:
            build.sink = names.sink(self.graph.app, query.name)
        with bridge.building(build):
            rows = self._call(query, query.node)
        self.schemas[query.node.name] = rows.schema
        return rows, build

    def records(self, query: Query, written: bridge.Written | None = None) -> tuple[DataFrame, bridge.Build]:
        """The rows of a query as records for its topic, without those that are `written`, and the operators that it
        has."""
        rows, build = self.result(query, identified=written is not None)
        if build.view:
            with bridge.building(build):
                rows = to_upserts(rows, query.node.key, query.node.where)
            return bridge.encode_view(rows, query.node.key, views.columns(rows.schema).names, build), build
        sign.refuse_moving(rows, f"The result of `{query.node.name}`", query.node.where)
        written = None if sign.is_table(rows) else written
        return bridge.encode(rows, query.node.key, query.node.partitions, build, written), build

    def _call(self, query: Query, node: Derived) -> DataFrame:
        arguments = [self._input(query, self.graph.node(name)) for name in node.inputs]
        try:
            with refusal.quiet(), udf_types.checked():
                rows = called(node.function, arguments)
        except DeclarationError as error:
            if error.where is not None:
                raise
            raise DeclarationError(error.code, error.what, where=node.where, found=error.found, fix=error.fix) from None
        except HeadraceError:
            raise
        except (Exception, SystemExit) as error:
            given = {name: rows.columns for name, rows in zip(node.inputs, arguments, strict=True)}
            raise refusal.of_call(error, node, given) from error
        self._check(node, rows)
        return rows

    def _check(self, node: Derived, rows: object) -> None:
        if not isinstance(rows, DataFrame):
            raise RunError(
                "HR-303",
                f"The function `{node.name}` must return a DataFrame.",
                where=node.where,
                found=type(rows).__name__,
                fix="return the DataFrame that holds the result",
            )
        sign.refuse_lost(rows, f"The result of `{node.name}`", node.where)
        if rows.isStreaming:
            try:
                with refusal.quiet():
                    bridge.check_streaming(rows)
            except PySparkException as error:
                raise refusal.of_plan(error, node) from error
        prefix = names.COLUMN_PREFIX
        inexact = [f.name for f in rows.schema.fields if f.name in node.key and not is_key(f.dataType)]
        for problem, columns in (
            ("has two columns of one name", sorted({c for c in rows.columns if rows.columns.count(c) > 1})),
            ("lacks columns of its key", [c for c in node.key if c not in rows.columns]),
            ("has columns in its key that are not of exact, plain types", inexact if node.kind == "view" else []),
            (f"has columns that begin with {prefix}", [c for c in rows.columns if c.startswith(prefix)]),
        ):
            if columns:
                raise RunError(
                    "HR-303",
                    f"The result of `{node.name}` {problem}: {', '.join(columns)}.",
                    where=node.where,
                    found=", ".join(rows.columns),
                    fix="select, rename or cast the columns in the function",
                )

    def _input(self, query: Query, node: Node) -> DataFrame:
        if isinstance(node, Derived) and (self.mode is Mode.BATCH or node.name not in query.reads):
            rows = self._call(query, node)
            return table.of_view(rows, node.key) if node.kind == "view" else rows
        if isinstance(node, Derived) and node.kind == "view":
            return self._table(query, node, views.columns(self.schemas[node.name]).toDDL())
        if isinstance(node, Derived):
            schema = self.schemas[node.name]
            time = marked(schema)
            return self._read(query, node, schema.toDDL(), time)
        schema = node.schema or self.columns[query.name][node.name]
        if node.kind == "table":
            return self._table(query, node, schema.ddl)
        time = None
        if node.event_time:
            time = EventTime(node.event_time, node.delay_ms, node.idle_ms, node.delay_share, node.delay_least_ms)
        return self._read(query, node, schema.ddl, time)

    def _records(self, topic: str) -> DataFrame:
        """The committed records of a topic, from the beginning."""
        reader = (self.spark.read if self.mode is Mode.BATCH else self.spark.readStream).format("kafka")
        options: Mapping[str, str] = {
            **self.connection.spark(),
            "kafka.isolation.level": "read_committed",
            "subscribe": topic,
            "startingOffsets": self.starts.get(topic, "earliest"),
            "includeHeaders": "true",
        }
        if self.mode is Mode.EXACT:
            options = {**options, **_FETCHES, "maxOffsetsPerTrigger": str(MOST_RECORDS_A_BATCH)}
        return reader.options(**options).load()

    def _table(self, query: Query, node: Node, ddl: str) -> DataFrame:
        """The changes of a table, captured or not, or of a view."""

        def records(time: str | None) -> DataFrame:
            return bridge.changes(
                self._records(node.topic),
                query=query.name,
                topic=node.topic,
                dead_topic=names.dead_topic(node.topic),
                ddl=ddl,
                key=node.key,
                envelope=isinstance(node, Source) and node.connector is not None,
                epoch_us=node.epoch_us if isinstance(node, Source) else 0,
                sign=table.SIGN,
                offset=table.OFFSET,
                kafka=self.connection.spark(),
                time=time,
            )

        return table.of_records(records, node.key)

    def _read(self, query: Query, node: Node, ddl: str, time: EventTime | None) -> DataFrame:
        batch = self.mode is Mode.BATCH
        topic = node.topic
        future_ms = node.future_ms if isinstance(node, Source) else NO_BOUND
        clock = None
        if time is not None and not batch:
            clock = bridge.clock(
                self.spark,
                query.name,
                partitions=node.partitions,
                idle_ms=time.idle_ms,
                delay_ms=time.delay_ms,
                share=time.share,
                least_ms=time.least_ms,
            )
        rows = bridge.decode(
            self._records(topic),
            query=query.name,
            topic=topic,
            dead_topic=names.dead_topic(topic),
            ddl=ddl,
            event_time=time.column if time else None,
            future_ms=future_ms,
            kafka=self.connection.spark(),
            clock=clock,
            epoch_us=node.epoch_us if isinstance(node, Source) else 0,
            sent=node.sent if isinstance(node, Source) else None,
            received=node.received if isinstance(node, Source) else None,
        )
        if time is None:
            return rows
        rows = mark(rows, time)
        return rows if clock is None else bridge.follow(rows, quoted(time.column), clock)
