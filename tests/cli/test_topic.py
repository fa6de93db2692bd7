from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer as Client
from typer.testing import Result

from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure

Call = Callable[..., Result]


@pytest.fixture
def name(connection: Connection, topic: Callable[[], str]) -> str:
    """A topic of one partition, which keeps also records with an old timestamp."""
    ensure(connection, [Topic(topic_name := topic(), retention_ms=-1)])
    return topic_name


def values(result: Result) -> list[str]:
    return [json.loads(line)["value"] for line in result.stdout.splitlines()]


def test_ls_lists_topics_with_their_partitions(talk: Call, connection: Connection, topic: Callable[[], str]):
    ensure(connection, [Topic(wide := topic(), partitions=3)])
    assert {"name": wide, "partitions": 3} in json.loads(talk("topic", "ls", "--json").stdout)
    assert re.search(rf"(?m)^{wide} +3$", talk("topic", "ls").stdout)
    assert "__consumer_offsets" not in talk("topic", "ls").stdout


def test_describe_shows_offsets_and_configuration(talk: Call, connection: Connection, topic: Callable[[], str]):
    ensure(connection, [Topic(one := topic(), retention_ms=60_000)])
    talk("topic", "produce", one, given="a\nb\n")
    shown = talk("topic", "describe", one).stdout
    assert re.search(r"(?m)^0 +0 +2 +2$", shown)
    assert re.search(r"(?m)^retention\.ms +60000$", shown)
    assert json.loads(talk("topic", "describe", one, "--json").stdout)["partitions"] == [
        {"partition": 0, "first": 0, "next": 2}
    ]


@pytest.mark.parametrize("command", ["describe", "tail", "produce"])
def test_a_topic_that_is_not_there(talk: Call, command: str):
    result = talk("topic", command, "nowhere", given="x\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("HR-205  ")


# produce


def test_produce_writes_a_record_a_line(talk: Call, connection: Connection, name: str):
    result = talk("topic", "produce", name, "--key", "k", "--header", "a=1", "--header", "b=x=y", given="one\r\n\ntwo")
    assert result.stdout == f"2 records written; the last at {name}[0]@1\n"
    found = list(read(connection, name))
    assert [(one.key, one.value, one.headers) for one in found] == [
        (b"k", b"one", (("a", b"1"), ("b", b"x=y"))),
        (b"k", b"two", (("a", b"1"), ("b", b"x=y"))),
    ]


def test_produce_takes_the_key_out_of_the_line(talk: Call, connection: Connection, name: str):
    lines = ['{"card": "c1"}', '{"card": 1.10}', '{"card": true}', '{"card": "\\u00e9"}']
    result = talk("topic", "produce", name, "--key-field", "card", "--json", given="\n".join(lines))
    assert json.loads(result.stdout) == {"records": 4, "positions": [f"{name}[0]@3"]}
    assert [one.key for one in read(connection, name)] == [b"c1", b"1.10", b"true", "é".encode()]


@pytest.mark.parametrize("line", ["{}", '{"card": null}', '{"card": {"a": 1}}', "[]", "not JSON \x1b[2J"])
def test_a_line_without_a_key_ends_it(talk: Call, connection: Connection, name: str, line: str):
    result = talk("topic", "produce", name, "--key-field", "card", given=f'{{"card": "c1"}}\n{line}\n{{"card": "c2"}}')
    assert result.exit_code == 1
    assert result.stderr.startswith("HR-341  ")
    assert "Line 2 " in result.stderr
    assert "\x1b" not in result.stderr
    assert [one.key for one in read(connection, name)] == [b"c1"]


def test_produce_keeps_bytes_as_they_are(talk: Call, connection: Connection, name: str):
    talk("topic", "produce", name, given=b"\xff\x00\x1b\n")
    assert [one.value for one in read(connection, name)] == [b"\xff\x00\x1b"]


@pytest.mark.parametrize("options", [["--key", "a", "--key-field", "b"], ["--header", "nothing"], ["--header", "=x"]])
def test_options_that_make_no_sense(talk: Call, options: list[str]):
    assert talk("topic", "produce", "any", *options).exit_code == 2


def test_nothing_to_produce(talk: Call, name: str):
    assert talk("topic", "produce", name, given="").stdout == "0 records written\n"


# tail


def test_tail_shows_the_last_records_by_time(talk: Call, connection: Connection, topic: Callable[[], str]):
    ensure(connection, [Topic(wide := topic(), partitions=3, retention_ms=-1)])
    with Producer(connection) as producer:
        for number in range(12):
            producer.send(wide, str(number), partition=number % 3, timestamp=1_000_000 + number)
    assert values(talk("topic", "tail", wide, "--json")) == [str(number) for number in range(2, 12)]
    assert values(talk("topic", "tail", wide, "-n", 2, "--json")) == ["10", "11"]
    assert values(talk("topic", "tail", wide, "-n", 2, "--partition", 0, "--json")) == ["6", "9"]
    assert values(talk("topic", "tail", wide, "-n", 0, "--json")) == []
    assert sorted(map(int, values(talk("topic", "tail", wide, "-n", 99, "--json")))) == list(range(12))
    beginning = talk("topic", "tail", wide, "--from", "beginning", "--partition", 1, "--json")
    assert values(beginning) == ["1", "4", "7", "10"]
    assert values(talk("topic", "tail", wide, "--from", "end", "--partition", 1, "--json")) == []
    assert talk("topic", "tail", wide, "--from", "3").exit_code == 2
    assert talk("topic", "tail", wide, "--partition", "3").exit_code == 2


def test_tail_passes_over_offsets_that_are_no_records(talk: Call, connection: Connection, name: str):
    client = Client(connection.client(**{"transactional.id": name}))
    client.init_transactions(10)
    for number in range(4):
        client.begin_transaction()
        client.produce(name, str(number))
        client.commit_transaction(10)
    assert values(talk("topic", "tail", name, "-n", 3, "--json")) == ["1", "2", "3"]


def test_tail_from_a_place(talk: Call, connection: Connection, name: str):
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    with Producer(connection) as producer:
        for number in range(20):
            producer.send(name, str(number), timestamp=noon.replace(minute=number))
    assert values(talk("topic", "tail", name, "--from", "beginning", "--json")) == [str(n) for n in range(20)]
    assert values(talk("topic", "tail", name, "--from", "beginning", "-n", 2, "--json")) == ["0", "1"]
    assert values(talk("topic", "tail", name, "--from", "18", "--json")) == ["18", "19"]
    assert values(talk("topic", "tail", name, "--from", "2026-03-01T12:18:00Z", "--json")) == ["18", "19"]
    assert values(talk("topic", "tail", name, "--from", "2026-03-01T13:17:30+01:00", "--json")) == ["18", "19"]
    assert values(talk("topic", "tail", name, "--from", "end", "--json")) == []
    assert "HR-225" in talk("topic", "tail", name, "--from", "21").stderr
    assert "time zone" in talk("topic", "tail", name, "--from", "2026-03-01T12:18:00").stderr
    assert talk("topic", "tail", name, "--from", "yesterday").exit_code == 2


def test_tail_shows_what_strangers_wrote_without_harm(talk: Call, connection: Connection, name: str):
    with Producer(connection) as producer:
        producer.send(name, b"\xff\x1b]0;owned\x07\n", key="\x1b[2J", headers={"h\x1b": b"\x9b\xff"}, timestamp=1)
        producer.send(name, None)
    shown = talk("topic", "tail", name, "--headers")
    first, header, second = shown.stdout.splitlines()
    assert first == "[0]@0  1970-01-01T00:00:00.001Z  \\x1b[2J  \\xff\\x1b]0;owned\\x07\\n"
    assert header == "    h\\x1b: \\x9b\\xff"
    assert re.fullmatch(r"\[0\]@1  \S+  <null>  <null>", second)
    exact = [json.loads(line) for line in talk("topic", "tail", name, "--json").stdout.splitlines()]
    assert exact[0]["value"] == {"base64": "/xtdMDtvd25lZAcK"}
    assert exact[0]["key"] == "\x1b[2J"
    assert exact[0]["headers"] == [["h\x1b", {"base64": "m/8="}]]
    assert exact[1]["value"] is None


def test_following_shows_each_record_once_until_interrupted(
    process: Callable[..., subprocess.Popen[str]], connection: Connection, bootstrap: str, name: str
):
    with Producer(connection) as producer:
        for number in range(3):
            producer.send(name, str(number))
    running = process("topic", "tail", name, "-n", 2, "-f", "--json", HEADRACE_BOOTSTRAP=bootstrap)
    assert running.stdout is not None
    try:
        seen = [json.loads(running.stdout.readline())["value"] for _ in range(2)]
        with Producer(connection) as producer:
            producer.send(name, "3")
        seen.append(json.loads(running.stdout.readline())["value"])
        running.send_signal(signal.SIGINT)
        rest, errors = running.communicate(timeout=30)
    finally:
        running.kill()
    assert seen == ["1", "2", "3"]
    assert (running.returncode, rest, errors) == (0, "", "")
