"""How an app is doing, for Prometheus: what its processes have written about themselves, and how far its topics are.

Nothing is counted here: every number is what the observer has gathered (observation/), so any number of servers give
the same numbers. Only the count of refused requests is of the one server. Counts are of the run that wrote them and
begin again with the next one, as Prometheus expects of a counter. `docs/reference/metrics.md` lists the names.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.responses import Response

from headrace.serve.head import Heads
from headrace.serve.observation.history import History, seconds
from headrace.serve.observation.observer import Observer

_QUERY = ("app", "query", "mode")
COUNTERS = {
    "headrace_query_rows": ("rows_in", "Rows read in this run."),
    "headrace_query_rows_out": ("rows_out", "Records written in this run."),
    "headrace_query_dead": ("dead", "Records that became dead letters in this run."),
    "headrace_query_late": ("late", "Rows that came after their window was closed, in this run."),
    "headrace_query_repeats": ("repeats", "Repeated events that were taken out, in this run."),
}
GAUGES = {
    "headrace_query_rows_per_second": ("rows_per_second", "Rows read a second."),
    "headrace_query_rows_out_per_second": ("rows_out_per_second", "Records written a second."),
    "headrace_query_batch": ("batch", "The number of the last batch that ended; -1 before the first."),
    "headrace_query_state_rows": ("state_rows", "Rows in Spark's state stores."),
    "headrace_query_state_bytes": ("state_bytes", "Bytes of Spark's state stores in memory."),
}
TIMES = {
    "headrace_query_watermark_seconds": ("watermark", "The watermark, in seconds since 1970."),
    "headrace_query_event_time_seconds": ("event_time", "The newest event time seen, in seconds since 1970."),
}


class Metrics:
    """The metrics of one app."""

    def __init__(self, observer: Observer, heads: Heads) -> None:
        self._observer = observer
        self._heads = heads
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def answer(self) -> Response:
        """All of them, as text."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    def collect(self) -> Iterator[Metric]:
        """Asked by the registry."""
        queries = dict(self._observer.histories)
        yield from self._queries(queries)
        yield from self._states(queries)
        yield from self._log()
        for name, text, count in (
            ("headrace_http_late_heads", "Requests whose head did not come in time.", self._heads.late),
            ("headrace_http_ambiguous_heads", "Requests with two lengths of the body.", self._heads.ambiguous),
        ):
            refused = CounterMetricFamily(name, text, labels=("app",))
            refused.add_metric([self._observer.graph.app], count)
            yield refused

    def _queries(self, queries: dict[str, History]) -> Iterator[Metric]:
        for name, (field, text) in COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=_QUERY)
            for query, one in queries.items():
                counter.add_metric(self._labels(query, one), getattr(one.last, field))
            yield counter
        for name, (field, text) in GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=_QUERY)
            for query, one in queries.items():
                if (value := getattr(one.last, field)) is not None:
                    gauge.add_metric(self._labels(query, one), value)
            yield gauge
        for name, (field, text) in TIMES.items():
            gauge = GaugeMetricFamily(name, text, labels=_QUERY)
            for query, one in queries.items():
                if (at := seconds(getattr(one.last, field))) is not None:
                    gauge.add_metric(self._labels(query, one), at)
            yield gauge
        took = GaugeMetricFamily("headrace_query_batch_seconds", "How long the last batch took.", labels=_QUERY)
        for query, one in queries.items():
            if one.last.batch_ms is not None:
                took.add_metric(self._labels(query, one), one.last.batch_ms / 1000)
        yield took

    def _states(self, queries: dict[str, History]) -> Iterator[Metric]:
        up = GaugeMetricFamily("headrace_query_up", "1 while it runs and its log answers, else 0.", labels=_QUERY)
        lag = GaugeMetricFamily("headrace_query_lag", "Records not read yet.", labels=(*_QUERY, "source"))
        keys = GaugeMetricFamily("headrace_operator_keys", "Keys that it remembers.", labels=(*_QUERY, "operator"))
        size = GaugeMetricFamily("headrace_operator_bytes", "Bytes that it remembers.", labels=(*_QUERY, "operator"))
        latency = GaugeMetricFamily(
            "headrace_query_latency_seconds",
            "From the record that was read to its result in the log, of the last ten seconds.",
            labels=(*_QUERY, "quantile"),
        )
        for query, one in queries.items():
            labels = self._labels(query, one)
            up.add_metric(labels, float(self._observer.summary(query, one).is_up))
            for source, records in one.last.lag.items():
                lag.add_metric([*labels, source], records)
            for operator, held in one.last.operators.items():
                keys.add_metric([*labels, operator], held["keys"])
                size.add_metric([*labels, operator], held["bytes"])
            for quantile, milliseconds in (("0.5", one.last.latency_p50_ms), ("0.99", one.last.latency_p99_ms)):
                if milliseconds is not None:
                    latency.add_metric([*labels, quantile], milliseconds / 1000)
        yield from (up, lag, keys, size, latency)

    def _log(self) -> Iterator[Metric]:
        topics = self._observer.topics
        answers = GaugeMetricFamily("headrace_log_up", "1 while Kafka answers, else 0.", labels=("app",))
        answers.add_metric([self._observer.graph.app], float(topics.away is None and topics.looked is not None))
        yield answers
        ends = CounterMetricFamily(
            "headrace_topic_offset", "The end of a partition.", labels=("app", "topic", "partition")
        )
        for topic, growth in sorted(topics.growth.items()):
            for partition, end in sorted(growth.ends.items()):
                ends.add_metric([self._observer.graph.app, topic, str(partition)], end)
        yield ends

    def _labels(self, name: str, query: History) -> list[str]:
        return [self._observer.graph.app, name, query.last.mode]
