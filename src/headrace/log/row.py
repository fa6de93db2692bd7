"""The rows of a topic: its records decoded, each result once.

Repeats of the live mode are dropped (see distinct). A record without a value is a deletion and no row, and is left out:
a view's topic is followed with a `Consumer`, or served. A value that is not a JSON object is an error, never left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from headrace.errors import LogError
from headrace.log import consumer
from headrace.log.connection import Connection
from headrace.log.consumer import BEGINNING, Record, Start
from headrace.log.distinct import WITHIN, distinct


def read(
    connection: Connection,
    topic: str,
    *,
    start: Start = BEGINNING,
    follow: bool = False,
    limit: int | None = None,
    within: int = WITHIN,
) -> Iterator[dict[str, Any]]:
    """The rows of a topic from `start` to its end as of this call, or for ever with `follow`; at most `limit`.

    Repeats are recognised among the last `within` records of a partition.
    """
    records = distinct(consumer.read(connection, topic, start=start, follow=follow), within)
    return islice((_row(record) for record in records if record.value is not None), limit)


def _row(record: Record) -> dict[str, Any]:
    try:
        row = json.loads(record.value or b"")
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise LogError(
            "HR-238",
            f"The record at {record.position} is not a row: its value is not a JSON object",
            found=(record.value or b"")[:200].decode("utf-8", "backslashreplace"),
            fix="read this topic with headrace.log.consumer.read, which gives records as they are",
        )
    return row
