"""What a kill leaves in a checkpoint while Spark writes a file of its logs: a part of it, under a name of its own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine import checkpoint
from headrace.engine.mode import Mode
from headrace.testing import Driver

PART = ".0.5b1f2a64-7f6e-4f0e-9f0e-0c3f4f5f6a7b.tmp"


def put(directory: Path, *files: str) -> Path:
    for name in files:
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("v1\n{}")
    return directory


def left(directory: Path) -> set[str]:
    return {str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file()}


def test_parts_of_files_are_removed_and_whole_files_are_not(tmp_path: Path):
    kept = {f"{log}/{name}" for log in ("offsets", "commits") for name in ("0", ".0.crc", "1", ".1.crc")}
    kept |= {"metadata", "headrace.json", "state/0/0/1.changelog"}
    parts = [f"{log}/{name}" for log in ("offsets", "commits") for name in (PART, f".{PART}.crc", ".2.crc")]
    checkpoint.clear_unfinished(str(put(tmp_path, *kept, *parts)))
    assert left(tmp_path) == kept


def test_the_state_of_a_first_batch_that_was_never_told_is_removed(tmp_path: Path):
    checkpoint.clear_unfinished(str(put(tmp_path, "metadata", f"offsets/{PART}", "state/0/0/1.changelog")))
    assert left(tmp_path) == {"metadata"}


def test_nothing_is_done_for_a_new_checkpoint(tmp_path: Path):
    checkpoint.clear_unfinished(str(tmp_path / "new"))
    checkpoint.clear_unfinished("s3a://bucket/checkpoints/app/query")
    assert left(tmp_path) == set()


def teams() -> hr.App:
    app = hr.App("parts")
    app.table("scores", schema="player string, team string, score int", key="player", partitions=1)

    @app.view(key="team")
    def teams(scores):
        return hr.aggregate(scores, by="team", best=hr.max("score"), players=hr.count())

    return app


def score(player: str, score: int) -> dict[str, object]:
    return {"player": player, "team": "red", "score": score}


def test_a_kill_before_the_first_batch(spark: SparkSession, bootstrap: str):
    with Driver(teams(), spark=spark, bootstrap=bootstrap) as driver:
        put(Path(checkpoint.location(driver._settings, driver.graph.app, "teams")), f"offsets/{PART}")
        driver.push("scores", [score("a", 5), score("b", 7)])
        driver.advance()
        assert driver.view("teams") == [{"team": "red", "best": 7, "players": 2}]


@pytest.mark.parametrize(
    ("mode", "log"), [(Mode.EXACT, "commits"), (Mode.LIVE, "commits"), (Mode.LIVE, "offsets")], ids=str
)
def test_a_kill_at_the_end_of_the_first_batch(spark: SparkSession, bootstrap: str, mode: Mode, log: str):
    with Driver(teams(), spark=spark, bootstrap=bootstrap, mode=mode, live_batch="5 seconds") as driver:
        driver.push("scores", [score("a", 5), score("b", 7)])
        driver.advance()
        place = Path(checkpoint.location(driver._settings, driver.graph.app, "teams"))
        until = time.monotonic() + 120
        while not checkpoint.batches(place / "commits"):
            assert time.monotonic() < until, driver.progress()
            time.sleep(0.2)
        driver.stop()
        for name, kept in (("offsets", 1 if log == "commits" else 0), ("commits", 0)):
            for batch in checkpoint.batches(place / name)[kept:]:
                checkpoint.forget(place / name, batch)
        put(place, f"{log}/{PART}")
        driver.push("scores", [score("b", 3), score("c", 1)])
        driver.advance(seconds=120)
        assert driver.view("teams") == [{"team": "red", "best": 5, "players": 3}]


def test_of_a_topic_that_is_read_twice_the_slowest_reader_counts():
    ends = ['{"sales":{"0":7,"1":2}}', "-", '{"sales":{"0":5,"1":3}}', '{"other":{"0":1}}']
    assert checkpoint.covered(ends) == {("sales", 0): 5, ("sales", 1): 2, ("other", 0): 1}
