"""Joins: Nexmark's q3, q4, q8, q9, q13, q18, q19 and q20, beside Flink in one run, on two cores; and live joins.

    python -m bench.joins [--events 2000000] [--warm 3] [--state hashmap] [--only q3 live …] [--quick]

First the answers, then the throughput, as bench/nexmark/comparison.py does both. Both engines read the same topic with
two tasks and checkpoints. Flink keeps its state as `--state` says (`hashmap`: on the heap), Headrace in RocksDB.
Without Flink there are Headrace's figures alone.

`live` joins 1,000 transactions a second with a table of 1,000,000 cards, live, end to end, after the batch that read
the table; every transaction must come out with its card. `dependents` changes the price of a product that 10,000 of
100,000 orders are of, again and again: the time of a change is that from handing it to the producer to holding the last
of its orders in a consumer. `growing` joins orders with ten countries in exact mode: the time of ten new orders, one
for each country, beside 500,000 that are there, against that beside none. The bench fails when an answer is wrong or
something was lost.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame

import headrace as hr
from bench.ground import Ground, ground, note
from bench.latency import PARTITIONS, SCHEMA, percentile, timed
from bench.nexmark import ours, peer
from bench.nexmark.comparison import Nexmark, arguments, asked, checked, compared, print_compared
from bench.nexmark.queries import JOINS
from bench.result import Result, print_result, print_table
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log import topic
from headrace.log.codec import encode
from headrace.log.producer import Producer

GOALS = dict.fromkeys(JOINS, 0.6)
AHEAD_GOAL = 5
CASES = (*JOINS, "live", "dependents", "growing")
CARDS = 1_000_000
DEPENDENTS = 10_000
OTHER_ORDERS = 90_000
PRODUCTS = 10_000
GROWN = 500_000
COUNTRIES = 10
REST_S = 120.0


def main() -> None:
    parser = arguments("python -m bench.joins", "Joins, beside Flink.", CASES)
    parser.add_argument("--changes", type=int, default=20, help="changes of the product (default 20)")
    given = asked(parser)
    cards, others, grown = CARDS, OTHER_ORDERS, GROWN
    if given.quick:
        given.changes, cards, others, grown = 3, 20_000, 1_000, 5_000
    queries = [query for query in JOINS if query in given.only]
    failures: list[str] = []
    if queries:
        with ground("joins", master=ours.MASTER) as here:
            flink = peer.flink()
            right = checked(here, queries, given.checked, failures)
            results = compared(
                here, flink, right, goals=GOALS, count=given.events, warm=given.warm, state=given.state
            )  # fmt: skip
            print_compared(results, _caption(results, given.events, given.state))
    if {"live", "dependents", "growing"} & set(given.only):
        live: list[Result] = []
        with ground("joins") as here:
            if "live" in given.only:
                live.append(_live(here, cards, warmup=2.0 if given.quick else 20.0, seconds=given.seconds))
            if "dependents" in given.only:
                live.append(_dependents(here, others, given.changes))
            if "growing" in given.only:
                live.append(_growing(here, grown, given.changes))
            for result in live:
                print_result(result)
        told = f"dependents: {DEPENDENTS:,} of a row; growing: ten orders beside {grown:,}, against beside none"
        print_table(live, f"live: 1,000 events/s, {cards:,} cards; {told}")
        failures += [f"{result.case}: {result.lost:,} results were lost" for result in live if result.lost]
    if failures:
        sys.exit("\n".join(failures))


def _caption(results: Sequence[Nexmark], events: int, state: str) -> str:
    ahead = sum(one.ratio is not None and one.ratio >= 1 for one in results)
    told = f"{ahead} of {len(results)} at Flink's speed or above (goal: {AHEAD_GOAL} of {len(JOINS)})"
    return f"{events:,} events, local[2], Flink's state: {state}; {told}"


# A stream and a table


def _live(here: Ground, cards: int, *, warmup: float, seconds: float) -> Result:
    rows = (
        (b"card-%d" % i, b'{"card":"card-%d","owner":"owner of %d","bound":%d}' % (i, i, i % 500)) for i in range(cards)
    )
    here.load_table("joined.cards", rows, partitions=PARTITIONS)
    app = hr.App("joined")
    app.source("transactions", topic="joined.in", schema=SCHEMA, event_time="at", delay="5 seconds", id="id",
               partitions=PARTITIONS)  # fmt: skip
    app.table("cards", topic="joined.cards", schema="card string, owner string, bound double", key="card",
              partitions=PARTITIONS)  # fmt: skip

    @app.stream(topic="joined.out", partitions=PARTITIONS)
    def joined(transactions: DataFrame, cards: DataFrame) -> DataFrame:
        return hr.join(transactions.where("amount > 0"), cards, on="card")

    def ready(run: Run) -> None:
        _await_tables(run, "joined")
        _await_turn(run)

    result = timed(
        here, app, Mode.LIVE, case="live", topics=("joined.in", "joined.out"), rate=1_000, warmup=warmup,
        seconds=seconds, cards=cards, ready=ready,
    )  # fmt: skip
    return replace(result, goal_p50_ms=10.0, goal_p99_ms=100.0)


def _await_tables(run: Run, query: str) -> None:
    """Wait until the run has worked off what is in the tables."""
    begun = time.monotonic()
    while run.left(query):
        run.check()
        if time.monotonic() > begun + REST_S:
            sys.exit(f"{query} has not read its tables within {REST_S:.0f} seconds")
        time.sleep(0.1)
    note(f"read the tables in {time.monotonic() - begun:.1f} s")


def _await_turn(run: Run) -> None:
    """Wait until the batch that read the tables has ended: what it holds is written then, which takes seconds."""
    while not any(progress.batch >= 0 for progress in run.progress()):
        run.check()
        time.sleep(0.1)


# A row and its dependents


def _dependents(here: Ground, others: int, changes: int) -> Result:
    def orders() -> Iterator[tuple[bytes, bytes]]:
        for i in range(DEPENDENTS + others):
            product = 0 if i < DEPENDENTS else 1 + i % (PRODUCTS - 1)
            yield encode({"id": i}), encode({"id": i, "product": product, "quantity": 1 + i % 5})

    products = ((encode({"product": i}), encode({"product": i, "price": -1})) for i in range(PRODUCTS))
    here.load_table("priced.orders", orders(), partitions=PARTITIONS)
    here.load_table("priced.products", products, partitions=PARTITIONS)
    app = hr.App("priced")
    app.table("orders", topic="priced.orders", schema="id bigint, product bigint, quantity int", key="id",
              partitions=PARTITIONS)  # fmt: skip
    app.table("products", topic="priced.products", schema="product bigint, price bigint", key="product",
              partitions=PARTITIONS)  # fmt: skip

    @app.view(key="id", topic="priced.out", partitions=PARTITIONS)
    def priced(orders: DataFrame, products: DataFrame) -> DataFrame:
        return hr.join(orders, products, on="product")

    note("measuring dependents, live")
    bootstrap = here.connection.bootstrap
    taken: list[float] = []
    lost = 0
    with Run.start(app, mode=Mode.LIVE, settings=here.settings, bootstrap=bootstrap, spark=here.spark) as run:
        _await_tables(run, "priced")
        consumer = _consumer(here, "priced.out")
        producer = Producer(here.connection, linger_ms=0)
        for price in range(changes):
            begun = time.perf_counter()
            producer.send("priced.products", {"product": 0, "price": price}, key=encode({"product": 0}))
            producer.flush()
            seen = _priced(run, consumer, price)
            taken.append((time.perf_counter() - begun) * 1000)
            lost += DEPENDENTS - seen
            note(f"change {price}: {seen:,} orders in {taken[-1]:.0f} ms")
            time.sleep(0.5)
        consumer.close()
    taken.sort()
    return Result(
        case="dependents",
        mode=str(Mode.LIVE),
        p50_ms=percentile(taken, 0.50),
        p95_ms=percentile(taken, 0.95),
        p99_ms=percentile(taken, 0.99),
        max_ms=percentile(taken, 1),
        goal_p99_ms=1_000.0,
        events=changes * DEPENDENTS,
        lost=lost,
        live_batch=here.settings.live_batch,
    )


def _priced(run: Run, consumer: Consumer, price: int) -> int:
    """How many different orders came with this price; returns with the last of them."""
    seen: set[int] = set()
    until = time.monotonic() + REST_S
    while len(seen) < DEPENDENTS and time.monotonic() < until:
        run.check()
        for message in consumer.consume(DEPENDENTS, 0.01):
            value = message.value() if message.error() is None else None
            row = json.loads(value) if value else {}
            if row.get("price") == price and row.get("product") == 0:
                seen.add(row["id"])
    return len(seen)


def _consumer(here: Ground, of: str) -> Consumer:
    """A consumer of what comes from now on."""
    options = {"group.id": "headrace.bench.joins", "isolation.level": "read_committed", "enable.auto.commit": False}
    consumer = Consumer(here.connection.client(**options))
    ends = topic.ends(here.connection, of)
    consumer.assign([TopicPartition(of, partition, end) for partition, end in ends.items()])
    return consumer


# A table that grows, and one with few rows


def _growing(here: Ground, grown: int, changes: int) -> Result:
    countries = ((encode({"country": i}), encode({"country": i, "name": f"country {i}"})) for i in range(COUNTRIES))
    orders = ((encode({"id": i}), encode(_order(i))) for i in range(grown))
    here.load_table("placed.countries", countries, partitions=PARTITIONS)
    app = hr.App("placed")
    app.table("orders", topic="placed.orders", schema="id bigint, country bigint, remark string", key="id",
              partitions=PARTITIONS)  # fmt: skip
    app.table("countries", topic="placed.countries", schema="country bigint, name string", key="country",
              partitions=PARTITIONS)  # fmt: skip

    @app.stream(topic="placed.out", partitions=PARTITIONS)
    def placed(orders: DataFrame, countries: DataFrame) -> DataFrame:
        return hr.join(orders, countries, on="country")

    note("measuring growing, exact")
    bootstrap = here.connection.bootstrap
    with Run.start(app, mode=Mode.EXACT, settings=here.settings, bootstrap=bootstrap, spark=here.spark) as run:
        _await_tables(run, "placed")
        _ordered(here, run, grown, changes)  # while the JVM compiles
        few = _ordered(here, run, grown + changes * COUNTRIES, changes)
        here.load_table("placed.orders", orders, partitions=PARTITIONS)
        _await_tables(run, "placed")
        many = _ordered(here, run, grown + 2 * changes * COUNTRIES, changes)
    return Result(
        case="growing",
        mode=str(Mode.EXACT),
        p50_ms=percentile(many, 0.50),
        p95_ms=percentile(many, 0.95),
        max_ms=percentile(many, 1),
        peer="beside none",
        peer_p50_ms=percentile(few, 0.50),
        ratio=round(median(few) / median(many), 2),
        events=changes * COUNTRIES,
    )


def _order(number: int) -> dict[str, object]:
    return {"id": number, "country": number % COUNTRIES, "remark": f"order {number} " + "." * 100}


def _ordered(here: Ground, run: Run, first: int, count: int) -> list[float]:
    """The milliseconds from handing an order of each country to the producer to holding the last of them, again and
    again."""
    consumer = _consumer(here, "placed.out")
    producer = Producer(here.connection, linger_ms=0)
    taken: list[float] = []
    for start in range(first, first + count * COUNTRIES, COUNTRIES):
        begun = time.perf_counter()
        missing = set(range(start, start + COUNTRIES))
        for number in missing:
            producer.send("placed.orders", _order(number), key=encode({"id": number}))
        producer.flush()
        while missing:
            run.check()
            missing -= {json.loads(message.value() or b"{}").get("id") for message in consumer.consume(100, 0.01)}
            if time.perf_counter() > begun + REST_S:
                sys.exit(f"{len(missing)} of {COUNTRIES} orders have not come out within {REST_S:.0f} seconds")
        taken.append((time.perf_counter() - begun) * 1000)
    consumer.close()
    note(f"{count} times {COUNTRIES} orders in {median(taken):.0f} ms")
    return sorted(taken)


if __name__ == "__main__":
    main()
