"""Orders as they come in; each large one is told of, once, however often it was sent."""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("APP_NAME")

orders = app.source(
    "orders",
    schema="""
        id string,
        customer string NOT NULL,
        product string NOT NULL,
        amount double NOT NULL,
        at timestamp
    """,
    event_time="at",
    delay="5 seconds",
    id="id",
    key="customer",
)


@app.stream
def unique(orders: DataFrame) -> DataFrame:
    """A checkout sends again what was not acknowledged in time."""
    return hr.dedupe(orders, by="id", within="10 minutes")


@app.stream(key="customer")
def large_orders(unique: DataFrame) -> DataFrame:
    """What somebody should look at."""
    return unique.where("amount >= 500")
