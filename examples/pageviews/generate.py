"""Visitors of a site: some pages are seen more than others, some views arrive late.

    python generate.py --rate 200 --for 30s

It sends to the Kafka of the settings beside the app, or to the embedded one of an app that runs. The same seed gives
the same pages, visitors and delays.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from headrace import duration
from headrace.app import load
from headrace.engine import topics
from headrace.errors import HeadraceError
from headrace.graph.plan import plan
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.parts.embedded import Parts
from headrace.settings import Settings

APP = Path(__file__).parent / "app.py"
PAGES = ("/", "/search", "/cart", "/product/lamp", "/product/desk", "/checkout", "/blog", "/about", "/help", "/jobs")
CITIES = ((52.5, 13.4), (48.9, 2.4), (40.7, -74.0), (35.7, 139.7), (-33.9, 151.2), (51.5, -0.1), (19.4, -99.1))


def views(seed: int, run: str) -> Iterator[tuple[dict[str, Any], float]]:
    """Page views without end, each with how many seconds it is late."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    for number in count():
        lat, lon = chance.choice(CITIES)
        late = chance.expovariate(1.0) if chance.random() < 0.1 else 0.0
        view = {
            "id": f"{run}-{number}",
            "visitor": f"visitor{chance.randrange(2000)}@example.com",
            "url": chance.choices(PAGES, [1 / (1 + rank) for rank in range(len(PAGES))])[0],
            "lat": round(lat + chance.gauss(0, 2), 3),
            "lon": round(lon + chance.gauss(0, 2), 3),
        }
        yield view, late


def send(producer: Producer, made: Iterator[tuple[dict[str, Any], float]], rate: float, lasting: float) -> int:
    """Send at this rate for so many seconds; how many were sent."""
    began = time.monotonic()
    sent = 0
    with producer, suppress(KeyboardInterrupt):
        for view, late in made:
            due = began + sent / rate
            if due - began >= lasting:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            producer.send("pageviews", {**view, "at": datetime.now(UTC) - timedelta(seconds=late)}, key=view["url"])
            sent += 1
    return sent


def main() -> None:
    """Send to the Kafka of the settings, or to the embedded one."""
    parser = argparse.ArgumentParser(description="Send page views to the app.")
    parser.add_argument("--rate", type=float, default=200, help="views a second (200)")
    parser.add_argument("--for", dest="lasting", metavar="DURATION", help="end by itself, such as 60s")
    parser.add_argument("--seed", type=int, default=1, help="what the views are made from (1)")
    given = parser.parse_args()
    lasting = math.inf if given.lasting is None else duration.parse(given.lasting) / 1000
    try:
        with Parts.start(Settings.load(APP.parent), report=print) as parts:
            connection = Connection(parts.bootstrap, parts.kafka_options)
            graph = load(APP).graph()
            topic.ensure(connection, topics.needed(graph, plan(graph)))
            sent = send(Producer(connection), views(given.seed, f"{time.time():.0f}"), given.rate, lasting)
    except (HeadraceError, ValueError) as error:
        sys.exit(str(error))
    print(f"{sent:,} page views sent")


if __name__ == "__main__":
    main()
