"""The three ways to run one declaration.

- `live`: Spark's real-time mode. Answers in milliseconds, at least once; a row that is written again after a crash is
  the same row.
- `exact`: micro-batches. Every batch is a recorded range of offsets that is run again as it was after a crash.
- `batch`: over all of history, once, then it ends.
"""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    LIVE = "live"
    EXACT = "exact"
    BATCH = "batch"
