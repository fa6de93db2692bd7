"""The broker is stopped, killed and frozen under every kind of reader: each goes on by itself, misses nothing, and says
so meanwhile.

The small test has all loops of Headrace that read the log, without Spark, in threads of this process; `make torture`
does it more often, and to a whole app of processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.serve.client import Site
from tests.torture.driver import kill

from headrace.followers.follower import Follower
from headrace.followers.postgres import PostgresTable
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.consumer import Consumer, Record, read
from headrace.log.producer import Producer
from headrace.log.queue import Queue
from headrace.log.topic import Topic, ensure
from headrace.parts.embedded import Parts
from headrace.serve.broker import Broker
from headrace.serve.feed import Feed
from headrace.serve.observation.tail import Reader as TailReader
from headrace.serve.observation.topics import Topics
from headrace.serve.view import View as ServedView
from headrace.settings import Settings

ROUNDS = int(os.environ.get("HEADRACE_KILLS", "2"))
TOPIC = "orders"
COMMAND = [sys.executable, "-c", "from headrace.cli import main; main()"]
Seen = Callable[[], set[str]]


def eventually(condition: Callable[[], bool], what: Callable[[], object], seconds: float = 150) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what()
        time.sleep(0.1)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
    return Settings.load(tmp_path)


class Embedded:
    """An embedded Kafka that goes and comes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts = Parts.start(settings)
        self.connection = Connection(self._parts.bootstrap)

    @property
    def pid(self) -> int:
        return self._parts.started[0].record.server.pid

    def down(self, *, kill: bool) -> None:
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        self._parts.stop()

    def up(self) -> None:
        self._parts = Parts.start(self._settings)
        assert self._parts.bootstrap == self.connection.bootstrap

    def send(self, *ids: str) -> None:
        with Producer(self.connection) as producer:
            for one in ids:
                producer.send(TOPIC, {"id": one}, key=one)


@pytest.fixture
def kafka(settings: Settings) -> Iterator[Embedded]:
    broker = Embedded(settings)
    ensure(broker.connection, [Topic(TOPIC, 2)])
    yield broker
    broker.down(kill=False)


def id_of(record: Record) -> str:
    return json.loads(record.value or b"{}")["id"]


# The readers, each in its own way; what it has seen, and its own words for how it does


@contextmanager
def loop_of(step: Callable[[threading.Event], None]) -> Iterator[None]:
    """A loop in a thread, which must have ended by itself when it is to."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            step(stop)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(30)
    assert not failures
    assert not thread.is_alive(), "the loop did not end"


@contextmanager
def reading(connection: Connection) -> Iterator[tuple[Seen, None]]:
    seen: set[str] = set()

    def step(stop: threading.Event) -> None:
        for record in read(connection, TOPIC, follow=True):
            seen.add(id_of(record))

    threading.Thread(target=step, args=(threading.Event(),), daemon=True).start()
    yield lambda: seen, None


@contextmanager
def group(connection: Connection) -> Iterator[tuple[Seen, None]]:
    seen: set[str] = set()

    def step(stop: threading.Event) -> None:
        with Consumer(connection, "members", [TOPIC]) as consumer:
            while not stop.is_set():
                if (record := consumer.poll(0.2)) is not None:
                    seen.add(id_of(record))

    with loop_of(step):
        yield lambda: seen, None


@contextmanager
def queue(connection: Connection) -> Iterator[tuple[Seen, None]]:
    seen: set[str] = set()

    def step(stop: threading.Event) -> None:
        with Queue(connection, TOPIC, "workers") as work:
            while not stop.is_set():
                for message in work.receive(timeout=0.2):
                    seen.add(id_of(message.record))
                    message.accept()

    with loop_of(step):
        yield lambda: seen, None


@contextmanager
def receiver() -> Iterator[tuple[str, list[str]]]:
    """Someone who takes webhooks: its address, and what it was told."""
    told: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["key"])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", told
        server.shutdown()


def hook(connection: Connection, url: str) -> Follower:
    name = f"shop.{TOPIC}.webhook"
    return Follower(name, TOPIC, WebhookReceiver(Target(url, allow_private=True), name, TOPIC, connection), connection)


@contextmanager
def webhook(connection: Connection) -> Iterator[tuple[Seen, Callable[[], str]]]:
    with receiver() as (url, told):
        follower = hook(connection, url)
        with loop_of(follower.run):
            yield lambda: set(told), lambda: follower.status.waiting or f"running: {follower.status}"
        assert len(told) == len(set(told)), "what was taken was sent again"


@contextmanager
def table(connection: Connection, url: str, app: str) -> Iterator[tuple[Seen, Callable[[], str]]]:
    view = View(app, TOPIC, TOPIC, "id string NOT NULL", ("id",))
    follower = Follower(f"{app}.{TOPIC}", TOPIC, PostgresTable(url, view), connection)

    def rows() -> set[str]:
        with psycopg.connect(url) as database:
            try:
                found = database.execute(sql.SQL("SELECT id FROM {}").format(sql.Identifier(app, TOPIC))).fetchall()
            except psycopg.errors.UndefinedTable:
                return set()
        return {one for (one,) in found}

    with loop_of(follower.run):
        yield rows, lambda: follower.status.waiting or f"running: {follower.status}"


@contextmanager
def on_a_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


@contextmanager
def subscribers(connection: Connection) -> Iterator[tuple[Seen, Callable[[], str]]]:
    """The feed of a view, which all of its subscribers share."""
    with on_a_loop() as loop:
        view = ServedView.of(View("shop", TOPIC, TOPIC, "id string NOT NULL", ("id",)))

        async def opened() -> Feed:
            feed = Feed(Broker(connection), view, ThreadPoolExecutor(1))
            await feed.open()
            return feed

        feed = asyncio.run_coroutine_threadsafe(opened(), loop).result(60)

        def seen() -> set[str]:
            return {json.loads(one.change.data)["row"]["id"] for one in feed.since(0)[0]}

        yield seen, lambda: feed.away or ""
        asyncio.run_coroutine_threadsafe(feed.close(), loop).result(60)


@contextmanager
def page(connection: Connection) -> Iterator[tuple[Seen, Callable[[], str]]]:
    """A page of the console that shows a topic, with the topics that its banner goes by."""
    seen: set[str] = set()

    class Taker:
        def digest(self, records: Sequence[Record]) -> object:
            return {id_of(record) for record in records}

        def arrived(self, digested: object) -> None:
            seen.update(digested)  # pyright: ignore[reportArgumentType, reportCallIssue]

    topics = Topics(connection, [TOPIC])

    def look(stop: threading.Event) -> None:
        while not stop.wait(0.2):
            topics.look()

    with on_a_loop() as loop, loop_of(look):

        async def begin() -> TailReader:
            return TailReader(connection, TOPIC, 100, Taker())

        reader = asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
        yield lambda: seen, lambda: "" if topics.away is None else f"log unreachable since {topics.away}"
        reader.stop()


def test_every_loop_outlives_its_broker(kafka: Embedded, postgres_url: str, topic: Callable[[str], str]):
    connection, sent = kafka.connection, {"a", "b", "c"}
    with ExitStack() as stack:
        readers = {
            "read": stack.enter_context(reading(connection)),
            "group": stack.enter_context(group(connection)),
            "queue": stack.enter_context(queue(connection)),
            "webhook": stack.enter_context(webhook(connection)),
            "table": stack.enter_context(table(connection, postgres_url, topic("shop"))),
            "subscribers": stack.enter_context(subscribers(connection)),
            "page": stack.enter_context(page(connection)),
        }

        def missing() -> dict[str, tuple[set[str], str]]:
            """What each has not seen, and what it says of itself."""
            unseen = {name: (sent - seen(), words) for name, (seen, words) in readers.items()}
            return {name: (lost, words() if words else "") for name, (lost, words) in unseen.items() if lost}

        def silent() -> list[str]:
            spoken = {name: words() for name, (_, words) in readers.items() if words is not None}
            return [name for name, said in spoken.items() if not said.startswith("log unreachable since ")]

        kafka.send(*sent)
        eventually(lambda: not missing(), missing)
        for number in range(ROUNDS):
            kafka.down(kill=number % 2 == 1)
            eventually(lambda: not silent(), lambda: f"they do not say that the log is away: {silent()}")
            kafka.up()
            for step in range(2):
                more = {f"{number}.{step}.{one}" for one in range(2)}
                sent.update(more)
                kafka.send(*more)
                eventually(lambda: not missing(), missing)
            eventually(
                lambda: len(silent()) == sum(words is not None for _, words in readers.values()),
                lambda: f"they do not say that it is back: all but {silent()}",
            )


def test_a_follower_of_a_frozen_broker_says_so_and_stops(kafka: Embedded):
    """No connection breaks and no error comes; the end of the topic, which cannot be read, tells."""
    with receiver() as (url, told):
        follower = hook(kafka.connection, url)
        with loop_of(follower.run):
            kafka.send("a")
            eventually(lambda: told == ["a"], lambda: follower.status)
            eventually(lambda: follower.status.lag == {0: 0, 1: 0}, lambda: follower.status)
            os.kill(kafka.pid, signal.SIGSTOP)
            try:
                eventually(
                    lambda: (follower.status.waiting or "").startswith("log unreachable since"), lambda: follower.status
                )
            except BaseException:
                os.kill(kafka.pid, signal.SIGCONT)
                raise
        os.kill(kafka.pid, signal.SIGCONT)
        assert follower.status.state == "stopped"


# A whole app, each part of it a process


APP = """
import headrace as hr

app = hr.App("{app}")
orders = app.stream("orders", schema="id string NOT NULL, amount double", id="id")
app.table("products", hr.postgres("public.products"), key="id")


@app.view(key="id")
def kept(orders):
    return orders


@app.view(key="id")
def stock(products):
    return products.selectExpr("id", "change")


app.follow(orders, hr.webhook("{url}", allow_private=True))
"""


class Whole:
    """An app with its processes beside a Kafka that `headrace parts` starts and stops."""

    def __init__(self, home: Path, url: str, stack: ExitStack) -> None:
        self.home = home
        self.file = home / "app.py"
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
        self._environment = inherited | {"HEADRACE_POSTGRES": url, "HEADRACE_TOKEN": "sesame"}
        self._stack = stack
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            [*COMMAND, *arguments], cwd=self.home, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments: str) -> None:
        """A process that ends with the test, at the latest."""
        log = self._stack.enter_context((self.home / f"{arguments[0]}.log").open("w+", encoding="utf-8"))
        started = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self.processes[arguments[0]] = started
        self._stack.callback(lambda: kill(started) if started.poll() is None else None)

    def said(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(encoding="utf-8")

    def health(self) -> dict[str, str]:
        shown = json.loads(self.call("status", "--json"))
        return {one["query"]: one["health"]["sentence"] for one in shown}


@contextmanager
def subscribed(site: Site, view: str) -> Iterator[tuple[set[str], list[Any]]]:
    """The ids that a client of a view was told of, and what it was told of the log."""
    ids: set[str] = set()
    log: list[Any] = []

    async def listen() -> None:
        stream = await site.changes(view)
        while True:
            name, data = await stream.next()
            if name == "log":
                log.append(data["away"])
            elif name in ("snapshot", "change"):
                ids.add(data["row"]["id"])

    with on_a_loop() as loop:
        listening = asyncio.run_coroutine_threadsafe(listen(), loop)
        yield ids, log
        assert not listening.done(), "the subscription was ended"
        listening.cancel()


@pytest.mark.deep
def test_a_whole_app_outlives_its_broker(tmp_path: Path, postgres_url: str, topic: Callable[[str], str]):
    name = topic("shop")
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = make_conninfo(postgres_url, dbname=name)
    with ExitStack() as stack:
        database = stack.enter_context(psycopg.connect(url, autocommit=True))
        database.execute("CREATE TABLE products (id text PRIMARY KEY)")
        place, told = stack.enter_context(receiver())
        whole = Whole(tmp_path, url, stack)
        whole.file.write_text(APP.replace("{app}", name).replace("{url}", place), encoding="utf-8")
        stack.callback(lambda: whole.call("parts", "down"))
        whole.call("parts", "up", "--no-postgres")
        ((bootstrap,),) = [
            [one["address"]] for one in json.loads(whole.call("parts", "status", "--json")) if one["name"] == "kafka"
        ]
        connection = Connection(bootstrap)
        for command in (["capture"], ["run"], ["follow"], ["serve", "--port", "0"]):
            whole.start(command[0], str(whole.file), *command[1:])
        sent: set[str] = set()

        def send(*ids: str) -> None:
            with Producer(connection) as producer:
                for one in ids:
                    producer.send("orders", {"id": one, "amount": 1.5}, key=one)
                    database.execute("INSERT INTO products VALUES (%s)", (one,))
            sent.update(ids)

        def rows(view: str) -> set[str]:
            try:
                found = database.execute(sql.SQL("SELECT id FROM {}").format(sql.Identifier(name, view))).fetchall()
            except psycopg.errors.UndefinedTable:
                return set()
            return {one for (one,) in found}

        def logs() -> str:
            return "\n".join(f"{one}: {whole.said(one)[-1500:]}" for one in whole.processes)

        eventually(lambda: "orders" in connection.metadata().topics, logs)
        send("a", "b")
        eventually(lambda: rows("kept") == rows("stock") == set(told) == sent, logs)
        eventually(lambda: "/views" in whole.said("serve"), logs)
        site = Site(whole.said("serve").split("/views")[0].rsplit(maxsplit=1)[-1], "sesame")
        with subscribed(site, "kept") as (ids, log):
            eventually(lambda: ids == sent, lambda: ids)
            for number in range(max(1, ROUNDS // 4)):
                log.clear()
                whole.call("parts", "down")
                eventually(
                    lambda: all("unreachable" in one or "does not answer" in one for one in whole.health().values()),
                    whole.health,
                )
                eventually(lambda: bool(log) and str(log[-1]).startswith("log unreachable since"), lambda: log)
                whole.call("parts", "up", "--no-postgres")
                for step in range(2):
                    send(*(f"{number}.{step}.{one}" for one in range(3)))
                    eventually(
                        lambda: rows("kept") == rows("stock") == set(told) == ids == sent,
                        lambda: {"sent": sent, "kept": rows("kept"), "stock": rows("stock"), "told": told, "ids": ids},
                    )
                eventually(lambda: set(whole.health().values()) == {"keeping up"}, whole.health)
                eventually(lambda: log[-1] is None, lambda: log)
        assert {one.poll() for one in whole.processes.values()} == {None}, logs()
        for one in whole.processes.values():
            one.send_signal(signal.SIGTERM)
        assert {one: process.wait(60) for one, process in whole.processes.items()} == dict.fromkeys(whole.processes, 0)
