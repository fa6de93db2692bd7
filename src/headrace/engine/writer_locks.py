"""The locks that keep other processes from writing to the checkpoints of a run (checkpoint.py).

Spark's process holds them, because it is the one that writes: they are released when it ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from headrace.engine import checkpoint
from headrace.kernel import bridge


class WriterLocks:
    """Those of one run, by query."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._held: dict[str, str] = {}

    def take(self, app: str, places: Mapping[str, str]) -> None:
        """Take those of these checkpoints, by query; RunError when another process holds one."""
        for query, place in places.items():
            lock = checkpoint.writer(place)
            if lock is None:
                continue
            if not bridge.hold(self._spark, str(lock)):
                raise checkpoint.taken(lock, app, query)
            self._held[query] = str(lock)

    def release(self, query: str) -> None:
        """Release that of a query, if it is held."""
        if query in self._held:
            bridge.release(self._spark, self._held.pop(query))
