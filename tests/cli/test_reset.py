"""`reset` as its user sees it: what it says, that it asks, and what is left afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import Result

from headrace.app import load
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import RunError
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.producer import Producer
from headrace.settings import Settings

Call = Callable[..., Result]
APP = """
import headrace as hr

app = hr.App("{app}")
app.stream("payments", schema="id string, card string", topic="{app}.payments")

@app.stream(topic="{app}.large")
def large(payments):
    return payments.select("id")

@app.view(key="card", topic="{app}.cards")
def cards(payments):
    return payments.select("card")
"""


def test_a_query_begins_again_when_somebody_says_so(
    talk: Call, spark: SparkSession, bootstrap: str, tmp_path: Path, topic: Callable[[str], str]
):
    name, app, connection = topic("shop"), tmp_path / "app.py", Connection(bootstrap)
    app.write_text(APP.replace("{app}", name))

    def run() -> None:
        settings = Settings.load(tmp_path)
        with Run.start(load(app), mode=Mode.EXACT, settings=settings, bootstrap=bootstrap, spark=spark) as started:
            started.finish_input()

    def written(of: str) -> list[bytes | None]:
        return [record.value for record in read(connection, f"{name}.{of}")]

    run()
    with Producer(connection) as producer:
        producer.send(f"{name}.payments", {"id": "p1", "card": "c1"})
    run()
    shutil.rmtree(tmp_path / ".headrace" / "checkpoints")
    with pytest.raises(RunError, match="HR-315"):
        run()
    told = talk("doctor", app)
    assert told.exit_code == 1
    assert "another checkpoint has written" in told.output
    refused = talk("reset", app, "large", "--yes")
    assert refused.exit_code == 1
    assert "HR-317" in refused.output
    declined = talk("reset", app, "large", "--repeats", given="n\n")
    assert declined.exit_code == 1
    assert "once more" in declined.output
    with pytest.raises(RunError, match="HR-315"):
        run()
    assert talk("reset", app, "large", "--repeats", "--yes").exit_code == 0
    rebuilt = talk("reset", app, "cards", given="y\n")
    assert rebuilt.exit_code == 0, rebuilt.output
    assert "1 rows are deleted" in rebuilt.output
    assert written("cards")[-1] is None
    run()
    assert written("large") == [b'{"id":"p1"}'] * 2
    assert written("cards")[-1] == b'{"card":"c1"}'
    assert talk("reset", app, "nobody").exit_code == 1
