"""Everybody's timeline: posts joined with who follows whom. An unfollow removes rows, an edit changes them everywhere.

headrace dev examples/timelines/app.py             live, with an embedded Kafka and the console
"""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("timelines")

posts = app.table("posts", schema="post string, author string, text string, at timestamp", key="post")
follows = app.table("follows", schema="follower string, author string", key=["follower", "author"])


@app.view(key=["follower", "post"])
def timelines(follows: DataFrame, posts: DataFrame) -> DataFrame:
    """What each follower sees: a row for every post of every author that they follow now."""
    return hr.join(follows, posts, on="author")


@app.view(key="author")
def reach(follows: DataFrame) -> DataFrame:
    """How many follow each author."""
    return hr.aggregate(follows, by="author", followers=hr.count())
