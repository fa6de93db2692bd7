"""Delivery: what exactly-once costs, and how fast derived stores follow the log.

    python -m bench.delivery [--events 1000000] [--only sink latency follower changes] [--quick]

`sink`: a stateless query over all events of a topic, in exact mode, to a topic; the transactional sink beside Spark's
plain Kafka sink, taking turns. `latency`: the same query at 200 events a second, end to end, with either sink; the goal
is what the transactions may add. `follower`: changes a second into a PostgreSQL table from a full topic, half of them
updates. `changes`: from the moment a change is acknowledged by the log to the moment a client of the view has it, with
one client and with 200 at once; `lost` are changes that a client did not get.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from urllib.request import Request, urlopen

from pyspark.sql import DataFrame

import headrace as hr
from bench import records
from bench.ground import Ground, ground, note
from bench.latency import measure, percentile, stateless
from bench.result import Result, print_result, print_table
from bench.rounds import rounds
from headrace.engine.mode import Mode
from headrace.engine.reset import Reset
from headrace.engine.run import Run
from headrace.followers.follower import Follower
from headrace.followers.postgres import PostgresTable
from headrace.log import catalogue, topic
from headrace.log.catalogue import View
from headrace.log.codec import encode
from headrace.log.producer import Producer
from headrace.log.topic import Topic
from headrace.parts.embedded import Parts

PARTITIONS = 4
CASES = ("sink", "latency", "follower", "changes")
MOST_ADDED_MS = 60.0
SINK_GOAL = 0.8
UPSERTS_GOAL = 20_000
CHANGES_GOAL_MS = 30.0
CLIENTS = (1, 200)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delivery", description="Exactly-once, and who follows.")
    parser.add_argument("--events", type=int, default=1_000_000, help="how many records (default 1,000,000)")
    parser.add_argument("--warm", type=int, default=3, help="warm rounds, of which the median counts (default 3)")
    parser.add_argument("--seconds", type=float, default=40, help="seconds of a latency measurement (default 40)")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="50,000 records, one warm round, 3 seconds")
    given = parser.parse_args()
    if given.quick:
        given.events, given.warm, given.seconds = 50_000, 1, 3.0
    results: list[Result] = []
    with ground("delivery") as here:
        if "sink" in given.only:
            results.append(_sink(here, given.events, given.warm))
        if "latency" in given.only:
            results.append(_latency(here, given.seconds))
        if {"follower", "changes"} & set(given.only):
            with Parts.start(here.settings, kafka=False, postgres=True, report=note) as parts:
                if "follower" in given.only:
                    results.append(_follower(here, parts.postgres_url, given.events // 5))
                if "changes" in given.only:
                    count = 20 if given.quick else 300
                    results += [_changes(here, parts.postgres_url, clients, count) for clients in CLIENTS]
        for result in results:
            print_result(result)
    print_table(results, "exact mode")
    if any(result.lost for result in results):
        sys.exit("events were lost")


def plain_sink() -> AbstractContextManager[object]:
    """Spark's Kafka sink instead of the transactional one."""
    return patch("headrace.kernel.bridge.TRANSACTIONAL_SINK", "kafka")


def _sink(here: Ground, count: int, warm: int) -> Result:
    here.load("loaded", records.transactions(count), partitions=PARTITIONS)
    app = hr.App("sink")
    app.source(
        "events", topic="loaded", schema="id string, card string, amount double, at timestamp", partitions=PARTITIONS
    )

    @app.stream(topic="copied", partitions=PARTITIONS)
    def copied(events: DataFrame) -> DataFrame:
        return events.where("amount >= 0")

    def all_once() -> None:
        with Run.start(
            app, mode=Mode.EXACT, settings=here.settings, bootstrap=here.connection.bootstrap, spark=here.spark
        ) as run:
            run.finish_input()
        Reset(app.graph(), "copied", here.connection, here.settings).run(repeats=True)

    def plain() -> None:
        with plain_sink():
            all_once()

    speeds = rounds({"transactional": all_once, "plain": plain}, events=count, warm=warm)
    ours, theirs = speeds["transactional"], speeds["plain"]
    expected = 2 * (1 + warm) * count
    written = sum(topic.ends(here.connection, "copied").values())
    note(f"{written:,} offsets for {expected:,} records")
    return Result(
        case="sink",
        mode=str(Mode.EXACT),
        events=count,
        events_per_second=ours.warm,
        events_per_cpu_second=ours.warm_by_cpu,
        cold_events_per_second=ours.cold,
        peer="plain Kafka sink",
        peer_events_per_second=theirs.warm,
        peer_events_per_cpu_second=theirs.warm_by_cpu,
        ratio=round(ours.warm / theirs.warm, 2),
        goal=SINK_GOAL,
    )


def _latency(here: Ground, seconds: float) -> Result:
    """The sinks take turns, and the second turn counts: the first one pays for what the JVM still has to compile."""
    warmup = min(seconds, 10.0)

    def turn(name: str) -> tuple[Result, Result]:
        ours = measure(here, _renamed("transactional", name), Mode.EXACT, rate=200, warmup=warmup, seconds=seconds)
        with plain_sink():
            theirs = measure(here, _renamed("plain", name), Mode.EXACT, rate=200, warmup=warmup, seconds=seconds)
        note(f"p50 in the {name} turn: {ours.p50_ms} ms, plain sink {theirs.p50_ms} ms")
        return ours, theirs

    turn("first")
    ours, theirs = turn("second")
    goal = None if theirs.p50_ms is None else theirs.p50_ms + MOST_ADDED_MS
    return replace(ours, case="latency", peer="plain Kafka sink", peer_p50_ms=theirs.p50_ms, goal_p50_ms=goal)


def _renamed(*name: str) -> Callable[[DataFrame], DataFrame]:
    """The stateless case under a name of its own, so that each measurement has its own topics and checkpoint."""

    def case(rows: DataFrame) -> DataFrame:
        return stateless(rows)

    case.__name__ = "_".join(name)
    return case


# Who follows


def _view(name: str) -> View:
    return View("bench", name, f"bench.{name}", "url string, day int, views bigint, at double", ("url", "day"))


def _follower(here: Ground, url: str, count: int) -> Result:
    view = _view("followed")
    topic.ensure(here.connection, [Topic(view.topic, PARTITIONS, compacted=True)])
    with Producer(here.connection) as producer:
        for n in range(count):
            page = n % (count // 2)
            key = {"url": f"/page/{page}", "day": page % 30}
            producer.send(view.topic, {**key, "views": n, "at": 0.5}, key=encode(key))
    begun = time.perf_counter()
    applied = Follower("bench.followed", view.topic, PostgresTable(url, view), here.connection).catch_up()
    seconds = time.perf_counter() - begun
    note(f"{applied:,} changes applied in {seconds:.1f} s")
    return Result(
        case="follower",
        mode="postgres",
        events=count,
        events_per_second=round(applied / seconds),
        goal_events_per_second=UPSERTS_GOAL,
        lost=count - applied,
    )


def _changes(here: Ground, url: str, clients: int, count: int) -> Result:
    """`count` changes, 20 a second, as `clients` clients get them; the server is a process of its own."""
    view = _view(f"watched_by_{clients}")
    topic.ensure(here.connection, [Topic(view.topic, PARTITIONS, compacted=True)])
    catalogue.publish(here.connection, view)
    Follower(f"bench.{view.view}", view.topic, PostgresTable(url, view), here.connection).catch_up()
    file = here.settings.directory / "app.py"
    file.write_text("import headrace as hr\napp = hr.App('bench')\napp.source('unused', schema='id string')\n")
    settings = {"HEADRACE_BOOTSTRAP": here.connection.bootstrap, "HEADRACE_POSTGRES": url, "HEADRACE_TOKEN": "bench"}
    command = [str(Path(sys.executable).with_name("headrace")), "serve", str(file), "--port", "0"]
    note(f"{count} changes for {clients} clients")
    with subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split(": ", 1)[1].strip().removesuffix("/views")
            taken, lost = _watched(here, view, address, clients, count)
        finally:
            server.terminate()
    return Result(
        case=f"changes, {clients} clients",
        mode="server-sent events",
        p50_ms=percentile(taken, 0.50),
        p95_ms=percentile(taken, 0.95),
        p99_ms=percentile(taken, 0.99),
        max_ms=percentile(taken, 1),
        goal_p50_ms=CHANGES_GOAL_MS,
        events=clients * count,
        lost=lost,
    )


def _watched(here: Ground, view: View, address: str, clients: int, count: int) -> tuple[list[float], int]:
    """The milliseconds from acknowledgement to client of every change, in order, and how many did not come."""
    acknowledged: dict[str, float] = {}
    got: list[dict[str, float]] = [{} for _ in range(clients)]
    ready = threading.Barrier(clients + 1)

    def watch(mine: dict[str, float]) -> None:
        request = Request(f"{address}/views/{view.view}/changes", headers={"Authorization": "Bearer bench"})
        event = ""
        with urlopen(request, timeout=60) as answer:
            for line in answer:
                if line.startswith(b"event:"):
                    event = line[6:].strip().decode()
                    if event == "ready":
                        ready.wait()
                elif line.startswith(b"data:") and event == "change":
                    mine[json.loads(line[5:])["position"]] = time.time()
                    if len(mine) == count:
                        return

    threads = [threading.Thread(target=watch, args=(mine,), daemon=True) for mine in got]
    for thread in threads:
        thread.start()
    ready.wait()
    producer = Producer(here.connection, linger_ms=0)
    for n in range(count):
        key = {"url": f"/page/{n % 50}", "day": 1}
        position = producer.send(view.topic, {**key, "views": n, "at": 0.5}, key=encode(key)).wait()
        acknowledged[str(position)] = time.time()
        time.sleep(0.05)
    for thread in threads:
        thread.join(60)
    taken = sorted((moment - acknowledged[place]) * 1000 for mine in got for place, moment in mine.items())
    return taken, clients * count - len(taken)


if __name__ == "__main__":
    main()
