"""What a batch leaves behind in the JVM: none of our own objects, and none of the clients that we open."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.parts import java
from headrace.testing import Driver

BATCHES = 12
OURS = ("headrace.", "org.apache.kafka.clients.", "org.rocksdb.")


def test_batches_leave_nothing_behind(spark: SparkSession, bootstrap: str):
    """All that is alive of our own classes and of the clients that we open is counted, and counted again later."""
    declared = hr.App("trickle")
    declared.stream("payments", schema="id string, card string, amount int", partitions=2)

    @declared.view(key="card")
    def totals(payments):
        return hr.aggregate(payments, by="card", n=hr.count(), spent=hr.sum("amount"))

    with Driver(declared, spark=spark, bootstrap=bootstrap) as driver:

        def batch() -> None:
            driver.push("payments", [b"{", *({"id": f"p{n}", "card": f"c{n}", "amount": n} for n in range(4))])
            driver.advance()

        for _ in range(4):
            batch()
        before = alive(spark)
        assert any(name.startswith("headrace.") for name in before)
        for _ in range(BATCHES):
            batch()
        after = alive(spark)
        (row,) = (row for row in driver.view("totals") if row["card"] == "c1")
        assert row["n"] == 4 + BATCHES
    assert {name: (before.get(name, 0), n) for name, n in after.items() if n - before.get(name, 0) >= BATCHES} == {}


def alive(spark: SparkSession) -> dict[str, int]:
    """How many objects there are of each of these classes, after a full collection."""
    jvm: Any = spark._jvm
    jcmd = java.find().home / "bin" / "jcmd"
    if not jcmd.exists():
        pytest.skip("a Java runtime without jcmd")
    pid = str(jvm.java.lang.ProcessHandle.current().pid())
    told = subprocess.run([jcmd, pid, "GC.class_histogram"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^ *\d+: +(\d+) +\d+ +(\S+)", told, re.MULTILINE)
    return {name: int(count) for count, name in found if name.startswith(OURS)}
