"""The payments example: the generator knows what it made, the app answers as the generator expects, and the demo comes
through kill -9 and ends clean. The demo itself compares every alert with the generator's expectation."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.app import load
from headrace.log.consumer import Record
from headrace.parts import part

EXAMPLE = Path(__file__).parents[2] / "examples" / "payments"
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
# A start on a busy machine.
START_S = 300


@pytest.fixture(scope="module")
def modules() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the example, as its scripts do."""
    before = set(sys.modules)
    sys.path.insert(0, str(EXAMPLE))
    yield importlib.import_module
    sys.path.remove(str(EXAMPLE))
    for name in ("generate", "observe", "screen"):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def generate(modules: Callable[[str], ModuleType]) -> Any:
    return modules("generate")


@pytest.fixture(scope="module")
def observe(modules: Callable[[str], ModuleType]) -> Any:
    return modules("observe")


# The generator


def made(generate: Any, count: int, seed: int = 7, run: str = "r") -> list[Any]:
    return list(islice(generate.records(seed=seed, run=run, start=START, rate=200), count))


def test_the_same_seed_gives_the_same_records(generate: Any):
    assert made(generate, 500) == made(generate, 500)
    assert [one.value for one in made(generate, 500)] != [one.value for one in made(generate, 500, seed=8)]


def test_two_runs_share_no_id(generate: Any):
    one, other = (made(generate, 500, run=run) for run in ("r1", "r2"))
    assert not {record.id for record in one} & {record.id for record in other}
    assert generate.run_name() != (time.sleep(0.002), generate.run_name())[1]


def test_the_tally_is_what_the_records_say(generate: Any):
    tally, events, copies, refused = generate.Tally(), {}, 0, 0
    for record in made(generate, 10_000):
        tally.add(record)
        if not fits(record.value):
            refused += 1
            assert record.kind == "malformed"
            continue
        row = json.loads(record.value)
        if row["id"] in events:
            copies += 1
            assert record.value == events[row["id"]]
        events[row["id"]] = record.value
    rules = {one: rule(json.loads(value)) for one, value in events.items()}
    assert (tally.events, tally.copies, tally.malformed) == (len(events), copies, refused)
    assert tally.records == 10_000
    assert tally.alerts == {one: found for one, found in rules.items() if found}
    assert set(tally.faults) == set(generate.FAULTS)
    assert 0.02 < tally.copies / tally.records < 0.04
    assert 0.003 < tally.malformed / tally.records < 0.008


def test_a_copy_comes_soon_after_its_original(generate: Any):
    sent = {}
    for record in made(generate, 5_000):
        if record.kind == "copy":
            assert 0 < record.due - sent[record.id] < generate.LONGEST_RETRY_S + 1
        else:
            sent[record.id] = record.due


def fits(value: bytes) -> bool:
    try:
        row = json.loads(value.decode())
    except ValueError:
        return False
    texts = all(isinstance(row.get(name), str) for name in ("id", "card", "country", "home", "at"))
    return texts and isinstance(row.get("amount"), float) and row["at"].endswith("Z")


def rule(row: dict[str, Any]) -> str | None:
    if row["amount"] >= 2000:
        return "large amount"
    return "abroad" if row["country"] != row["home"] and row["amount"] >= 500 else None


# The app


def test_the_batch_answer_is_the_generators(generate: Any, spark: SparkSession, tmp_path: Path):
    taken, tally = [record for record in made(generate, 4_000) if record.kind != "malformed"], generate.Tally()
    for record in taken:
        tally.add(record)
    (tmp_path / "transactions.json").write_bytes(b"\n".join(record.value for record in taken))
    declared: dict[str, Any] = {node.name: node for node in load(EXAMPLE / "app.py").definitions}
    rows = spark.read.schema(declared["transactions"].schema.ddl).json(str(tmp_path / "transactions.json"))
    unique = declared["unique"].function(hr.event_time(rows, "at")).cache()
    alerts = declared["alerts"].function(unique).collect()
    assert sorted(row.id for row in unique.collect()) == sorted(one.id for one in taken if one.kind == "event")
    assert len(alerts) == len(tally.alerts)
    assert {alert.id: alert.rule for alert in alerts} == tally.alerts
    unique.unpersist()


# The reader of the demo


def alert(seen: Any, name: str, rule: str, moment: float, timestamp_ms: int | None = None) -> None:
    row = {"id": name, "card": "1", "amount": 1.0, "rule": rule}
    at = seen.since_ms if timestamp_ms is None else timestamp_ms
    seen.take(Record("alerts", 0, 0, at, b"1", json.dumps(row).encode()), moment)


def test_alerts_are_compared_with_what_was_sent(generate: Any, observe: Any):
    tally = generate.Tally(alerts={"r-1": "abroad", "r-2": "abroad", "r-3": "abroad"})
    seen = observe.Seen("r", tally)
    alert(seen, "r-1", "abroad", 1.0)
    alert(seen, "r-1", "abroad", 1.1)
    alert(seen, "r-2", "large amount", 1.2)
    alert(seen, "r-9", "abroad", 1.3)
    alert(seen, "old-3", "abroad", 1.4)
    alert(seen, "r-3", "abroad", 1.5, timestamp_ms=seen.since_ms - 1)
    assert (seen.missing, seen.wrong, seen.repeated) == ({"r-3"}, {"r-2", "r-9"}, 1)
    assert not seen.complete
    alert(seen, "r-3", "abroad", 1.6)
    assert seen.complete


def test_only_dead_letters_of_this_run_count(generate: Any, observe: Any):
    tally = generate.Tally()
    tally.faults["wrong type"] = 1
    seen = observe.Seen("r", tally)
    for offset, age in ((5, 1), (6, 0), (6, 0)):
        headers = {"topic": "transactions", "partition": "1", "offset": str(offset)}
        headers["timestamp"] = str(seen.since_ms - age)
        written = tuple((f"headrace.{name}", value.encode()) for name, value in headers.items())
        seen.take(Record("transactions.dead", 0, offset, seen.since_ms, None, b"{", written), 1.0)
    assert len(seen.dead) == 1
    assert seen.complete


def test_latency_leaves_out_what_waited_for_the_start_and_the_warm_up(generate: Any, observe: Any):
    sent = {"r-1": 90.0, "r-2": 95.0, "r-3": 101.0, "r-4": 100.0 + observe.WARM_UP_S}
    seen = observe.Seen("r", generate.Tally(sent_at=sent))
    for name, moment in (("r-1", 100.0), ("r-2", 100.1), ("r-3", 101.5), ("r-4", 110.25)):
        alert(seen, name, "abroad", moment)
    assert [one.milliseconds for one in seen.recent] == [None, None, 500.0, 250.0]
    assert seen.settled == [250.0]


def test_quantiles_are_of_the_nearest_rank(observe: Any):
    latency = observe.Latency.of([float(n) for n in range(100, 0, -1)])
    assert (latency.alerts, latency.p50, latency.p95, latency.p99) == (100, 50.0, 95.0, 99.0)
    assert observe.Latency.of([]) is None


# The demo


@pytest.mark.timeout(900)
def test_the_demo_comes_through_kill_9_and_ends_clean(tmp_path: Path):
    with running(tmp_path, "first") as (demo, said):
        family = processes(demo, said, when="the app runs live")
        demo.kill()
        demo.wait()
        assert left(family) == []

    with running(tmp_path, "second", "--for", "15s") as (demo, said):
        family = processes(demo, said, when="the first alert has come")
        assert demo.wait(START_S) == 0, said()
        assert left(family) == []
    assert part.read(tmp_path / ".headrace" / "kafka") is None
    for name in ("alerts", "duplicates removed", "dead letters"):
        found = re.search(rf"^{name} +([\d,]+) of ([\d,]+)", said(), re.MULTILINE)
        assert found, said()
        assert found[1] == found[2] != "0", said()
    assert ": missing 0, wrong 0\n" in said()


@contextmanager
def running(directory: Path, name: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """The demo, and what it has said so far."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
    command = [sys.executable, EXAMPLE / "demo.py", "--directory", directory, *arguments]
    with (directory / name).open("wb") as output:
        demo = subprocess.Popen(command, env=inherited, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield demo, (directory / name).read_text
    finally:
        demo.kill()
        demo.wait()


def processes(demo: subprocess.Popen[bytes], said: Callable[[], str], when: str) -> list[psutil.Process]:
    """All that the demo has started when it says so: guard, Kafka and Spark."""
    deadline = time.monotonic() + START_S
    while when not in said():
        assert demo.poll() is None, said()
        assert time.monotonic() < deadline, said()
        time.sleep(0.2)
    family = psutil.Process(demo.pid).children(recursive=True)
    assert sorted(process.name() for process in family if process.name() == "java") == ["java", "java"]
    return family


def left(family: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run after the time that an orderly end may take."""
    deadline = time.monotonic() + 30
    while alive := [process for process in family if runs(process)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return alive


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
