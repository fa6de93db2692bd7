"""The session is started as set-up has made it ready, and leaves nothing open when it ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.parts import archive, jars, java

STORES = """
import sys
from pyspark import SparkContext
from headrace.engine.session import session

spark = session("stores")
words = spark.readStream.text(sys.argv[1]).dropDuplicates()
sink = words.writeStream.format("noop").option("checkpointLocation", sys.argv[2])
sink.trigger(availableNow=True).start().awaitTermination()
stores = SparkContext._jvm.org.apache.spark.sql.execution.streaming.state.StateStore
print("while it runs:", stores.isMaintenanceRunning())
spark.stop()
print("when it has ended:", stores.isMaintenanceRunning())
"""


def test_a_session_uses_the_classes_that_were_recorded(spark: SparkSession):
    given = spark.conf.get("spark.driver.extraJavaOptions") or ""
    assert [option for option in archive.options(java.find(), jars.spark_files()) if option not in given] == []


def test_a_session_that_ends_closes_its_state_stores(tmp_path: Path):
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "one.txt").write_text("a\nb\na\n", encoding="utf-8")
    script = [sys.executable, "-c", STORES, str(tmp_path / "words"), str(tmp_path / "checkpoint")]
    told = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300)
    assert told.stdout.splitlines() == ["while it runs: True", "when it has ended: False"]


def test_what_spark_remembers_of_past_batches_is_bounded(spark: SparkSession):
    """By default it is a thousand of each, and a hundred thousand tasks: memory that grows for hours."""
    running: Any = spark
    jobs, executions = running.sparkContext._jsc.sc(), running._jsparkSession.sharedState().statusStore()
    for _ in range(70):
        spark.range(1).write.format("noop").mode("overwrite").save()
    jobs.listenerBus().waitUntilEmpty()

    def remembered() -> tuple[int, int]:
        return executions.executionsCount(), jobs.statusStore().jobsList(None).size()

    until = time.monotonic() + 60
    while max(remembered()) > 60 and time.monotonic() < until:
        time.sleep(0.1)  # it is cleared away in the background
    assert min(remembered()) > 0
    assert max(remembered()) <= 60
