"""Stream processing for Python teams, on Spark. Every public name is here, and nothing else."""

from headrace.app import App
from headrace.graph.adaptive import adaptive
from headrace.graph.clock_correction import correct_clock
from headrace.graph.connector import debezium, outbox, postgres
from headrace.graph.follow import webhook
from headrace.log.connection import Connection
from headrace.log.consumer import Consumer
from headrace.log.producer import Producer
from headrace.log.queue import Queue
from headrace.log.row import read
from headrace.operators.aggregate import (
    approx_distinct,
    approx_quantile,
    approx_top_k,
    avg,
    collect,
    count,
    count_distinct,
    count_min,
    first,
    last,
    max,  # noqa: A004
    max_by,
    min,  # noqa: A004
    min_by,
    sum,  # noqa: A004
)
from headrace.operators.aggregation import aggregate
from headrace.operators.dedupe import dedupe
from headrace.operators.distinct import distinct
from headrace.operators.event_time import event_time
from headrace.operators.history import history
from headrace.operators.join import join
from headrace.operators.sliding import sliding
from headrace.operators.top import top
from headrace.operators.union import union
from headrace.operators.window import global_, hopping, session, tumbling, window

__all__ = [
    "App",
    "Connection",
    "Consumer",
    "Producer",
    "Queue",
    "adaptive",
    "aggregate",
    "approx_distinct",
    "approx_quantile",
    "approx_top_k",
    "avg",
    "collect",
    "correct_clock",
    "count",
    "count_distinct",
    "count_min",
    "debezium",
    "dedupe",
    "distinct",
    "event_time",
    "first",
    "global_",
    "history",
    "hopping",
    "join",
    "last",
    "max",
    "max_by",
    "min",
    "min_by",
    "outbox",
    "postgres",
    "read",
    "session",
    "sliding",
    "sum",
    "top",
    "tumbling",
    "union",
    "webhook",
    "window",
]
