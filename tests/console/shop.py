"""A shop, for the tests of the console: two inputs and a captured table, steps, streams, views, a webhook, charts.

The tests write what the app's processes would write; the functions are never run.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("shop")

clicks = app.stream(
    "clicks",
    schema="id string, user string, url string, seconds double, at timestamp",
    event_time="at",
    delay="5 seconds",
    id="id",
    secret="user",
    partitions=4,
)
orders = app.stream(
    "orders",
    schema="id string, user string, amount double, lat double, lon double, at timestamp",
    event_time="at",
    delay="2 seconds",
    id="id",
    secret="user",
)
customers = app.table("customers", hr.postgres("public.customers"), key="user", secret="email")


@app.stream
def visits(clicks: DataFrame) -> DataFrame:
    """Each click once."""
    return hr.dedupe(clicks, by="id", within="10 minutes")


@app.view(key=["url", "window_start"])
def views_per_minute(visits: DataFrame) -> DataFrame:
    """How often each page was seen, minute by minute."""
    return hr.window(visits, hr.tumbling("1 minute"), by="url", views=hr.count())


@app.stream
def long_visits(visits: DataFrame) -> DataFrame:
    """Those who stayed."""
    return visits.where("seconds > 60")


@app.stream
def large_orders(orders: DataFrame, customers: DataFrame) -> DataFrame:
    """Orders that somebody should look at."""
    return orders.where("amount >= 500")


@app.view(key="id")
def order_map(orders: DataFrame) -> DataFrame:
    """Where orders come from."""
    return orders


app.follow(large_orders, hr.webhook("https://example.com/large-orders", name="sales"))

traffic = app.dashboard("traffic", title="Live traffic")
traffic.number(views_per_minute, value="views", title="Page views")
traffic.number(views_per_minute, value="url", title="Rows", combine="count")
traffic.number(order_map, value="amount", title="Revenue")
traffic.number(order_map, value="amount", title="Largest order", combine="max")
traffic.line(views_per_minute, x="window_start", y="views", title="Page views per minute")
traffic.top(views_per_minute, label="url", value="views", title="Top pages")
traffic.points(order_map, lat="lat", lon="lon", label="id", value="amount", title="Orders on the map")
traffic.bar(views_per_minute, x="url", y="views", title="Views by page", width="wide")
