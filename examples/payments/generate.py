"""Card transactions as terminals send them: most of them fine, some of them twice, a few of them broken.

    python generate.py --rate 200 --for 30s

Of the records about 3 % are copies of an earlier one, byte for byte, up to two seconds after it, and about 0.5 % are
malformed, in one of five ways. About one transaction in ten is suspicious; which ones, and by which rule, is decided
when the transaction is made and not by looking at it afterwards, so that it checks the app and does not repeat it.
Every malformed record would be suspicious if it were taken.

The same seed, run, start and rate give the same records. The ids of two runs differ.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count, takewhile
from pathlib import Path
from typing import Any, Literal

from headrace import duration
from headrace.app import load
from headrace.engine import topics
from headrace.errors import HeadraceError
from headrace.graph.plan import plan
from headrace.log import topic
from headrace.log.codec import encode, iso
from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.parts.embedded import Parts
from headrace.settings import Settings

APP = Path(__file__).with_name("app.py")
TOPIC = "transactions"
COPY_HEADER = "copy"
COPIES = 0.03
MALFORMED = 0.005
SUSPICIOUS = 0.1
LONGEST_RETRY_S = 2.0
CARDS = 500
COUNTRIES = ("DE", "FR", "GB", "IT", "PL", "US")
MERCHANTS = ("bakery", "books", "café", "cinema", "fuel", "grocer", "hotel", "pharmacy", "shoes", "train")
FAULTS = ("broken JSON", "wrong type", "missing field", "invalid UTF-8", "time without zone")

Kind = Literal["event", "copy", "malformed"]


@dataclass(frozen=True)
class Record:
    """One record to be sent, `due` seconds after the start; `rule` is that of the alert it must cause."""

    due: float
    kind: Kind
    id: str
    card: str
    value: bytes
    rule: str | None = None
    fault: str | None = None


@dataclass
class Tally:
    """What was sent: counts, the rule by the id of each alert that must come, and when each of those was sent."""

    events: int = 0
    copies: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    alerts: dict[str, str] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)

    @property
    def malformed(self) -> int:
        """Records that must become dead letters."""
        return self.faults.total()

    @property
    def records(self) -> int:
        """All of them."""
        return self.events + self.copies + self.malformed

    def add(self, record: Record, moment: float = 0.0) -> None:
        """Count a record that is sent at this moment."""
        if record.fault is not None:
            self.faults[record.fault] += 1
        elif record.kind == "copy":
            self.copies += 1
        else:
            self.events += 1
            if record.rule is not None:
                self.sent_at[record.id] = moment
                self.alerts[record.id] = record.rule

    def __str__(self) -> str:
        return (
            f"{self.records:,} records: {self.events:,} transactions, of which {len(self.alerts):,} suspicious; "
            f"{self.copies:,} copies; {self.malformed:,} malformed"
        )


def records(*, seed: int, run: str, start: datetime, rate: float) -> Iterator[Record]:
    """Records without end, `rate` a second; ids begin with `run`."""
    chance = random.Random(seed)  # noqa: S311 - test data, not a secret
    cards = [(f"{chance.randrange(10**12):012d}", chance.choice(COUNTRIES)) for _ in range(CARDS)]
    copies: list[tuple[float, int, Record]] = []
    for number in count():
        due = number / rate
        if copies and copies[0][0] <= due:
            yield replace(heapq.heappop(copies)[2], due=due, kind="copy")
            continue
        card, home = chance.choice(cards)
        fault = chance.choice(FAULTS) if chance.random() < MALFORMED else None
        rule = _rule(chance, suspicious=fault is not None or chance.random() < SUSPICIOUS)
        at = start + timedelta(seconds=due - chance.uniform(0, 0.5))
        name = f"{run}-{number:07d}"
        transaction = {
            "id": name,
            "card": card,
            "merchant": chance.choice(MERCHANTS),
            "home": home,
            "at": at,
            **_payment(chance, home, rule),
        }
        if fault is not None:
            yield Record(due, "malformed", name, card, _broken(chance, transaction, fault), fault=fault)
            continue
        record = Record(due, "event", name, card, encode(transaction), rule)
        if chance.random() < COPIES:
            heapq.heappush(copies, (due + chance.uniform(0, LONGEST_RETRY_S), number, record))
        yield record


def _rule(chance: random.Random, *, suspicious: bool) -> str | None:
    return chance.choice(("large amount", "abroad")) if suspicious else None


def _payment(chance: random.Random, home: str, rule: str | None) -> dict[str, Any]:
    """Where and how much; now and then just at the limit of a rule."""
    abroad = chance.choice([country for country in COUNTRIES if country != home])
    at_limit = chance.random() < 0.02
    if rule == "large amount":
        return {"country": chance.choice((home, abroad)), "amount": 2000.0 if at_limit else _euros(chance, 2000, 9000)}
    if rule == "abroad":
        return {"country": abroad, "amount": 500.0 if at_limit else _euros(chance, 500, 1999)}
    if chance.random() < 0.1:
        return {"country": abroad, "amount": 499.99 if at_limit else _euros(chance, 1, 499)}
    return {"country": home, "amount": 1999.99 if at_limit else _euros(chance, 1, 1999)}


def _euros(chance: random.Random, least: int, most: int) -> float:
    return chance.randrange(least * 100, most * 100) / 100


def _broken(chance: random.Random, transaction: dict[str, Any], fault: str) -> bytes:
    """The record with one of the faults; otherwise as it should be."""
    whole = encode(transaction)
    match fault:
        case "broken JSON":
            return whole[: chance.randrange(1, len(whole))]
        case "wrong type":
            return encode({**transaction, "amount": str(transaction["amount"])})
        case "missing field":
            missing = chance.choice(("id", "card", "amount", "country", "at"))
            return encode({name: value for name, value in transaction.items() if name != missing})
        case "invalid UTF-8":
            return encode({**transaction, "merchant": "@"}).replace(b"@", b"caf\xe9")
        case _:
            return encode({**transaction, "at": iso(transaction["at"]).removesuffix("Z")})


def send(producer: Producer, made: Iterable[Record], tally: Tally, stop: threading.Event | None = None) -> None:
    """Send each record when it is due, until `stop`; then wait until the broker has all of them."""
    stop = stop or threading.Event()
    began = time.monotonic()
    with producer:
        for record in made:
            if stop.wait(max(0.0, began + record.due - time.monotonic())):
                return
            tally.add(record, time.monotonic())
            headers = {COPY_HEADER: "1"} if record.kind == "copy" else {}
            producer.send(TOPIC, record.value, key=record.card, headers=headers)


def run_name() -> str:
    """A name that no other run has: the time, short, in order."""
    return f"{time.time_ns() // 1_000_000:x}"


def ensure_topics(connection: Connection) -> list[str]:
    """Make the topics of the app; the names of those that were missing."""
    graph = load(APP).graph()
    return topic.ensure(connection, topics.needed(graph, plan(graph)))


def seconds(text: str) -> float:
    """A duration of the command line."""
    try:
        return duration.parse(text) / 1000
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def per_second(text: str) -> float:
    """A rate of the command line."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0
    if not 0 < rate <= 100_000:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of records a second between 0 and 100,000")
    return rate


def options(description: str) -> argparse.ArgumentParser:
    """The options that the generator and the demo share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rate", type=per_second, default=200, help="records a second (200)")
    parser.add_argument("--for", type=seconds, dest="lasting", metavar="DURATION", help="end by itself, such as 60s")
    parser.add_argument("--seed", type=int, default=1, help="what the transactions are made from (1)")
    parser.add_argument(
        "--directory", type=Path, default=APP.parent, help="where settings and state are (beside the app)"
    )
    return parser


def main() -> None:
    """Send to the Kafka of the settings, or to the embedded one: that of an app that runs, or else one of its own."""
    given = options("Send card transactions to the app.").parse_args()
    lasting = math.inf if given.lasting is None else given.lasting
    tally = Tally()
    try:
        with Parts.start(Settings.load(given.directory), report=print) as parts:
            connection = Connection(parts.bootstrap, parts.kafka_options)
            ensure_topics(connection)
            made = records(seed=given.seed, run=run_name(), start=datetime.now(UTC), rate=given.rate)
            with suppress(KeyboardInterrupt):
                send(Producer(connection), takewhile(lambda record: record.due < lasting, made), tally)
    except HeadraceError as error:
        sys.exit(str(error))
    print(tally)


if __name__ == "__main__":
    main()
