"""Three live queries in a row are stopped with SIGTERM, killed with -9, and started in another mode: every view is the
batch answer, and whoever reads a stream with `hr.read` has each row once.

The first function has two readers, so it has a topic; a window is behind it, and a view behind the window. `make test`
hurts it twice; `make torture` twenty times (HEADRACE_KILLS).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.torture.driver import STARTED_S, Background, Drivers, kill

import headrace as hr
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ends_of, ensure

KILLS = int(os.environ.get("HEADRACE_KILLS", "2"))
CARDS = [f"c{number}" for number in range(6)]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = timedelta(seconds=10)
REST_S = 5.0

APP = """
import headrace as hr

app = hr.App("chained")
app.stream("payments", topic="{payments}", schema="id string, card string, amount int, at timestamp",
           event_time="at", delay="1 second", id="id", key="card")


@app.stream(topic="{large}", key="card")
def large(payments):
    return payments.where("amount >= 10")


@app.stream(topic="{tens}", key="card")
def tens(large):
    return hr.window(large, hr.tumbling("10 seconds"), by="card", n=hr.count(), spent=hr.sum("amount"))


@app.view(key="card", topic="{cards}")
def cards(tens):
    return hr.aggregate(tens, by="card", windows=hr.count(), n=hr.sum("n"), spent=hr.sum("spent"))


@app.view(key="card", topic="{totals}")
def totals(large):
    return hr.aggregate(large, by="card", n=hr.count(), spent=hr.sum("amount"))
"""


class Sender(Background):
    """Pays with every card until it is told to stop, and then once far later, which closes the windows."""

    def __init__(self, connection: Connection, topic: str, seed: int) -> None:
        super().__init__()
        self.connection, self.topic, self.dice = connection, topic, random.Random(seed)
        self.sent: list[dict[str, Any]] = []
        self.last: list[dict[str, Any]] = []

    def run(self) -> None:
        with Producer(self.connection) as producer:
            while not self.done.wait(0.05):
                self._send(
                    producer, self.dice.choice(CARDS), BEGIN + len(self.sent) * timedelta(seconds=0.2), self.sent
                )
            for card in CARDS:
                self._send(producer, card, BEGIN + timedelta(days=30), self.last)

    def _send(self, producer: Producer, card: str, at: datetime, kept: list[dict[str, Any]]) -> None:
        amount = 10 if kept is self.last else self.dice.randrange(5, 50)
        kept.append({"id": f"p{len(self.sent) + len(self.last)}", "card": card, "amount": amount, "at": at})
        producer.send(self.topic, kept[-1], key=card)


def window_of(at: datetime) -> datetime:
    return BEGIN + (at - BEGIN) // WINDOW * WINDOW


def totals_of(payments: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """How many there are of each card, and how much they add up to."""
    found: dict[str, tuple[int, int]] = {}
    for payment in payments:
        n, spent = found.get(payment["card"], (0, 0))
        found[payment["card"]] = (n + 1, spent + payment["amount"])
    return found


def rows_of(connection: Connection, view: str) -> dict[str, dict[str, Any]]:
    last = {record.key: record.value for record in read(connection, view)}
    return {row["card"]: row for row in (json.loads(value) for value in last.values() if value is not None)}


@pytest.mark.timeout(900 + 180 * KILLS)
def test_a_chain_of_live_queries_that_is_stopped_and_killed_has_the_batch_answer(bootstrap: str, tmp_path: Path, topic):
    seed = int(os.environ.get("HEADRACE_SEED", random.randrange(1_000_000)))
    print(f"HEADRACE_SEED={seed}")
    dice = random.Random(seed)
    connection = Connection(bootstrap)
    names = {name: topic(name) for name in ("payments", "large", "tens", "cards", "totals")}
    ensure(connection, [Topic(names[name], 2) for name in ("payments", "large", "tens")])
    ensure(connection, [Topic(names[name], 2, compacted=True) for name in ("cards", "totals")])
    app, log = tmp_path / "app.py", tmp_path / "run.log"
    app.write_text(APP.format(**names))
    written = [names[name] for name in ("large", "tens", "cards", "totals")]

    def grows(process: subprocess.Popen[bytes]) -> None:
        """Until every topic has more than it had."""
        before, until = ends_of(connection, written), time.monotonic() + STARTED_S
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, f"no output within {STARTED_S} s: {log.read_text()}"
            now = ends_of(connection, written)
            more = {name for (name, partition), end in now.items() if end > before[name, partition]}
            if more == set(written):
                return
            time.sleep(0.5)

    def rests(process: subprocess.Popen[bytes], wanted: dict[str, tuple[int, int]]) -> None:
        """Until the view behind all others has what it must, or nothing is written any more."""
        before, since, until = {}, time.monotonic(), time.monotonic() + STARTED_S
        while time.monotonic() < until and time.monotonic() - since < 60:
            assert process.poll() is None, log.read_text()
            now = ends_of(connection, written)
            if now != before:
                before, since = now, time.monotonic()
            found = {card: (row["n"], row["spent"]) for card, row in rows_of(connection, names["cards"]).items()}
            if found == wanted and time.monotonic() - since > REST_S:
                return
            time.sleep(0.5)

    course: list[str] = []
    sender = Sender(connection, names["payments"], seed)
    drivers = {mode: Drivers(app, mode, bootstrap) for mode in ("live", "exact")}
    with drivers["live"], drivers["exact"], sender:
        for number in range(KILLS):
            mode = "live" if number == 0 else dice.choice(["live", "live", "exact"])
            # In a long batch everything is unfinished, in a short one only the last rows are.
            lasting = "1 minute" if number == 0 else dice.choice(["5 seconds", "1 minute"])
            (tmp_path / "headrace.toml").write_text(f'live_batch = "{lasting}"\n')
            process = drivers[mode].start()
            grows(process)
            time.sleep(dice.uniform(0, 8))
            if dice.random() < 0.5:
                course.append(f"{mode} {lasting}, SIGTERM")
                process.send_signal(signal.SIGTERM)
                assert process.wait(120) == 0, log.read_text()
            else:
                course.append(f"{mode} {lasting}, kill -9")
                assert (alive := kill(process)) == [], f"left behind by the killed driver: {alive} (seed {seed})"
        process = drivers["live"].start()
        grows(process)
        sender.stop()
        paid = [payment for payment in sender.sent if payment["amount"] >= 10]
        wanted = totals_of(paid)
        rests(process, wanted)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log.read_text()

    told = f"(seed {seed}: {'; '.join(course)})"
    assert len(paid) > 100, told
    everything = Counter(payment["id"] for payment in [*paid, *sender.last])
    assert Counter(row["id"] for row in hr.read(connection, names["large"])) == everything, told
    windows = Counter((payment["card"], window_of(payment["at"])) for payment in paid)
    read_windows = Counter(
        (row["card"], datetime.fromisoformat(row["window_start"])) for row in hr.read(connection, names["tens"])
    )
    assert read_windows == Counter(windows.keys()), told
    totals = {card: (row["n"], row["spent"]) for card, row in rows_of(connection, names["totals"]).items()}
    assert totals == totals_of([*paid, *sender.last]), told
    cards = {card: (row["n"], row["spent"]) for card, row in rows_of(connection, names["cards"]).items()}
    assert cards == wanted, told
