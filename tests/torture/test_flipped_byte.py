"""A byte flipped in a file of a checkpoint: the doctor names the file, a start refuses by name, and what is not read
any more does no harm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.doctor import checkpoints
from headrace.doctor.finding import Finding, Weight
from headrace.engine import checkpoint, damage
from headrace.errors import RunError
from headrace.graph.plan import plan
from headrace.testing import Driver, oracle

START = datetime(2026, 1, 1, tzinfo=UTC)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


app = hr.App("flipped")
app.stream("payments", schema="id string, card string, amount bigint, at timestamp", event_time="at", id="id")


@app.view(key="card")
def totals(payments):
    unique = hr.dedupe(payments, by="id", within="1 hour")
    return hr.aggregate(unique, by="card", n=hr.count(), total=hr.sum("amount"))


def payments(batch: int) -> list[dict[str, object]]:
    return [
        {"id": f"{batch}-{n}", "card": f"c{n % 3}", "amount": n, "at": START + timedelta(minutes=batch, seconds=n)}
        for n in range(8)
    ]


def kinds(place: Path) -> dict[str, Path]:
    """A file of every kind that the next start reads."""
    needed = list(damage._needed(place))
    of: dict[str, Path] = {"identity": place / "metadata", "facts": place / "headrace.json"}
    of["offsets"] = max((place / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    of["offsets before"] = of["offsets"].with_name(str(int(of["offsets"].name) - 1))
    of["commits"] = max((place / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for name, pattern in {
        "source": "sources/0/0",
        "operator": "state/0/_metadata/v2/0",
        "schema": "state/0/_stateSchema/*/*",
        "snapshot": "state/0/0/*.zip",
        "table": "state/1/0/SSTs/*.sst",
        "changelog": "state/1/0/*.changelog",
        "checksum of a changelog": "state/1/1/*.changelog.crc",
    }.items():
        of[name] = next(file for file in reversed(needed) if file.relative_to(place).match(pattern))
    return of


def test_it_is_found_by_the_doctor_and_refused_by_name(spark: SparkSession, bootstrap: str):
    rows: list[dict[str, object]] = []
    with Driver(app, spark=spark, bootstrap=bootstrap) as driver:
        for batch in range(5):  # a few batches each: snapshots, and changelogs after them
            rows += payments(batch)
            driver.push("payments", payments(batch))
            driver.advance()
        driver.stop()
        (query,) = plan(driver.graph)
        place = checkpoint.local(checkpoint.location(driver._settings, driver.graph.app, "totals"))
        assert place is not None

        def examined() -> list[Finding]:
            return list(checkpoints.examine(place, driver.graph.app, query, driver.connection))

        assert examined() == []
        of = kinds(place)
        for kind in of:
            file = kinds(place)[kind]  # Spark may have written another snapshot since
            whole = file.read_bytes()
            flip(file)
            if kind != "facts":
                findings = [finding for finding in examined() if finding.weight is Weight.BROKEN]
                assert [str(file.relative_to(place.parent)) in one.evidence for one in findings] == [True], kind
            with pytest.raises(RunError) as raised:
                driver.resume()
            assert raised.value.code in {"HR-345", "HR-307"}, kind
            assert str(file if kind != "facts" else place) in str(raised.value.found), kind
            file.write_bytes(whole)
        # What is not needed any more: the doctor notes it, and the app goes on.
        needed = set(of.values()) | set(damage._needed(place))
        old = [file for file in place.rglob("*") if file.is_file() and not file.name.startswith(".")]
        old = [file for file in old if file not in needed and file.name != "headrace.lock"]
        assert {file.suffix for file in old} >= {"", ".changelog"}
        for file in old:
            flip(file)
        assert {finding.weight for finding in examined()} == {Weight.NOTE}
        rows += payments(9)
        driver.push("payments", payments(9))
        driver.advance()
        wanted = oracle(app, "totals", {"payments": rows}, spark)
        assert len(wanted) == 3
        assert sorted(driver.view("totals"), key=lambda row: row["card"]) == sorted(wanted, key=lambda row: row["card"])
