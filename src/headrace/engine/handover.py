"""Ends a batch that an exact run has left in the middle, in exact mode, before its query goes live.

Tasks of such a batch may have written to the log, each with a record by which the same batch, run again as it was
planned, skips them. Live mode would drop the plan and read the same records again, and their results would be written
twice. So the query runs in exact mode once more, until it has processed what is in the log. It then stands at the end
of a batch, where the mode may change.

**A crash** meanwhile leaves a batch in the middle as before, and the next start ends it.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection

from headrace.engine import checkpoint
from headrace.engine.frames import Frames
from headrace.engine.mode import Mode
from headrace.engine.query import write
from headrace.graph.plan import Query
from headrace.kernel import bridge

LOOK_S = 1


def is_due(place: str) -> bool:
    """Whether the last start was an exact one, and has left a batch in the middle."""
    directory = checkpoint.local(place)
    if directory is None or checkpoint.live_since(place) is not None:
        return False
    begun, ended = (checkpoint.batches(directory / log) for log in checkpoint.LOGS)
    return bool(begun) and begun[-1] not in ended


def end(frames: Frames, query: Query, place: str, ids: Collection[str]) -> None:
    """Run the query in exact mode until it has processed what is in the log, without the rows that have these ids;
    Spark's exception when it fails. `frames` are those of the run that is to be live."""
    spark, exact = frames.spark, dataclasses.replace(frames, mode=Mode.EXACT, run=uuid.uuid4().hex)
    written = bridge.written(spark) if ids else None
    try:
        records, build = exact.records(query, written)
        if written is not None:
            bridge.leave_out(spark, written, ids)
        kafka = frames.connection.spark()
        running = write(records, query, build, mode=Mode.EXACT, checkpoint=place, kafka=kafka, to_the_end=True)
        while not running.awaitTermination(LOOK_S):
            pass
    finally:
        bridge.close(spark, exact.run)
        bridge.forget(spark, query.name, exact.run)
