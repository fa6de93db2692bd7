"""Subscriptions: the snapshot, then every change once and in order, whoever goes away and comes back."""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer as Writer
from confluent_kafka import TopicPartition
from tests.serve.client import Site, applied
from tests.serve.conftest import TOKEN, MakeStage, Serve
from tests.serve.stage import Stage, texts
from websockets.sync.client import connect

from headrace.log.consumer import read
from headrace.log.position import Position
from headrace.log.topic import ends
from headrace.serve import feed, subscription


def test_a_snapshot_and_then_changes(make_stage: MakeStage, serve: Serve):
    stage = make_stage()
    stage.put({"url": "/a", "views": 1}, {"url": "/b", "views": 2})
    stage.apply()
    stage.put({"url": "/c", "views": 3})  # not in the table yet: it comes as a change
    site = serve()

    async def told() -> list[tuple[str, Any]]:
        stream = await site.changes("pages")
        begun = await stream.until("ready")
        begun.append(await stream.next())
        await asyncio.to_thread(stage.put, {"url": "/a", "views": 10})
        begun.append(await stream.next())
        await asyncio.to_thread(stage.delete, {"url": "/b"})
        begun.append(await stream.next())
        await stream.close()
        return begun

    events = asyncio.run(told())
    snapshot = {data["key"]: data["row"]["views"] for name, data in events if name == "snapshot"}
    assert snapshot == {"/a": 1, "/b": 2}
    (c, a, b) = [data for name, data in events if name == "change"]
    assert (c["op"], c["key"], c["row"]) == ("upsert", "/c", {"url": "/c", "views": 3, "ratio": None, "at": None})
    assert (a["op"], a["row"]["views"]) == ("upsert", 10)
    assert (b["op"], b["key"], "row" in b) == ("delete", "/b", False)
    assert Position.parse(b["position"]).topic == stage.view.topic


def test_a_table_that_has_read_nothing_yet(make_stage: MakeStage, serve: Serve):
    stage = make_stage()
    stage.put({"url": "/a", "views": 1})
    site = serve()

    async def told() -> list[tuple[str, Any]]:
        stream = await site.changes("pages")
        return [await stream.next(), await stream.next()]

    (ready, change) = asyncio.run(told())
    assert (ready[0], change[1]["key"]) == ("ready", "/a")


def test_a_table_and_a_topic_that_do_not_fit(make_stage: MakeStage, serve: Serve):
    """A topic that was made again, while the table is still that of the old one: it says so, and tells no nonsense."""
    stage = make_stage(partitions=1)
    stage.put(*({"url": f"/{i}", "views": i} for i in range(5)))
    stage.apply()
    with psycopg.connect(stage.url) as connection:
        connection.execute("UPDATE headrace.positions SET next_offset = 99 WHERE follower = %s", (stage.follower,))
    answer = serve().get("/views/pages/changes")
    assert (answer.status, answer.json["code"]) == (503, "HR-518")
    assert "--rebuild pages" in answer.json["fix"]


def test_the_same_over_a_websocket(make_stage: MakeStage, serve: Serve):
    stage = make_stage()
    stage.put({"url": "/a", "views": 1})
    stage.apply()
    address = serve().url.replace("http", "ws") + "/views/pages/changes"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with connect(address, additional_headers=headers) as socket:
        snapshot, ready = json.loads(socket.recv(60)), json.loads(socket.recv(60))
        assert (snapshot["event"], snapshot["key"], snapshot["row"]["views"]) == ("snapshot", "/a", 1)
        assert ready["event"] == "ready"
        stage.put({"url": "/b", "views": 2})
        change = json.loads(socket.recv(60))
        assert (change["event"], change["op"], change["key"]) == ("change", "upsert", "/b")
        socket.send("hello?")
    stage.put({"url": "/c", "views": 3})
    with connect(f"{address}?from={change['id']}&token={TOKEN}") as socket:
        assert json.loads(socket.recv(60))["key"] == "/c"


def test_an_update_is_one_change(make_stage: MakeStage, serve: Serve):
    """`-old +new` in one poll is an upsert; the table has never been without the row."""
    stage = make_stage(partitions=1)
    stage.apply()
    stage.put({"url": "/a", "views": 1})
    stage.delete({"url": "/a"})
    stage.put({"url": "/a", "views": 2})
    stage.delete({"url": "/b"})
    site = serve()

    async def told() -> list[Any]:
        stream = await site.changes("pages")
        await stream.until("ready")
        return [(await stream.next())[1] for _ in range(3)]

    found = [(one["op"], one["key"], one.get("row", {}).get("views")) for one in asyncio.run(told())]
    assert found == [("upsert", "/a", 1), ("upsert", "/a", 2), ("delete", "/b", None)]


def test_records_that_are_no_rows_are_passed_over(make_stage: MakeStage, serve: Serve):
    stage = make_stage(partitions=1)
    stage.apply()
    topic = stage.view.topic
    for value in (b"not json", b"[1]", b'{"url":"/x","views":"ten"}', b"\xff", b'{"url":"/x","ratio":NaN}'):
        stage.producer.send(topic, value, key="/x").wait()
    stage.producer.send(topic, b'{\n "url": "/y",\r\n "views": 1\n}', key="/y").wait()
    site = serve()

    async def told() -> Any:
        stream = await site.changes("pages")
        await stream.until("ready")
        return (await stream.next())[1]

    change = asyncio.run(told())
    assert (change["key"], change["row"]["views"]) == ("/y", 1)


def test_a_filter_holds_for_changes_too(make_stage: MakeStage, serve: Serve):
    stage = make_stage(partitions=1)
    stage.put({"url": "/a", "views": 1}, {"url": "/b", "views": 20})
    stage.apply()
    site = serve()

    async def told() -> list[tuple[str, Any]]:
        stream = await site.changes("pages", {"views.gte": 10, "url.prefix": "/"})
        events = await stream.until("ready")
        await asyncio.to_thread(
            stage.put,
            {"url": "/a", "views": 2},  # never met it: nothing
            {"url": "x", "views": 50},  # another key: nothing
            {"url": "/a", "views": 11},
            {"url": "/b", "views": 3},  # no longer meets it
            {"url": "/c", "views": 99},
        )
        await asyncio.to_thread(stage.delete, {"url": "x"}, {"url": "/c"})
        return [*events, *[await stream.next() for _ in range(4)]]

    events = asyncio.run(told())
    assert [data["key"] for name, data in events if name == "snapshot"] == ["/b"]
    changes = [(data["op"], data["key"]) for name, data in events if name == "change"]
    assert changes == [("upsert", "/a"), ("delete", "/b"), ("upsert", "/c"), ("delete", "/c")]


def test_where_the_topic_no_longer_holds_it_a_snapshot_comes(make_stage: MakeStage, serve: Serve):
    stage = make_stage(partitions=1, config={"cleanup.policy": "compact,delete"})
    stage.put({"url": "/a", "views": 1})
    stage.apply()
    site = serve()

    async def resumed(last: str) -> list[str]:
        stream = await site.changes("pages", last=last)
        found = [name for name, _ in await stream.until("ready")]
        await stream.close()
        return found

    async def last() -> str:
        stream = await site.changes("pages")
        await stream.until("ready")
        await stream.close()
        assert stream.id is not None
        return stream.id

    now = asyncio.run(last())
    digest, at, _ = now.split(".")
    assert asyncio.run(resumed(f"{digest}.{at}.999")) == ["reset", "snapshot", "ready"]
    assert asyncio.run(resumed(f"AAAAAAAA.{at}.1")) == ["reset", "snapshot", "ready"]
    # A day and more ago deletions may have been compacted away since, unless nothing at all has come since.
    stage.put({"url": "/b", "views": 1})
    stage.apply()
    assert asyncio.run(resumed(f"{digest}.{int(at) - 100_000}.1")) == ["reset", "snapshot", "snapshot", "ready"]
    with pytest.raises(AssertionError, match="HR-507"):
        asyncio.run(resumed("nonsense"))
    stage.put({"url": "/c", "views": 1})
    stage.apply()
    admin = stage.connection.admin()
    for done in admin.delete_records([TopicPartition(stage.view.topic, 0, 3)]).values():
        done.result()
    assert asyncio.run(resumed(f"{digest}.{at}.2")) == ["reset", *["snapshot"] * 3, "ready"]


class History:
    """Random writes to a view, in and out of transactions, and a follower that is now and then behind."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.chance = random.Random(seed)
        options = {"transactional.id": stage.view.topic, "partitioner": "murmur2_random"}
        self.writer = Writer(stage.connection.client(**options))
        self.writer.init_transactions(30)

    def play(self, rounds: int) -> None:
        for _ in range(rounds):
            if self.chance.random() < 0.5:
                self._transaction()
            else:
                for _ in range(self.chance.randrange(1, 15)):
                    self._write(lambda key, value: self.stage.producer.send(self.stage.view.topic, value, key=key))
                self.stage.producer.flush()
            if self.chance.random() < 0.3:
                self.stage.apply()

    def _transaction(self) -> None:
        self.writer.begin_transaction()
        for _ in range(self.chance.randrange(1, 15)):
            self._write(lambda key, value: self.writer.produce(self.stage.view.topic, value, key))
        if self.chance.random() < 0.8:
            self.writer.commit_transaction(30)
        else:
            self.writer.flush()
            self.writer.abort_transaction(30)

    def _write(self, send: Any) -> None:
        key = f"/{self.chance.randrange(20)}"
        row = json.dumps({"url": key, "views": self.chance.randrange(100)})
        if self.chance.random() < 0.25:
            send(key, None)
        elif self.chance.random() < 0.2:
            send(key, None)
            send(key, row)
        else:
            send(key, row)


class Client:
    """One that leaves and comes back at random; what it holds, and the positions of the changes that it was told."""

    def __init__(self, site: Site, query: dict[str, str], seed: int) -> None:
        self.site = site
        self.query = query
        self.chance = random.Random(seed)
        self.held: dict[str, Any] = {}
        self.told: list[Position] = []
        self.begun: list[int] = []
        self.last: str | None = None
        self.ends: list[int] | None = None

    async def run(self) -> Client:
        while self.ends is None or not self._is_at(self.ends):
            if self.last is None:
                self.held.clear()
            by_query = self.last is not None and self.chance.random() < 0.5
            query = {**self.query, "from": self.last or ""} if by_query else self.query
            stream = await self.site.changes("pages", query, last=None if by_query else self.last)
            stays = self.chance.randrange(1, 60)
            while stays > 0 and (self.ends is None or not self._is_at(self.ends)):
                name, data = await stream.block()
                stays -= 1
                if data is not None:
                    self._take(name, data)
                self.last = stream.id or self.last
            await stream.close()
        return self

    def _take(self, name: str, data: Any) -> None:
        assert name in ("snapshot", "ready", "change"), (name, data)
        applied(self.held, (name, data))
        if name == "change":
            self.told.append(Position.parse(data["position"]))
        elif name == "ready":
            self.begun = offsets(data["position"])

    def _is_at(self, ends: list[int]) -> bool:
        return self.last is not None and all(a >= b for a, b in zip(offsets(self.last), ends, strict=True))


def offsets(token: str) -> list[int]:
    return [int(one) for one in token.split(".")[2].split("-")]


@pytest.mark.parametrize("_", range(int(os.environ.get("HEADRACE_DEEP", "1"))))
def test_what_a_client_has_is_what_the_table_has(
    _: int, make_stage: MakeStage, serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    """However it leaves and comes back, and however far the follower is behind; nothing is told twice or left out."""
    monkeypatch.setattr(subscription, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(feed, "KEPT", 50)  # so that those who come back have to catch up from the topic
    stage = make_stage()
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    stage.put(*({"url": f"/{i}", "views": i} for i in range(10)))
    stage.apply()
    site = serve()
    queries = [{}, {}, {}, {"views.gte": "50"}, {"url.in": "/1,/2,/3"}]
    clients = [Client(site, query, seed + i) for i, query in enumerate(queries)]

    async def play() -> None:
        running = [asyncio.create_task(client.run()) for client in clients]
        await asyncio.to_thread(History(stage, seed).play, 40)
        await asyncio.to_thread(stage.apply)
        end = await asyncio.to_thread(ends, stage.connection, stage.view.topic)
        for client in clients:
            client.ends = [end[i] for i in range(3)]
        await asyncio.gather(*running)

    asyncio.run(play())
    records = {record.position: record.value for record in read(stage.connection, stage.view.topic)}
    for client in clients:
        assert texts(client.held.values()) == texts(site.rows("pages", **client.query, limit=1000)), (
            seed,
            client.query,
        )
        for partition, start in enumerate(client.begun):
            mine = [one.offset for one in client.told if one.partition == partition]
            assert mine == sorted(set(mine)), f"seed {seed}: told twice, or out of order"
            if not client.query:
                behind = {p for p in records if p.partition == partition and p.offset >= start}
                left_out = [p for p in behind - set(client.told) if records[p] is not None]
                assert left_out == [], f"seed {seed}"


def test_two_hundred_clients_and_no_loss(make_stage: MakeStage, serve: Serve):
    stage = make_stage()
    stage.put(*({"url": f"/{i}", "views": 0} for i in range(10)))
    stage.apply()
    site = serve()
    count, changes = 200, 300

    async def client(ready: asyncio.Barrier) -> tuple[dict[str, Any], list[str]]:
        stream = await site.changes("pages")
        held: dict[str, Any] = {}
        for event in await stream.until("ready"):
            applied(held, event)
        await ready.wait()
        told = []
        while len(told) < changes:
            event = await stream.next()
            applied(held, event)
            told.append(event[1]["position"])
        await stream.close()
        return held, told

    async def play() -> list[Any]:
        ready = asyncio.Barrier(count + 1)
        clients = [asyncio.create_task(client(ready)) for _ in range(count)]
        await ready.wait()
        await asyncio.to_thread(stage.put, *({"url": f"/{i % 50}", "views": i} for i in range(changes)))
        return await asyncio.gather(*clients)

    outcomes = asyncio.run(play())
    stage.apply()
    rows = texts(site.rows("pages", limit=1000))
    assert len(outcomes) == count
    for held, told in outcomes:
        assert len(set(told)) == changes
        assert texts(held.values()) == rows


def test_a_slow_client_is_let_go_and_can_come_back(
    make_stage: MakeStage, serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(feed, "KEPT", 40)
    stage = make_stage(partitions=1)
    stage.apply()
    site = serve()
    total = 1500

    async def play() -> tuple[list[str], Any, list[str]]:
        stream = await site.changes("pages", buffer=2**14)
        await stream.until("ready")
        stream.reader._transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        text = "x" * 20_000
        await asyncio.to_thread(stage.put, *({"url": f"/{i}{text}", "views": i} for i in range(total)))
        stream.reader._transport.resume_reading()  # pyright: ignore[reportAttributeAccessIssue]
        told: list[str] = []
        while True:
            name, data = await stream.next()
            if name == "closed":
                break
            told.append(data["position"])
        await stream.close()
        again = await site.changes("pages", last=stream.id)
        rest = [(await again.next())[1]["position"] for _ in range(total - len(told))]
        await again.close()
        return told, data, rest

    told, closed, rest = asyncio.run(play())
    assert closed["code"] == "HR-517"
    assert len(told) < total
    assert told + rest == [str(Position(stage.view.topic, 0, i)) for i in range(total)]


def test_a_silent_view_is_kept_alive(make_stage: MakeStage, serve: Serve, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subscription, "HEARTBEAT_S", 0.05)
    stage = make_stage()
    stage.put({"url": "/a"})
    stage.apply()
    site = serve()

    async def play() -> list[str]:
        stream = await site.changes("pages", {"views.gte": 1})
        await stream.until("ready")
        await asyncio.to_thread(stage.put, {"url": "/b"})  # does not meet the filter, and yet the id moves on
        while sum(map(int, (stream.id or "..0").split(".")[2].split("-"))) < 2:
            await stream.block()
        await stream.close()
        return stream.comments

    assert ": heartbeat" in asyncio.run(play())


def test_subscribers_are_told_when_the_server_stops(
    make_stage: MakeStage, connection: Any, postgres_url: str, app: str
):
    from tests.serve.conftest import running

    from headrace.serve.guard import Rules

    stage = make_stage()
    stage.apply()

    async def play() -> Any:
        with running(app, connection, postgres_url, Rules(TOKEN)) as site:
            stream = await site.changes("pages")
            await stream.until("ready")
        return await stream.next()

    name, data = asyncio.run(play())
    assert (name, data["code"]) == ("closed", "HR-518")
