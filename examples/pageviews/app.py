"""Page views per minute and the pages that are seen most, as views and as a dashboard that moves.

headrace dev examples/pageviews/app.py                           live, with an embedded Kafka and the console
python examples/pageviews/generate.py --rate 200 --for 10m       in another terminal: visitors
"""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("pageviews")

pageviews = app.source(
    "pageviews",
    schema="id string, visitor string, url string NOT NULL, lat double, lon double, at timestamp",
    event_time="at",
    delay="5 seconds",
    id="id",
    key="url",
    secret=["visitor"],
)


@app.view(key=["url", "window_start"])
def views_per_minute(pageviews: DataFrame) -> DataFrame:
    """How often each page was seen in each minute, told on every view and corrected for ten minutes."""
    return hr.window(
        pageviews, hr.tumbling("1 minute"), by="url", views=hr.count(), lateness="10 minutes", emit="early"
    )


@app.view(key="id")
def visits(pageviews: DataFrame) -> DataFrame:
    """Where the views come from."""
    return pageviews.select("id", "lat", "lon", "at")


traffic = app.dashboard("traffic", title="Live traffic")
traffic.number(views_per_minute, value="views", title="Page views")
traffic.number(views_per_minute, value="views", title="Best minute of a page", combine="max")
traffic.line(views_per_minute, x="window_start", y="views", title="Page views per minute", n=60)
traffic.top(views_per_minute, label="url", value="views", n=10, title="Top URLs")
traffic.points(visits, lat="lat", lon="lon", title="Where from")
