"""Stream processing for Python teams, on Spark. Every public name is here, and nothing else.

A name is loaded when it is first used: PySpark and what belongs to it take longer to load than some commands take.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.app import App
    from headrace.compiler.operators import (
        aggregate,
        dedupe,
        distinct,
        event_time,
        history,
        join,
        sliding,
        sql,
        top,
        union,
        window,
    )
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
    from headrace.operators.window import global_, hopping, session, tumbling

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
    "sql",
    "sum",
    "top",
    "tumbling",
    "union",
    "webhook",
    "window",
]

_PLACES = {
    "headrace.app": ("App",),
    "headrace.compiler.operators": (
        "aggregate",
        "dedupe",
        "distinct",
        "event_time",
        "history",
        "join",
        "sliding",
        "sql",
        "top",
        "union",
        "window",
    ),
    "headrace.graph.adaptive": ("adaptive",),
    "headrace.graph.clock_correction": ("correct_clock",),
    "headrace.graph.connector": (
        "debezium",
        "outbox",
        "postgres",
    ),
    "headrace.graph.follow": ("webhook",),
    "headrace.log.connection": ("Connection",),
    "headrace.log.consumer": ("Consumer",),
    "headrace.log.producer": ("Producer",),
    "headrace.log.queue": ("Queue",),
    "headrace.log.row": ("read",),
    "headrace.operators.aggregate": (
        "approx_distinct",
        "approx_quantile",
        "approx_top_k",
        "avg",
        "collect",
        "count",
        "count_distinct",
        "count_min",
        "first",
        "last",
        "max",
        "max_by",
        "min",
        "min_by",
        "sum",
    ),
    "headrace.operators.window": (
        "global_",
        "hopping",
        "session",
        "tumbling",
    ),
}
_PLACE = {name: place for place, names in _PLACES.items() for name in names}


if not TYPE_CHECKING:  # to a checker a module with a __getattr__ has every name, a misspelt one too

    def __getattr__(name: str) -> Any:
        if name not in _PLACE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_PLACE[name]), name)
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
