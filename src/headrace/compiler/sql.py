"""`sql`: a SQL query over DataFrames of an app, kept up to date.

    hr.sql("SELECT customer, count(*) AS n FROM orders GROUP BY customer HAVING count(*) > 10", orders=orders)

**Meaning.** What the query means in batch, over all rows that its inputs have: a stream is a table that only grows, and
what it has told is corrected when a row of any input comes, changes or goes. A name in `FROM` is an input, or a common
table expression of the query. In batch it is Spark's own answer.

**Result.** A table, with a column `change`; a stream where the inputs are streams and each row is treated for itself.

**Refused.** What cannot be kept up to date (HR-061), and the clock and chance where rows may go (HR-060).

**State.** That of the operators that the query becomes: joins keep the rows of both sides, groups their aggregates, for
ever.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headrace.call import calling
from headrace.compiler.translation import Translation
from headrace.errors import DeclarationError
from headrace.kernel import bridge
from headrace.names import CHANGE
from headrace.operators import sign, table
from headrace.operators.given import given


def sql(query: str, /, **inputs: DataFrame) -> DataFrame:
    """The rows that a SQL query asks for, over inputs by name."""
    if not isinstance(query, str) or not query.strip():
        raise DeclarationError(
            "HR-061", "`sql` was not given a query.", where=calling().where, found=repr(query),
            fix='write the text first, such as `hr.sql("SELECT … FROM orders", orders=orders)`',
        )  # fmt: skip
    if not inputs:
        raise DeclarationError(
            "HR-061", "`sql` was given no inputs.", where=calling().where, found=query.strip().splitlines()[0],
            fix="name the DataFrames that the query reads, such as `orders=orders`",
        )  # fmt: skip
    given("sql", *inputs.values())
    spark = next(iter(inputs.values())).sparkSession
    holders = {name: bridge.placeholder(spark, name, _columns(rows), streaming=False) for name, rows in inputs.items()}
    translation = Translation(bridge.UserPlan(bridge.query(spark, query, holders)), inputs)
    if any(rows.isStreaming for rows in inputs.values()):
        return translation.result()
    there = {name: table.held(rows) if sign.is_table(rows) else rows for name, rows in inputs.items()}
    rows = bridge.query(spark, query, there)
    return rows.withColumn(CHANGE, F.lit("+")) if translation.is_table else rows


def _columns(rows: DataFrame) -> StructType:
    return rows.drop(CHANGE).schema if sign.is_table(rows) else rows.schema
