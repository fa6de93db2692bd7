"""Tables that do not follow their views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import psycopg

from headrace.doctor.finding import Finding, Weight
from headrace.log import topic as topics
from headrace.log.catalogue import View
from headrace.log.connection import Connection

_POSITIONS = "select topic, partition, next_offset, extract(epoch from now() - at)::float from headrace.positions"
QUIET_S = 120.0


def examine(views: Mapping[str, View], url: str | None, connection: Connection) -> Iterator[Finding]:
    """The tables of an app's views; `url` is that of PostgreSQL, or None."""
    if not views:
        return
    names = ", ".join(sorted(views))
    if url is None:
        yield Finding(
            Weight.NOTE,
            names,
            "no PostgreSQL is running, so nothing keeps the tables of the views",
            f"{len(views)} views in the catalogue",
            "`headrace follow app.py` keeps them, and starts the embedded PostgreSQL where there is none",
        )
        return
    try:
        with psycopg.connect(url, connect_timeout=5) as database:
            known = {(topic, partition): (at, age) for topic, partition, at, age in database.execute(_POSITIONS)}
    except psycopg.errors.UndefinedTable:
        known = {}
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0]
        yield Finding(
            Weight.BROKEN, names, "PostgreSQL does not answer", reason, "start it, or correct HEADRACE_POSTGRES"
        )
        return
    for name, view in sorted(views.items()):
        behind, ages = 0, []
        for partition, end in topics.ends(connection, view.topic).items():
            at, age = known.get((view.topic, partition), (0, None))
            behind += max(0, end - at)
            ages += [] if age is None else [age]
        quiet = min(ages, default=None)
        if quiet is None:
            yield Finding(
                Weight.NOTE,
                name,
                "the view has no table yet",
                f"headrace.positions does not know {view.topic}",
                "`headrace follow app.py` makes and keeps it",
            )
        elif behind and quiet > QUIET_S:
            yield Finding(
                Weight.BROKEN,
                name,
                "nobody follows the view",
                f"its table is {behind:,} changes behind, and was last written {quiet:,.0f} s ago",
                "run `headrace follow app.py`; `headrace status` says what a follower that runs is waiting for",
            )
