"""Windows: Nexmark's q5, q7, q11, q12, q15, q16, q17 and the sliding count, beside Flink in one run, on two cores.

    python -m bench.windows [--events 2000000] [--warm 2] [--state hashmap] [--only q5 hopping …] [--quick]

First the answers: two sets of 200,000 events, one in order and one with a second of disorder, through the queries as
the product runs them (exact mode, Kafka to Kafka) and against an oracle in plain Python. Then the throughput: the whole
topic to a sink that discards, each engine in a new process, one after the other; cold is the first run in it, warm the
median of the others. Both read the same topic with the same watermark delay, two tasks and checkpoints. Flink keeps its
state as `--state` says (`hashmap`: on the heap), Headrace in RocksDB. Without Flink there are Headrace's figures alone.

`hopping` is a hopping window of 10 minutes every minute over payments of 100,000 keys; `keys` is what an event costs
with 10,000 to 1,000,000 keys. `live` is the sliding count in live mode, end to end. The bench fails when an answer is
wrong.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

import headrace as hr
from bench.ground import Ground, ground
from bench.latency import measure as latency
from bench.nexmark import ours, peer
from bench.nexmark.comparison import arguments, asked, checked, compared, print_compared
from bench.nexmark.queries import PARTITIONS, WINDOWS
from bench.result import Result, print_result, print_table
from bench.rounds import Speed, rounds
from headrace.engine.mode import Mode

GOALS = {**dict.fromkeys(WINDOWS, 0.7), "q5": 1.0, "q7": 1.0, "q11": 1.0}
PAYMENTS = "payments"
PAYMENTS_A_SECOND = 10_000
KEYS = (10_000, 50_000, 200_000, 1_000_000)
HOPPING_KEYS = 100_000
CASES = (*WINDOWS, "hopping", "keys", "live")


@dataclass(frozen=True, kw_only=True)
class Keyed(Result):
    """A case with so many keys, and what it costs an event."""

    keys: int
    microseconds_an_event: float
    cpu_microseconds_an_event: float


def main() -> None:
    given = asked(arguments("python -m bench.windows", "Windows, beside Flink.", CASES))
    queries = [query for query in WINDOWS if query in given.only]
    wrong: list[str] = []
    with ground("windows", master=ours.MASTER) as here:
        if queries:
            flink = peer.flink()
            right = checked(here, queries, given.checked, wrong)
            results = compared(
                here, flink, right, goals=GOALS, count=given.events, warm=given.warm, state=given.state
            )  # fmt: skip
            print_compared(results, f"{given.events:,} events, local[2], Flink's state: {given.state}")
        if "hopping" in given.only or "keys" in given.only:
            here.load(PAYMENTS, payments(given.events), partitions=PARTITIONS)
        if "hopping" in given.only:
            result = _hopping(here, given.events, given.warm)
            print_result(result)
            print_table([result], f"10 minutes every minute, {HOPPING_KEYS:,} keys, {given.events:,} payments")
        if "keys" in given.only:
            _print_keys([*_keys(here, given.events)], f"{given.events:,} payments, warm")
    if "live" in given.only:
        with ground("windows") as here:
            warmup = 2.0 if given.quick else 20.0
            result = latency(here, sliding, Mode.LIVE, rate=1_000, warmup=warmup, seconds=given.seconds)
            result = replace(result, goal_p50_ms=10.0, goal_p99_ms=100.0)
            print_result(result)
            print_table([result], f"1,000 events/s, {given.seconds:g} s after {warmup:g} s of warm-up")
    if wrong:
        sys.exit("\n".join(wrong))


# Payments


def payments(count: int, *, seed: int = 1) -> Iterator[bytes]:
    """Payments, `PAYMENTS_A_SECOND` of them a second of event time."""
    dice = random.Random(seed)
    start, step = datetime(2026, 1, 1, tzinfo=UTC), 1_000_000 // PAYMENTS_A_SECOND
    second = ""
    for n in range(count):
        place = n % PAYMENTS_A_SECOND
        if place == 0:
            second = (start + timedelta(seconds=n // PAYMENTS_A_SECOND)).strftime("%Y-%m-%dT%H:%M:%S")
        cents = int(dice.random() * 50_000)
        yield f'{{"id":{n},"amount":{cents // 100}.{cents % 100:02},"at":"{second}.{place * step:06}Z"}}'.encode()


def sliding(rows: DataFrame) -> DataFrame:
    """Each payment with how many its card had in the last minute."""
    recent = hr.sliding(rows.where("amount > 0"), by="card", within="1 minute", n=hr.count())
    return recent.where("change = '+'").select("id", "card", "n")


def _hopping(here: Ground, count: int, warm: int) -> Result:
    speed = rounds({"hopping": lambda: _run(here, _in_hopping, HOPPING_KEYS)}, events=count, warm=warm)["hopping"]
    return Result(
        case="hopping",
        mode=str(Mode.EXACT),
        events=count,
        events_per_second=speed.warm,
        events_per_cpu_second=speed.warm_by_cpu,
        cold_events_per_second=speed.cold,
        goal_events_per_second=60_000,
    )


def _keys(here: Ground, count: int) -> Iterator[Keyed]:
    """What an event costs with few keys and with many."""
    for case, rows in {"hopping": _in_hopping, "sliding": _in_sliding}.items():
        ways = {f"{case}, {keys:,} keys": lambda rows=rows, keys=keys: _run(here, rows, keys) for keys in KEYS}
        for keys, speed in zip(KEYS, rounds(ways, events=count, warm=1).values(), strict=True):
            yield _keyed(case, keys, speed, count)


def _keyed(case: str, keys: int, speed: Speed, count: int) -> Keyed:
    result = Keyed(
        case=case,
        mode=str(Mode.EXACT),
        events=count,
        keys=keys,
        events_per_second=speed.warm,
        events_per_cpu_second=speed.warm_by_cpu,
        microseconds_an_event=round(1e6 / speed.warm, 2),
        cpu_microseconds_an_event=round(1e6 / speed.warm_by_cpu, 2),
    )
    print_result(result)
    return result


def _print_keys(results: Sequence[Keyed], caption: str) -> None:
    table = Table(caption=caption, caption_justify="left")
    for name in ("case", "keys", "events/s", "µs an event", "µs of CPU"):
        table.add_column(name, justify="right")
    for one in results:
        cpu = f"{one.cpu_microseconds_an_event:,}"
        table.add_row(one.case, f"{one.keys:,}", f"{one.events_per_second:,}", f"{one.microseconds_an_event:,}", cpu)
    Console(stderr=True).print(table)


def _in_hopping(rows: DataFrame) -> DataFrame:
    hops = hr.hopping("10 minutes", "1 minute")
    return hr.window(rows, hops, by="card", n=hr.count(), spent=hr.sum("amount"))


def _in_sliding(rows: DataFrame) -> DataFrame:
    return hr.sliding(rows, by="card", within="1 minute", emit="final", n=hr.count(), spent=hr.sum("amount"))


def _run(here: Ground, rows: Callable[[DataFrame], DataFrame], keys: int) -> None:
    """All payments once, of so many cards."""
    app = hr.App("windows")
    schema = "id bigint, amount double, at timestamp"
    app.source("events", topic=PAYMENTS, schema=schema, event_time="at", delay="5 seconds", partitions=PARTITIONS)

    @app.stream
    def result(events: DataFrame) -> DataFrame:
        return rows(events.selectExpr("id", "amount", "at", f"pmod(xxhash64(id), {keys}) as card"))

    ours.measure(here.spark, here.connection, app, here.settings.state / "checkpoints" / "windows")


if __name__ == "__main__":
    main()
