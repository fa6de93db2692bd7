"""An app as its processes leave it, without running them: topics with records, progress files, a catalogue.

Everything is written by the product's own functions, in the form in which the engine and the followers write it.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from headrace import names
from headrace.app import load
from headrace.engine import progress, topics
from headrace.engine.progress import Progress
from headrace.errors import LogError
from headrace.graph.plan import plan
from headrace.log import catalogue, dead
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure
from headrace.settings import Settings

SHOP = Path(__file__).parent / "shop.py"
PAGES = ("/", "/cart", "/checkout", "/search", "/product/lamp", "/product/desk", "/product/chair", "/about", "/help")
CITIES = (
    (52.5, 13.4), (48.9, 2.35), (40.7, -74.0), (35.7, 139.7), (-33.9, 151.2), (51.5, -0.13), (19.4, -99.1),
    (37.8, -122.4), (-23.6, -46.6), (28.6, 77.2), (1.3, 103.8), (-1.3, 36.8), (30.0, 31.2), (59.9, 30.3), (43.7, -79.4),
)  # fmt: skip
SCHEMAS = {
    "views_per_minute": "url string NOT NULL, window_start timestamp NOT NULL, views bigint NOT NULL",
    "order_map": "id string NOT NULL, amount double, lat double, lon double, at timestamp",
}


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Stage:
    """The shop in a directory of its own, on a Kafka."""

    def __init__(self, directory: Path, connection: Connection, app: Path = SHOP) -> None:
        self.directory = directory
        self.file = directory / "app.py"
        self.file.write_text(app.read_text(encoding="utf-8"), encoding="utf-8")
        self.settings = Settings.load(directory)
        self.connection = connection
        self.graph = load(self.file).graph()
        self.queries = plan(self.graph)
        self.random = random.Random(7)
        self.producer = Producer(connection, linger_ms=0)
        self.counts: dict[str, int] = {}
        self.started = time.time()
        self._number = 0
        ensure(connection, topics.needed(self.graph, self.queries))
        ensure(connection, [Topic("customers", 2, compacted=True)])
        views = [query for query in self.queries if query.node.kind == "view"]
        catalogue.publish(
            connection,
            *(
                View(self.graph.app, one.name, one.node.topic, SCHEMAS[one.name], one.node.key)
                for one in views
                if one.name in SCHEMAS
            ),
        )

    def send(self, topic: str, row: Mapping[str, Any] | None, key: str) -> None:
        self.producer.send(topic, None if row is None else json.dumps(row), key=key)

    def flow(self, events: int = 20) -> None:
        """A moment of traffic: clicks and orders, and what the queries make of them."""
        now = datetime.now(UTC)
        minute = now.replace(second=0, microsecond=0)
        for _ in range(events):
            self._number += 1
            late = self.random.expovariate(1 / 0.8) if self.random.random() < 0.3 else 0.0
            row = {
                "id": f"c{self._number}",
                "user": f"anna{self._number % 40}@example.com",
                "url": self.random.choices(PAGES, range(len(PAGES), 0, -1))[0],
                "seconds": round(self.random.expovariate(1 / 20), 1),
                "at": iso((now - timedelta(seconds=late)).timestamp()),
            }
            self.send("clicks", row, row["user"])
            self.send("visits", row, row["id"])
            self.view(row["url"], minute)
            if row["seconds"] > 60:
                self.send("long_visits", row, row["id"])
        for _ in range(max(1, events // 8)):
            self._number += 1
            lat, lon = self.random.choice(CITIES)
            order = {
                "id": f"o{self._number}",
                "amount": round(self.random.expovariate(1 / 180), 2),
                "lat": round(lat + self.random.gauss(0, 2), 3),
                "lon": round(lon + self.random.gauss(0, 2), 3),
                "at": iso(now.timestamp()),
            }
            self.send("orders", {**order, "user": "ben@example.com"}, order["id"])
            self.send("order_map", order, order["id"])
            if order["amount"] > 500:
                self.send("large_orders", order, order["id"])
        self.producer.flush()

    def view(self, url: str, minute: datetime, count: int | None = None) -> None:
        key = json.dumps({"url": url, "window_start": iso(minute.timestamp())}, separators=(",", ":"))
        self.counts[key] = self.counts.get(key, 0) + 1 if count is None else count
        row = {"url": url, "window_start": iso(minute.timestamp()), "views": self.counts[key]}
        self.send("views_per_minute", row, key)

    def history(self, minutes: int = 20) -> None:
        """Earlier minutes of the view."""
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        for back in range(minutes, 0, -1):
            for url in PAGES:
                count = round(1100 + 300 * self.random.random() + (240 if back % 7 < 3 else 0)) // (
                    1 + PAGES.index(url) // 2
                )
                self.view(url, now - timedelta(minutes=back), count)
        self.producer.flush()

    def letters(self, count: int = 3) -> None:
        """Records that do not fit, as the engine leaves them."""
        bad = [
            b'{"id":"c1","user":"eve',
            b'{"id":"c2","at":"yesterday"}',
            b"\xff\xfe<script>document.title='owned'</script>",
        ]
        reasons = ["the JSON ends too early", "`at` is not a timestamp: 'yesterday'", "not UTF-8 at byte 0"]
        for number in range(count):
            at = self.producer.send("clicks", bad[number % 3], key="eve").wait()
            source = Record("clicks", at.partition, at.offset, int(time.time() * 1000), b"eve", bad[number % 3])
            self.producer.send(**dead.to_record(source, reason=reasons[number % 3], query="visits"))
        self.producer.flush()

    def late(self, count: int = 4) -> None:
        """Rows that came after their window was closed."""
        for number in range(count):
            row = {"id": f"c{number}", "url": PAGES[number], "seconds": 12.5, "at": iso(time.time() - 3600)}
            headers = (("headrace.operator", "window"), ("headrace.watermark", iso(time.time() - 60)))
            self.producer.send(names.late_topic("views_per_minute"), json.dumps(row), headers=headers)
        self.producer.flush()

    def progress(self, query: str, *, pid: int | None = None, **given: Any) -> Progress:
        """Write the next event of a query."""
        now = time.time()
        rows = int((now - self.started) * 120)
        values: dict[str, Any] = {
            "mode": "live",
            "state": "running",
            "at": iso(now),
            "started_at": iso(psutil.Process(pid or os.getpid()).create_time()),
            "pid": pid or os.getpid(),
            "batch": int(now - self.started) // 5,
            "batch_ms": 340 + self.random.randrange(80),
            "phases": {"addBatch": 290, "walCommit": 21, "commitOffsets": 14, "queryPlanning": 9, "latestOffset": 2},
            "rows_in": rows,
            "rows_per_second": round(118 + 12 * self.random.random(), 1),
            "rows_out": rows - rows // 10,
            "rows_out_per_second": round(106 + 12 * self.random.random(), 1),
            "latency_p50_ms": round(5 + 2 * self.random.random(), 1),
            "latency_p99_ms": round(16 + 6 * self.random.random(), 1),
            "watermark": iso(now - 6),
            "event_time": iso(now),
            "lag": {"clicks[0]": 0, "clicks[1]": 1},
            "state_rows": 1200,
            "state_bytes": 1_400_000 + self.random.randrange(200_000),
            "operators": {"dedupe id": {"keys": 1200, "bytes": 1_400_000}},
        }
        event = Progress(app=self.graph.app, query=query, **{**values, **given})
        progress.write(self.settings, event)
        return event


class Traffic(threading.Thread):
    """A shop that is busy until it is told to stop."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        self._stage = stage
        self._done = threading.Event()
        self._flowing = threading.Lock()
        self.given: dict[str, dict[str, Any]] = {}

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Nothing is sent inside; a log that is away would hold it up, and what it tells of the queries."""
        with self._flowing:
            yield

    def run(self) -> None:
        beat = 0
        while not self._done.wait(0.2):
            beat += 1
            if self._flowing.acquire(blocking=False):
                with suppress(LogError):
                    self._stage.flow(20)
                self._flowing.release()
            if beat % 5 == 0:
                for query in self._stage.queries:
                    self._stage.progress(query.name, **self.given.get(query.name, {}))
                for follower in ("views_per_minute.postgres", "order_map.postgres", "large_orders.sales"):
                    topic = follower.partition(".")[0]
                    extra = {"mode": "follow", "batch": -1, "batch_ms": None, "phases": {}, "lag": {f"{topic}[0]": 0}}
                    extra |= {"latency_p50_ms": None, "latency_p99_ms": None, "rows_out": 0, "rows_out_per_second": 0.0}
                    extra |= {"state_rows": None, "state_bytes": None, "operators": {}, "watermark": None}
                    self._stage.progress(follower, **(extra | self.given.get(follower, {})))

    def stop(self) -> None:
        self._done.set()
        self.join()
