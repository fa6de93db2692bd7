"""A checkpoint that was restored from an older copy, or is gone, while what it has written stands in the log."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.engine import checkpoint, frames
from headrace.engine.mode import Mode
from headrace.engine.reset import Reset
from headrace.errors import RunError
from headrace.testing import Driver

SCHEMA = "n bigint, at timestamp"


def app() -> hr.App:
    declared = hr.App("restored")
    declared.stream("readings", schema=SCHEMA, event_time="at", delay="5 seconds", partitions=1)

    @declared.stream
    def kept(readings):
        return readings.where("n >= 0").select("n")

    return declared


def readings(start: int, end: int) -> list[dict[str, object]]:
    return [{"n": n, "at": "2026-01-01T00:00:00Z"} for n in range(start, end)]


def place_of(driver: Driver, query: str = "kept") -> Path:
    place = checkpoint.local(checkpoint.location(driver._settings, driver.graph.app, query))
    assert place is not None
    return place


def numbers(driver: Driver) -> Counter[int]:
    found = Counter(row["n"] for row in driver.read("kept"))
    assert found
    return found


def restore(place: Path, copy: Path) -> None:
    shutil.rmtree(place)
    shutil.copytree(copy, place)


@pytest.mark.parametrize("batches", [1, 50])
def test_a_checkpoint_that_is_batches_old_is_refused(
    spark: SparkSession, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
):
    monkeypatch.setattr(frames, "MOST_RECORDS_A_BATCH", 2)
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("readings", readings(0, 2))
        driver.advance()
        driver.stop()
        copy = tmp_path / "copy"
        shutil.copytree(place_of(driver), copy)
        newer = tmp_path / "newer"
        end = 2 + 2 * batches
        driver.push("readings", readings(2, end))
        driver.advance()
        driver.stop()
        shutil.copytree(place_of(driver), newer)
        driver.push("readings", readings(end, end + 10))
        restore(place_of(driver), copy)
        with pytest.raises(RunError, match="ahead of its checkpoint") as refused:
            driver.advance()
        assert refused.value.code == "HR-314"
        assert "headrace reset" in (refused.value.fix or "")
        assert numbers(driver) == Counter(range(end))
        # The newer one is put back, and nothing is missing.
        restore(place_of(driver), newer)
        driver.advance()
        assert numbers(driver) == Counter(range(end + 10))


def replan(place: Path, end: int) -> None:
    """Leave the last batch unfinished, and planned to read up to another offset than when it was written."""
    last = checkpoint.batches(place / "offsets")[-1]
    checkpoint.forget(place / "commits", last)
    file = place / "offsets" / str(last)
    lines = file.read_text().splitlines()
    ((topic, partitions),) = json.loads(lines[-1]).items()
    assert partitions["0"] > end
    file.write_text("\n".join([*lines[:-1], json.dumps({topic: {"0": end}})]))
    (place / "offsets" / f".{last}.crc").unlink(missing_ok=True)


def test_a_batch_that_was_planned_otherwise_is_refused(spark: SparkSession, bootstrap: str):
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        for part in range(2):
            driver.push("readings", readings(5 * part, 5 * part + 5))
            driver.advance()
        driver.stop()
        replan(place_of(driver), end=7)
        with pytest.raises(RunError, match="ahead of its checkpoint") as refused:
            driver.advance()
        assert refused.value.code == "HR-314"
        assert "with other records" in str(refused.value.found)
        assert numbers(driver) == Counter(range(10))


def test_the_writer_does_not_skip_what_it_has_not_written(
    spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch
):
    """Where nobody has looked before, as with a checkpoint that is not on a file system."""
    monkeypatch.setattr("headrace.engine.traces.check", lambda *_: None)
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        for part in range(2):
            driver.push("readings", readings(5 * part, 5 * part + 5))
            driver.advance()
        driver.stop()
        replan(place_of(driver), end=7)
        with pytest.raises(RunError) as refused:
            driver.advance()
        assert refused.value.code == "HR-314"
        driver.stop()
        shutil.rmtree(place_of(driver))
        with pytest.raises(RunError) as refused:
            driver.advance()
        assert refused.value.code == "HR-315"
        assert numbers(driver) == Counter(range(10))


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_a_checkpoint_that_is_gone_is_refused(spark: SparkSession, bootstrap: str, mode: Mode):
    with Driver(app(), spark=spark, bootstrap=bootstrap, mode=mode) as driver:
        driver.push("readings", readings(0, 10))
        driver.advance()
        driver.stop()
        shutil.rmtree(place_of(driver))
        before = len(driver.records("kept"))
        with pytest.raises(RunError, match="another checkpoint has written to") as refused:
            driver.advance()
        assert refused.value.code == "HR-315"
        assert "headrace reset app.py kept" in (refused.value.fix or "")
        assert len(driver.records("kept")) == before > 0


def test_a_topic_that_was_filled_by_hand_is_no_fault(spark: SparkSession, bootstrap: str):
    with Driver(app(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("kept", [{"n": -1}])
        driver.push("readings", readings(0, 10))
        driver.advance()
        assert numbers(driver) == Counter(range(-1, 10))


def board() -> hr.App:
    declared = hr.App("board")
    declared.table("scores", schema="player string, team string, score int", key="player", partitions=1)

    @declared.view(key="team")
    def teams(scores):
        return hr.aggregate(scores, by="team", best=hr.max("score"))

    return declared


def score(player: str, team: str, score: int) -> dict[str, object]:
    return {"player": player, "team": team, "score": score}


def test_a_view_that_is_reset_has_no_ghosts(spark: SparkSession, bootstrap: str, monkeypatch: pytest.MonkeyPatch):
    with Driver(board(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("scores", [score("a", "red", 5), score("b", "blue", 7)])
        driver.advance()
        driver.stop()
        shutil.rmtree(place_of(driver, "teams"))
        driver.push("scores", [score("a", "green", 5)])  # nobody will tell that the red team is gone
        reset = Reset(driver.graph, "teams", driver.connection, driver._settings)
        assert any("computes it again" in one for one in reset.consequences())
        with monkeypatch.context() as killed:
            killed.setattr("headrace.engine.rollback.write", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                reset.run(repeats=False)
        with pytest.raises(RunError, match="not come to its end") as refused:
            driver.resume()
        assert refused.value.code == "HR-316"
        assert reset.run(repeats=False) == 2
        assert driver.view("teams") == []
        driver.advance()
        assert sorted((row["team"], row["best"]) for row in driver.view("teams")) == [("blue", 7), ("green", 5)]


def test_a_live_checkpoint_that_was_restored(spark: SparkSession, bootstrap: str, tmp_path: Path):
    """One batch behind it is as after a crash, also where the copy is of a time when the query was not live; further
    behind it is refused."""
    copy = tmp_path / "copy"
    with Driver(board(), spark=spark, bootstrap=bootstrap) as driver:
        driver.push("scores", [score("a", "red", 5)])
        driver.advance()
        driver.stop()
        shutil.copytree(place_of(driver, "teams"), copy)
        driver.mode = Mode.LIVE
        driver.push("scores", [score("a", "green", 6), score("a", "blue", 7)])
        driver.advance()
        driver.stop()
        restore(place_of(driver, "teams"), copy)
        driver._settings = driver._settings.model_copy(update={"live_batch": "5 seconds"})
        driver.advance()
        assert driver.view("teams") == [{"team": "blue", "best": 7}]
        told = [json.loads(one.value)["team"] for one in driver.records("teams") if one.value is not None]
        assert told.count("red") == 2  # the row that the state of the copy has was put there again
        before = checkpoint.batches(copy / "commits")[-1]
        for best in range(8, 1000):
            driver.push("scores", [score("a", "blue", best)])
            driver.advance()
            if checkpoint.batches(place_of(driver, "teams") / "commits")[-1] > before + 1:
                break
        driver.stop()
        restore(place_of(driver, "teams"), copy)
        with pytest.raises(RunError, match="ahead of its checkpoint") as refused:
            driver.advance()
        assert refused.value.code == "HR-314"
