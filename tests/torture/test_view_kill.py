"""kill -9 of a live driver at random moments while tables change: the view of their join is that of the rows that are
there, and no row stays that only a batch has told which was run again.

`make test` kills once; `make torture` kills twenty times (HEADRACE_KILLS).
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.torture.driver import STARTED_S, Background, Drivers, kill

from headrace import names
from headrace.log.codec import encode
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure

KILLS = int(os.environ.get("HEADRACE_KILLS", "1"))
WRITERS = 10
READERS = 300

APP = """
import headrace as hr

app = hr.App("killed_view")
app.table("follows", topic="{follows}", schema="id string, reader int, writer int", key="id")
app.table("posts", topic="{posts}", schema="post int, writer int", key="post")


@app.view(key=["reader", "post"], topic="{timelines}")
def timelines(posts, follows):
    return hr.join(posts, follows, on="writer").select("reader", "post", "writer", "change")
"""


class Writer(Background):
    """Lets people follow and unfollow each other, and write posts and delete some, until it is told to stop. A post is
    told once to each who follows its writer then: nothing later puts right what a batch that was run again left."""

    def __init__(self, connection: Connection, follows: str, posts: str, seed: int) -> None:
        super().__init__()
        self.connection, self.topics, self.dice = connection, (follows, posts), random.Random(seed)
        self.number = 0
        self.follows: dict[str, dict[str, Any]] = {}
        self.posts: dict[int, dict[str, Any]] = {}

    def run(self) -> None:
        follows, posts = self.topics
        with Producer(self.connection) as producer:
            while not self.done.wait(0.02):
                kind, writer = self.dice.random(), self.dice.randrange(WRITERS)
                if kind < 0.9:
                    reader = self.dice.randrange(READERS)
                    key, row = f"{reader}-{writer}", {"id": f"{reader}-{writer}", "reader": reader, "writer": writer}
                    gone = self.follows.pop(key, None) is not None
                    if not gone:
                        self.follows[key] = row
                    producer.send(follows, None if gone else row, key=key)
                elif kind < 0.98 or not self.posts:
                    self.number += 1
                    self.posts[self.number] = {"post": self.number, "writer": writer}
                    producer.send(posts, self.posts[self.number], key=encode({"post": self.number}))
                else:
                    number = self.dice.choice(list(self.posts))
                    del self.posts[number]
                    producer.send(posts, None, key=encode({"post": number}))

    def view(self) -> set[tuple[int, int, int]]:
        return {
            (follow["reader"], post["post"], post["writer"])
            for post in self.posts.values()
            for follow in self.follows.values()
            if follow["writer"] == post["writer"]
        }


def view(connection: Connection, topic: str) -> set[tuple[int, int, int]]:
    rows: dict[bytes | None, bytes | None] = {}
    for record in read(connection, topic):
        rows[record.key] = record.value
    found = (json.loads(value) for value in rows.values() if value is not None)
    return {(row["reader"], row["post"], row["writer"]) for row in found}


@pytest.mark.timeout(600 + 120 * KILLS)
def test_kill_9_of_a_live_driver_leaves_no_row_behind(bootstrap: str, tmp_path: Path, topic):
    seed = int(os.environ.get("HEADRACE_SEED", random.randrange(1_000_000)))
    dice = random.Random(seed)
    connection, follows, posts, timelines = Connection(bootstrap), topic("follows"), topic("posts"), topic("timelines")
    ensure(connection, [Topic(name, 2, compacted=True) for name in (follows, posts, timelines)])
    app, log = tmp_path / "app.py", tmp_path / "run.log"
    app.write_text(APP.format(follows=follows, posts=posts, timelines=timelines))
    (tmp_path / "headrace.toml").write_text('live_batch = "10 seconds"\n')

    def told() -> int:
        """How many records queries have told the view; those that take rows back are not of one."""
        return sum(record.header(names.HEADER_BATCH) is not None for record in read(connection, timelines))

    def more(process: Any, beyond: int) -> None:
        until = time.monotonic() + STARTED_S
        while told() <= beyond:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, f"no output within {STARTED_S} s: {log.read_text()}"
            time.sleep(0.5)

    with Drivers(app, "live", bootstrap) as drivers, Writer(connection, follows, posts, seed) as writer:
        for _ in range(KILLS):
            seen = told()
            process = drivers.start()
            more(process, seen)
            time.sleep(dice.uniform(0, 12))
            assert (alive := kill(process)) == [], f"left behind by the killed driver: {alive} (seed {seed})"
        seen = told()
        process = drivers.start()
        more(process, seen)
        writer.stop()
        wanted, until = writer.view(), time.monotonic() + STARTED_S
        while (found := view(connection, timelines)) != wanted and time.monotonic() < until:
            assert process.poll() is None, log.read_text()
            time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log.read_text()
    assert found == wanted, f"{len(found - wanted)} too many, {len(wanted - found)} missing (seed {seed})"
