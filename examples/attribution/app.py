"""Which ad led to a click, and which searches led to none: two streams joined by key and by time.

headrace dev examples/attribution/app.py           live, with an embedded Kafka and the console
"""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("attribution")

impressions = app.source(
    "impressions",
    schema="impression string, visitor string, ad string, shown timestamp",
    event_time="shown",
    delay="10 seconds",
    id="impression",
)
clicks = app.source(
    "clicks",
    schema="click string, visitor string, ad string, search string, clicked timestamp",
    event_time="clicked",
    delay="10 seconds",
    id="click",
)
searches = app.source(
    "searches",
    schema="search string, words string, searched timestamp",
    event_time="searched",
    delay="10 seconds",
    id="search",
)


@app.stream(key="ad")
def attributed(clicks: DataFrame, impressions: DataFrame) -> DataFrame:
    """Each click with the impressions of the same ad that its visitor saw in the half hour before."""
    return hr.join(clicks, impressions, on=["visitor", "ad"], within=("-30 minutes", "0"))


@app.view(key="ad")
def clicks_per_ad(attributed: DataFrame) -> DataFrame:
    """How many clicks each ad is credited with, and how many impressions led to them."""
    return hr.window(
        attributed,
        hr.global_(every=1),
        by="ad",
        at="clicked",
        clicks=hr.count_distinct("click"),
        impressions=hr.count_distinct("impression"),
    )


@app.stream(key="search")
def unanswered(searches: DataFrame, clicks: DataFrame) -> DataFrame:
    """Searches after which nobody clicked within ten minutes."""
    clicked = clicks.select("search", "click", "clicked").where("search IS NOT NULL")
    tried = hr.join(searches, clicked, on="search", within=("0", "10 minutes"), how="left")
    return tried.where("click IS NULL").select("search", "words", "searched")
