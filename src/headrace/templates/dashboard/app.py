"""Visits of pages, counted by page and minute, on a dashboard that moves."""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("APP_NAME")

visits = app.source(
    "visits",
    schema="id string, visitor string NOT NULL, page string NOT NULL, at timestamp",
    event_time="at",
    delay="5 seconds",
    id="id",
    key="page",
    secret=["visitor"],
)


@app.view(key=["page", "window_start"])
def visits_per_minute(visits: DataFrame) -> DataFrame:
    """How often each page was seen in each minute; told on every visit, and corrected for ten minutes."""
    return hr.window(visits, hr.tumbling("1 minute"), by="page", visits=hr.count(), lateness="10 minutes", emit="early")


traffic = app.dashboard("traffic", title="Live traffic")
traffic.number(visits_per_minute, value="visits", title="Visits")
traffic.number(visits_per_minute, value="visits", title="Best minute of a page", combine="max")
traffic.line(visits_per_minute, x="window_start", y="visits", title="Visits per minute", n=60)
traffic.top(visits_per_minute, label="page", value="visits", n=10, title="Top pages")
