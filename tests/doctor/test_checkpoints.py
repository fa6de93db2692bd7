"""Checkpoints with files that are cut off: told, and mended where nothing can be lost by it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import headrace as hr
from headrace.doctor import checkpoints
from headrace.doctor.finding import Finding, Weight
from headrace.engine import checkpoint
from headrace.graph.plan import plan
from headrace.testing import Driver


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("v1", "it ends after the version"),
        ('v1\n{"batchWatermarkMs":0}\n{"t":{"0":1', "a line is cut off"),
        ("\x00\x00", "it begins with"),
        ('v1\n{"batchWatermarkMs":0}\n{"t":{"0":1}}', None),
        ('v1\n{"nextBatchWatermarkMs":0}\n-', None),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, text: str, why: str | None):
    file = tmp_path / "0"
    file.write_text(text)
    found = checkpoints.unreadable(file)
    assert found == why if why is None else why in (found or "")


@pytest.fixture
def app() -> hr.App:
    declared = hr.App("ill")
    declared.stream("readings", schema="n bigint", partitions=1)

    @declared.stream
    def kept(readings: DataFrame) -> DataFrame:
        return readings.where("n >= 0")

    return declared


def place_of(driver: Driver) -> Path:
    place = checkpoint.local(checkpoint.location(driver._settings, driver.graph.app, "kept"))
    assert place is not None
    return place


def examined(driver: Driver, *, log: bool = True) -> list[Finding]:
    (query,) = plan(driver.graph)
    return list(checkpoints.examine(place_of(driver), driver.graph.app, query, driver.connection if log else None))


def cut_off(directory: Path) -> Path:
    last = max((file for file in directory.glob("[0-9]*")), key=lambda file: int(file.name))
    last.write_text(last.read_text()[:-5])
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    return last


def numbers(driver: Driver) -> Counter[int]:
    return Counter(row["n"] for row in driver.read("kept"))


def test_a_record_that_is_cut_off_is_taken_away_and_nothing_is_doubled(
    spark: SparkSession, bootstrap: str, app: hr.App
):
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("readings", [{"n": n} for n in range(10)])
        driver.advance()
        driver.stop()
        assert examined(driver) == []
        last = cut_off(place_of(driver) / "commits")
        (finding,) = examined(driver)
        assert finding.disease == f"the record of batch {last.name} is cut off"
        assert finding.repair is not None
        backup = Path(finding.repair.do())
        assert (backup / "commits" / last.name).exists()
        assert examined(driver) == []
        driver.push("readings", [{"n": 10}])
        driver.advance()
        assert numbers(driver) == Counter(range(11))


def test_a_plan_is_taken_away_only_when_nothing_of_it_is_written(spark: SparkSession, bootstrap: str, app: hr.App):
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("readings", [{"n": n} for n in range(10)])
        driver.advance()
        driver.crash()
        place = place_of(driver)
        whole = {file: file.read_text() for file in (place / "offsets").glob("[0-9]*")}
        last = cut_off(place / "offsets")
        (unasked,) = examined(driver, log=False)
        assert unasked.repair is None
        assert "start Kafka" in unasked.remedy
        (written,) = examined(driver)
        assert written.weight is Weight.BROKEN
        assert written.repair is None
        assert "have written their part of this batch" in written.remedy
        # The batch after it was planned and nothing of it was written.
        last.write_text(whole[last])
        following = last.with_name(str(int(last.name) + 1))
        (place / "commits" / last.name).write_text('v1\n{"nextBatchWatermarkMs":0}')
        following.write_text("v1\n{")
        (finding,) = examined(driver)
        assert finding.disease == f"the plan of batch {following.name} is cut off"
        assert finding.repair is not None
        finding.repair.do()
        driver.push("readings", [{"n": 10}])
        driver.advance()
        assert numbers(driver) == Counter(range(11))


def test_an_identity_that_is_gone_is_told(spark: SparkSession, bootstrap: str, app: hr.App):
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        driver.push("readings", [{"n": 1}])
        driver.advance()
        driver.stop()
        file = place_of(driver) / "metadata"
        assert json.loads(file.read_text())["id"]
        file.write_text("{")
        (finding,) = examined(driver)
        assert finding.disease == "the identity of the checkpoint cannot be read"
