"""`distinct`: each row once.

    hr.distinct(orders.select("customer", "product", "change"))
    hr.distinct(orders, by=["customer", "product"])

**Meaning.** The different rows of a table or stream, or with `by` the different values of these columns; nulls are
equal to each other. A row is there while the input has it at least once, and goes with the last of its kind.

**Result.** A table of changes with these columns and `change`; all its columns together tell its rows apart.

**Convergence.** The rows put there and not taken back are the different rows that the input has.

**State.** Each different row, and how often it is there.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from headrace.operators import sign
from headrace.operators.aggregation import grouped
from headrace.operators.given import given
from headrace.operators.keys import key_columns


def distinct(rows: DataFrame, /, *, by: str | Sequence[str] | None = None) -> DataFrame:
    """The different rows, or the different values of the columns of `by`, as a table."""
    given("distinct", rows)
    sign.refuse_other(rows, "distinct")
    by = sign.columns(rows) if by is None else by
    names = key_columns(rows, by, "distinct", empty=False, use="tell rows apart by")
    return grouped(rows, rows, names, [], "distinct")
