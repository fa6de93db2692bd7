"""From a write to a subscriber, with the real follower in between."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.serve.client import applied
from tests.serve.conftest import PAGES, MakeStage, Serve
from tests.serve.stage import texts

from headrace.followers.follower import Follower
from headrace.followers.postgres import PostgresTable
from headrace.log.catalogue import View
from headrace.log.connection import Connection


@contextmanager
def following(connection: Connection, postgres_url: str, view: View) -> Iterator[None]:
    stop = threading.Event()
    follower = Follower(f"{view.app}.{view.view}", view.topic, PostgresTable(postgres_url, view), connection)
    thread = threading.Thread(target=follower.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def test_a_write_is_read_and_told(make_stage: MakeStage, serve: Serve, connection: Connection, postgres_url: str):
    """A subscriber, a reader that waits for its write, and psql all have the same rows in the end."""
    stage = make_stage("pages", PAGES, table=False, partitions=1)
    site = serve()
    chance = random.Random(seed := random.randrange(10**6))
    print(f"seed {seed}")

    async def play() -> dict[str, Any]:
        # The follower makes the table; until then there is none to read.
        (first,) = await asyncio.to_thread(stage.put, {"url": "/first", "views": 1})
        waited = await asyncio.to_thread(site.get, "/views/pages/%2Ffirst", {"at_least": first, "wait": 30})
        assert waited.json["row"]["views"] == 1
        stream = await site.changes("pages", {"at_least": str(first)})
        held: dict[str, Any] = {}
        for event in await stream.until("ready"):
            applied(held, event)
        assert list(held) == ['"/first"']
        for number in range(200):
            key = {"url": f"/{chance.randrange(30)}"}
            if chance.random() < 0.3:
                (position,) = await asyncio.to_thread(stage.delete, key)
            else:
                row = {**key, "views": number, "ratio": chance.random(), "at": "2026-03-01T12:00:00.000000Z"}
                (position,) = await asyncio.to_thread(stage.put, row)
            if number % 20 == 0:
                path = f"/views/pages/{key['url'].replace('/', '%2F')}"
                answer = await asyncio.to_thread(site.get, path, {"at_least": position, "wait": 30})
                assert answer.status in (200, 404), answer.text
        (last,) = await asyncio.to_thread(stage.put, {"url": "/last", "views": 1})
        while True:
            event = await stream.next()
            applied(held, event)
            if event[1].get("key") == "/last":
                break
        await stream.close()
        assert (await asyncio.to_thread(site.get, "/views/pages", {"at_least": last, "wait": 30})).status == 200
        return held

    with following(connection, postgres_url, stage.view):
        held = asyncio.run(play())
        assert texts(held.values()) == texts(site.rows("pages", limit=1000)), seed
        assert {json.dumps(row[0]) for row in stage.rows()} == set(held)
