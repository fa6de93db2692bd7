"""Card payments: each transaction once, and an alert for each that a rule finds suspicious.

headrace dev examples/payments/app.py                 live, with an embedded Kafka
headrace run examples/payments/app.py --mode exact    in micro-batches
headrace run examples/payments/app.py --mode batch    over everything that the log holds, once
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headrace as hr

app = hr.App("payments")

transactions = app.source(
    "transactions",
    schema="""
        id string,
        card string NOT NULL,
        amount double NOT NULL,
        merchant string,
        country string NOT NULL,
        home string NOT NULL,
        at timestamp
    """,
    event_time="at",
    delay="5 seconds",
    id="id",
    key="card",
)


@app.stream
def unique(transactions: DataFrame) -> DataFrame:
    """Terminals send again what was not acknowledged in time."""
    return hr.dedupe(transactions, by="id", within="10 minutes")


@app.stream(key="card")
def alerts(unique: DataFrame) -> DataFrame:
    """One alert a suspicious transaction, with the first rule that it breaks."""
    large = F.col("amount") >= 2000
    abroad = (F.col("country") != F.col("home")) & (F.col("amount") >= 500)
    rule = F.when(large, "large amount").when(abroad, "abroad")
    return unique.withColumn("rule", rule).where("rule is not null")
