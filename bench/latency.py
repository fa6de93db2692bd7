"""End-to-end latency, Kafka → Spark → Kafka, of a running app.

    python -m bench.latency [--rate 200] [--warmup 20] [--seconds 60] [--quick]

Two apps run one after the other, each live and exact, as `headrace run` runs them: `stateless` filters and projects,
`dedupe` removes repeats within 10 minutes. A producer sends at a fixed rate and does not wait for answers; a
read_committed consumer in the same process reads the results. The latency of an event is the moment at which the
consumer has its result less the moment at which the producer was given the event, by one clock. One record in twenty
repeats an id that was sent before and must not come out: as a copy for `dedupe`, with an amount that the filter refuses
for `stateless`.

After the first answer come the warm-up, which is not counted, and the seconds that are. `lost` are ids without a
result, `duplicates` further results of an id; the bench fails when something was lost. A batch of the live mode lasts
as long as the product's default (`live_batch`). Its end holds results back for a moment: `batches` says how many ended
during the measurement. The peer of live is exact.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame

import headrace as hr
from bench.ground import Ground, ground, note
from bench.result import Result, print_result, print_table
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.log.codec import iso
from headrace.log.connection import Connection
from headrace.log.producer import Producer

SCHEMA = "id bigint, card string, amount double, at timestamp"
PARTITIONS = 2
QUIET_EVERY = 20
STRIDE = 7_919  # a prime: events come to all cards, and near ones not one after the other
FIRST_ANSWER_S = 180.0
DRAIN_S = 30.0


def stateless(rows: DataFrame) -> DataFrame:
    return rows.where("amount > 0").selectExpr("id", "card", "round(amount * 1.19, 2) as gross", "at")


def dedupe(rows: DataFrame) -> DataFrame:
    return hr.dedupe(rows, by="id", within="10 minutes")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description="Kafka to Kafka, end to end.")
    parser.add_argument("--rate", type=float, default=200, help="events a second (default 200)")
    parser.add_argument("--warmup", type=float, default=20, help="seconds before the measurement (default 20)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of the measurement (default 60)")
    parser.add_argument("--quick", action="store_true", help="3 seconds after 2 of warm-up")
    given = parser.parse_args()
    warmup, seconds = (2.0, 3.0) if given.quick else (given.warmup, given.seconds)
    results: list[Result] = []
    with ground("latency") as here:

        def measured(case: Callable[[DataFrame], DataFrame], mode: Mode) -> Result:
            return measure(here, case, mode, rate=given.rate, warmup=warmup, seconds=seconds)

        for case, p50, p99 in ((stateless, 5.0, None), (dedupe, 12.0, 150.0)):
            live, exact = measured(case, Mode.LIVE), measured(case, Mode.EXACT)
            ratio = round(exact.p50_ms / live.p50_ms, 1) if exact.p50_ms and live.p50_ms else None
            live = replace(live, peer="exact", peer_p50_ms=exact.p50_ms, ratio=ratio, goal_p50_ms=p50, goal_p99_ms=p99)
            for result in (live, exact):
                print_result(result)
                results.append(result)
        batch = here.settings.live_batch
    print_table(results, f"{given.rate:g} events/s, {seconds:g} s after {warmup:g} s of warm-up, live batch {batch}")
    if any(result.lost for result in results):
        sys.exit("events were lost")


def measure(
    here: Ground, case: Callable[[DataFrame], DataFrame], mode: Mode, *, rate: float, warmup: float, seconds: float
) -> Result:
    """The latency of a case, from the producer to the consumer."""
    name = f"{case.__name__}_{mode}"
    app = hr.App(name)
    app.source("transactions", topic=f"{name}.in", schema=SCHEMA, event_time="at", delay="5 seconds", id="id",
               partitions=PARTITIONS)  # fmt: skip

    @app.stream(topic=f"{name}.out", partitions=PARTITIONS)
    def result(transactions: DataFrame) -> DataFrame:
        return case(transactions)

    return timed(
        here, app, mode, case=case.__name__, topics=(f"{name}.in", f"{name}.out"), copies=case is dedupe, rate=rate,
        warmup=warmup, seconds=seconds,
    )  # fmt: skip


def timed(
    here: Ground,
    app: hr.App,
    mode: Mode,
    *,
    case: str,
    topics: tuple[str, str],
    rate: float,
    warmup: float,
    seconds: float,
    copies: bool = False,
    cards: int = 1_000,
    ready: Callable[[Run], None] = lambda _: None,
) -> Result:
    """The latency of an app that reads transactions of so many `cards` from one topic and answers each in another.

    Nothing is sent before the run is `ready`. `copies` says which repeats must not come out (`Traffic.one`).
    """
    source, sink = topics
    note(f"measuring {case}, {mode}")
    bootstrap = here.connection.bootstrap
    with Run.start(app, mode=mode, settings=here.settings, bootstrap=bootstrap, spark=here.spark) as run:
        ready(run)
        traffic = Traffic(here.connection, source, copies=copies, cards=cards)
        with Answers(here.connection, sink) as answers:
            _await_first(run, traffic, answers)
            traffic.send(rate, warmup)
            begun, batch = len(traffic.sent), _batch(run)
            traffic.send(rate, seconds)
            batches = _batch(run) - batch
            until = time.monotonic() + DRAIN_S
            while len(answers.times) < len(traffic.sent) and time.monotonic() < until:
                run.check()
                time.sleep(0.1)
    counted = range(begun, len(traffic.sent))
    taken = sorted((answers.times[i] - traffic.sent[i]) * 1000 for i in counted if i in answers.times)
    return Result(
        case=case,
        mode=str(mode),
        p50_ms=percentile(taken, 0.50),
        p95_ms=percentile(taken, 0.95),
        p99_ms=percentile(taken, 0.99),
        max_ms=percentile(taken, 1),
        events=len(counted),
        lost=sum(i not in answers.times for i in range(len(traffic.sent))),
        duplicates=answers.duplicates,
        batches=batches,
        live_batch=here.settings.live_batch if mode is Mode.LIVE else None,
    )


def percentile(ordered: Sequence[float], part: float) -> float | None:
    """The smallest value that at least this part of the ordered values does not exceed; None without values."""
    return round(ordered[max(0, math.ceil(len(ordered) * part) - 1)], 1) if ordered else None


class Traffic:
    """Sends events of so many cards; `sent` holds when event i was given to the producer."""

    def __init__(self, connection: Connection, topic: str, *, copies: bool, cards: int) -> None:
        self.sent: list[float] = []
        self._producer = Producer(connection, linger_ms=0)
        self._topic = topic
        self._copies = copies
        self._cards = cards
        self._last = b""
        self._number = 0

    def send(self, rate: float, seconds: float) -> None:
        """Send at the rate for so long; after a delay of its own it catches up."""
        count = int(rate * seconds)
        begun = time.perf_counter()
        for number in range(count):
            time.sleep(max(0.0, begun + number / rate - time.perf_counter()))
            self.one()
        self._producer.flush()

    def one(self) -> None:
        """The next record: an event, or now and then a repeat of the last event's id that must not come out."""
        self._number += 1
        if self._number % QUIET_EVERY == 0:
            quiet = self._last if self._copies else self._record(len(self.sent) - 1, 0)
            self._producer.send(self._topic, quiet)
            return
        self._last = self._record(len(self.sent), 1 + self._number % 500)
        self.sent.append(time.perf_counter())
        self._producer.send(self._topic, self._last)

    def _record(self, i: int, amount: int) -> bytes:
        card = i * STRIDE % self._cards
        return f'{{"id":{i},"card":"card-{card}","amount":{amount},"at":"{iso(datetime.now(UTC))}"}}'.encode()


class Answers:
    """Reads results in a thread; `times` holds when the first result of event i was there."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.times: dict[int, float] = {}
        self.duplicates = 0
        options = {
            "group.id": "headrace.bench.latency",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "fetch.queue.backoff.ms": 1,
        }
        self._consumer = Consumer(connection.client(**options))
        self._consumer.assign([TopicPartition(topic, i, 0) for i in range(PARTITIONS)])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="bench-answers", daemon=True)

    def __enter__(self) -> Answers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            now = time.perf_counter()
            value = message.value() if message is not None and message.error() is None else None
            if value is None:
                continue
            i = json.loads(value)["id"]
            if i in self.times:
                self.duplicates += 1
            else:
                self.times[i] = now


def _await_first(run: Run, traffic: Traffic, answers: Answers) -> None:
    traffic.one()
    until = time.monotonic() + FIRST_ANSWER_S
    while not answers.times:
        run.check()
        if time.monotonic() > until:
            sys.exit(f"no answer within {FIRST_ANSWER_S:.0f} seconds of the start")
        time.sleep(0.05)


def _batch(run: Run) -> int:
    """The number of the last batch that ended; -1 before the first has."""
    return max((progress.batch for progress in run.progress()), default=-1)


if __name__ == "__main__":
    main()
