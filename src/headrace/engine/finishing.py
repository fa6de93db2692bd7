"""Waiting until the queries of an exact run have processed everything that is in the log.

A query is finished after those upstream of it; queries that do not read each other are finished at the same time. It is
finished when it has read what is in the log, its watermark has come to the newest event, and readers see what it has
written: the next query may be one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import PySparkException

from headrace.engine import offsets
from headrace.engine.query import SupervisedQuery
from headrace.engine.watch import WATCH_S, Watch
from headrace.graph.plan import stages
from headrace.kernel import bridge

VISIBLE_S = 30.0


def finish_input(watch: Watch, written: Mapping[str, Sequence[str]]) -> None:
    """Wait for the queries that are watched; `written` are the topics that each writes, by name. RunError when one has
    failed for good."""

    def finish(running: SupervisedQuery) -> None:
        name = running.query.name
        _process_all(running, watch.check)
        bridge.assume_idle(watch.spark, name, watch.run)
        _process_all(running, watch.check)
        offsets.visible(watch.connection, written[name], seconds=VISIBLE_S)

    by_name = {one.query.name: one for one in watch.running}
    for stage in stages(one.query for one in watch.running):
        with ThreadPoolExecutor(len(stage), "finish") as pool:
            done = [pool.submit(finish, by_name[query.name]) for query in stage]
            for one in done:
                one.result()


def _process_all(running: SupervisedQuery, check: Callable[[], None]) -> None:
    """Wait until a query has processed what is in the log, also when it is started again meanwhile."""
    done = 0
    while done < 2:  # the first answer may come from a look at the log before the call
        check()
        spark = running.spark
        try:
            if spark is not None and spark.isActive:
                spark.processAllAvailable()
                done += spark.isActive
                continue
        except (PySparkException, *bridge.UNANSWERED):
            done = 0  # the watch starts it again, or finds that there is nothing to start it with
        time.sleep(WATCH_S / 10)
