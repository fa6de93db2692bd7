"""`headrace doctor`: what it says of an app, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.command import app as cli
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.dead import declaration, to_record
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure

APP = """
import headrace as hr

app = hr.App("{name}")
app.stream("payments", topic="{source}", schema="id string, amount double, at timestamp", event_time="at", partitions=2)


@app.stream(topic="{result}")
def large(payments):
    return payments.where("amount > 10")
"""


@pytest.fixture
def place(tmp_path: Path, topic: Callable[[str], str]) -> tuple[Path, str, str]:
    source, result = topic("payments"), topic("large")
    file = tmp_path / "app.py"
    file.write_text(APP.format(name=f"ill_{result}", source=source, result=result))
    return file, source, result


def asked(file: Path, *options: str) -> tuple[int, list[dict[str, str]]]:
    done = CliRunner().invoke(cli, ["doctor", str(file), "--json", *options])
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


def test_a_healthy_app(place: tuple[Path, str, str], bootstrap: str):
    file, source, result = place
    ensure(Connection(bootstrap), [Topic(source, 2), Topic(result, 2)])
    done = CliRunner().invoke(cli, ["doctor", str(file), "--bootstrap", bootstrap])
    assert (done.exit_code, done.stdout) == (0, "nothing is wrong\n")


def test_without_a_log_it_says_so(place: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HEADRACE_BOOTSTRAP", raising=False)
    code, findings = asked(place[0])
    assert code == 1
    assert [finding["of"] for finding in findings] == ["the log"]


def test_topics_letters_and_repeats(place: tuple[Path, str, str], bootstrap: str):
    file, source, result = place
    connection = Connection(bootstrap)
    ensure(connection, [Topic(source, 1), Topic(result, 2), declaration(source)])
    with Producer(connection) as producer:
        for _ in range(3):
            producer.send(source, b"{")
    letters = list(read(connection, source))
    with Producer(connection) as producer:
        for record in letters:
            producer.send(**to_record(record, reason="field `amount`: missing", query="large"))
        for _ in range(2):
            producer.send(result, {"id": "a"}, headers={"headrace.id": "large:x[0]@1#0"})
            producer.send(result, {"id": "b"})
    code, findings = asked(file, "--bootstrap", bootstrap)
    assert code == 1
    told = {finding["disease"]: finding for finding in findings}
    assert told["the topic has fewer partitions than declared"]["of"] == source
    vanished = told["3 records do not fit the schema, and are in no result"]
    assert vanished["evidence"] == "3 × field `amount`: missing"
    assert f"headrace dead replay {source}" in vanished["remedy"]
    assert "large:x[0]@1#0" in told["live mode has written results again after it was stopped or killed"]["evidence"]
    assert "equal rows stand in the output" in told


def test_results_that_are_out_of_order(place: tuple[Path, str, str], bootstrap: str):
    file, source, result = place
    connection = Connection(bootstrap)
    ensure(connection, [Topic(source, 2), Topic(result, 2)])
    with Producer(connection) as producer:
        for n, minute in enumerate((0, 1, 2, 1, 3)):
            producer.send(result, {"id": f"{n}", "at": f"2026-01-01T00:{minute:02}:00.000000Z"}, partition=0)
    code, (finding,) = asked(file, "--bootstrap", bootstrap)
    assert (code, finding["disease"]) == (0, "results are out of order")
    assert (
        finding["evidence"]
        == f"1 of the last 5 rows are older than one before them, by up to 0:01:00, at {result}[0]@3"
    )
    assert "key=…" in finding["remedy"]
    with Producer(connection) as producer:
        for n in range(200):
            producer.send(result, {"id": f"{n}", "at": f"2026-01-01T00:04:00.{n:06}Z"}, partition=0)
    assert asked(file, "--bootstrap", bootstrap) == (0, [])
