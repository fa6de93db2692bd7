from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from headrace.engine import progress
from headrace.engine.progress import Progress
from headrace.settings import Settings

Call = Callable[..., Result]


def told(query: str, **more: object) -> Progress:
    at = "2026-05-04T12:00:00.000Z"
    return Progress("shop", query, "exact", "running", at, at, 1, **more)  # pyright: ignore[reportArgumentType]


def test_it_shows_keys_and_bytes_of_every_operator(call: Call, tmp_path: Path):
    settings = Settings.load(tmp_path)
    operators = {"window": {"keys": 12, "bytes": 3456}, "top": {"keys": 1, "bytes": 99}}
    progress.write(settings, told("hourly", operators=operators, state_rows=40, state_bytes=80_000))
    progress.write(settings, told("plain"))
    shown = call("state").stdout
    assert [line.split()[:4] for line in shown.splitlines()[1:]] == [
        ["hourly", "(store)", "40", "80,000"],
        ["hourly", "top", "1", "99"],
        ["hourly", "window", "12", "3,456"],
    ]
    rows = json.loads(call("state", "hourly", "--json").stdout)
    assert {"query": "hourly", "operator": "window", "keys": 12, "bytes": 3456, "watermark": None} in rows


def test_a_query_that_is_not_there_is_named(call: Call, tmp_path: Path):
    progress.write(Settings.load(tmp_path), told("hourly"))
    assert "no query keeps a state" in call("state").stderr
    refused = call("state", "nope")
    assert refused.exit_code == 1
    assert "HR-311" in refused.output
    assert "hourly" in refused.output
