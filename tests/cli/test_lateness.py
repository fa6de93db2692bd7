from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from typer.testing import Result

from headrace.log.connection import Connection
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ensure

Call = Callable[..., Result]
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)

APP = """
import headrace as hr

app = hr.App("shop")
app.stream("orders", topic="{topic}", schema="id string, at timestamp", event_time="at", delay="5 seconds", id="id")
app.stream("names", schema="id string", id="id")
"""


def declare(tmp_path: Path, topic: str) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP.format(topic=topic), encoding="utf-8")
    return file


def test_it_says_which_delay_covers_how_many(
    talk: Call, connection: Connection, topic: Callable[[], str], tmp_path: Path
):
    ensure(connection, [Topic(name := topic())])
    with Producer(connection) as producer:
        for n in range(100):
            late = 7 if n % 10 == 9 else 0
            producer.send(name, {"id": f"o{n}", "at": NOON + timedelta(seconds=n - late)})
        producer.send(name, b"no event")
    app = declare(tmp_path, name)
    told = json.loads(talk("lateness", app, "orders", "--json").stdout)
    assert (told["events"], told["unread"]) == (100, 1)
    assert told["delay_ms"]["0.9"] == 0
    assert told["delay_ms"]["0.99"] == 6000
    assert told["declared_delay_covers"] == 0.9
    assert sum(count for _, count in told["histogram"]) == 100
    shown = talk("lateness", app, "orders").stdout
    assert re.search(r"delay 6s +covers 99 %", shown)
    assert "The declared delay of 5s covers 90 %." in shown
    assert "1 records without a readable one" in shown
    assert json.loads(talk("lateness", app, "orders", "--last", 10, "--json").stdout)["events"] == 9


def test_a_stream_without_an_event_time_is_named(talk: Call, topic: Callable[[], str], tmp_path: Path):
    app = declare(tmp_path, topic())
    for name in ("names", "nope"):
        refused = talk("lateness", app, name)
        assert refused.exit_code == 1
        assert "HR-342" in refused.output
        assert "orders" in refused.output
