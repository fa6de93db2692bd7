from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from headrace.log import dead
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure

Call = Callable[..., Result]


@pytest.fixture
def source(connection: Connection, topic: Callable[[], str]) -> str:
    """A topic of three records, of which the query `q` refused all."""
    name = topic()
    ensure(connection, [Topic(name), dead.declaration(name)])
    with Producer(connection) as producer:
        for value in (b'{"id":1}', b"\x1b[2J\xff", b"last"):
            producer.send(name, value, key="k", headers={"mine": "yes"})
    with Producer(connection) as producer:
        for record in list(read(connection, name)):
            producer.send(**dead.to_record(record, reason="not an\x1b object", query="q"))
    return name


def counts(result: Result, name: str) -> tuple[int, int]:
    return next((one["records"], one["pending"]) for one in json.loads(result.stdout) if one["topic"] == name)


def test_ls_counts_what_each_topic_has(talk: Call, source: str, tmp_path: Path):
    assert counts(talk("dead", "ls", "--json"), source) == (3, 3)
    assert re.search(rf"(?m)^{source} +3 +3$", talk("dead", "ls").stdout)
    app = tmp_path / "app.py"
    app.write_text(f'import headrace as hr\napp = hr.App("a")\napp.stream("s", schema="id int", topic="{source}")\n')
    assert json.loads(talk("dead", "ls", app, "--json").stdout) == [{"topic": source, "records": 3, "pending": 3}]
    app.write_text('import headrace as hr\napp = hr.App("a")\napp.stream("s", schema="id int", topic="healthy")\n')
    result = talk("dead", "ls", app)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "there are no dead letters\n")


@pytest.mark.parametrize("suffix", ["", ".dead"])
def test_ls_lists_the_letters_of_a_topic(talk: Call, source: str, suffix: str):
    lines = talk("dead", "ls", source + suffix).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [f"{source}.dead[0]@{offset}" for offset in range(3)]
    assert lines[0].endswith("  q  not an\\x1b object")
    assert len(talk("dead", "ls", source, "-n", 2).stdout.splitlines()) == 2


def test_show_gives_the_whole_letter(talk: Call, source: str):
    shown = talk("dead", "show", source, "--offset", "0:1").stdout
    assert shown.splitlines()[0] == f"{source}.dead[0]@1"
    assert f"  source  {source}[0]@1" in shown
    assert "  reason  not an\\x1b object" in shown
    assert "  value   \\x1b[2J\\xff" in shown
    assert "    mine: yes" in shown
    assert "\x1b" not in shown
    everything = [json.loads(line) for line in talk("dead", "show", source, "--json").stdout.splitlines()]
    assert [one["value"] for one in everything] == ['{"id":1}', {"base64": "G1sySv8="}, "last"]
    by_position = talk("dead", "show", source, "--offset", f"{source}.dead[0]@1").stdout
    assert by_position == shown


def test_a_letter_that_is_not_there(talk: Call, source: str):
    assert "HR-235" in talk("dead", "show", source, "--offset", "0:3").stderr
    assert "HR-235" in talk("dead", "replay", source, "--offset", "0:3", "--yes").stderr
    assert "HR-214" in talk("dead", "show", source, "--offset", "three").stderr
    assert "HR-205" in talk("dead", "ls", "nowhere").stderr


def test_replay_puts_back_the_chosen_and_then_the_rest(talk: Call, connection: Connection, source: str):
    assert talk("dead", "replay", source, "--offset", "0:1", "--yes").stdout == "1 record put back, 2 pending\n"
    assert [one.value for one in read(connection, source)][3:] == [b"\x1b[2J\xff"]
    assert [line.split()[0] for line in talk("dead", "ls", source, "--pending").stdout.splitlines()] == [
        f"{source}.dead[0]@0",
        f"{source}.dead[0]@2",
    ]
    rest = json.loads(talk("dead", "replay", source, "--all", "--yes", "--json").stdout)
    assert rest == {"topic": source, "replayed": 2, "pending": 0}
    assert counts(talk("dead", "ls", "--json"), source) == (3, 0)
    assert source not in talk("dead", "ls", "--pending").stdout


def test_replay_asks_first(talk: Call, connection: Connection, source: str):
    for answer in ("n\n", ""):
        refused = talk("dead", "replay", source, "--all", given=answer)
        assert refused.exit_code == 1
        assert "put back" not in refused.stdout
        assert "Put 3 dead letters back" in refused.stderr
    assert len(list(read(connection, source))) == 3
    assert talk("dead", "replay", source, "--all", given="y\n").stdout.endswith("3 records put back, 0 pending\n")


def test_replay_wants_to_know_which(talk: Call, source: str):
    assert talk("dead", "replay", source, "--yes").exit_code == 2
    assert talk("dead", "replay", source, "--all", "--offset", "0:1", "--yes").exit_code == 2
