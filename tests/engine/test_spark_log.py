"""Spark's log on disk does not only grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.engine import session

MEGABYTE = 1_000_000
PROPERTY = "headrace.log"


def test_the_log_is_rotated_and_its_oldest_files_go(spark: SparkSession, tmp_path: Path):
    java: Any = spark._jvm
    options = dict(one.removeprefix("-D").split("=", 1) for one in session._logging(tmp_path / "spark.log"))
    before = java.java.lang.System.getProperty(PROPERTY)
    java.java.lang.System.setProperty(PROPERTY, options[PROPERTY])
    try:
        configurator = java.org.apache.logging.log4j.core.config.Configurator
        context = configurator.initialize("rotated", options["log4j2.configurationFile"])
        try:
            logger = context.getLogger("headrace")
            logger.info("nobody needs this")
            for number in range(55):
                logger.error(f"{number} " + "x" * MEGABYTE)
        finally:
            context.stop()
    finally:
        if before is None:
            java.java.lang.System.clearProperty(PROPERTY)
        else:
            java.java.lang.System.setProperty(PROPERTY, before)
    files = sorted(tmp_path.iterdir())
    assert [one.name for one in files] == ["spark.log", "spark.log.1", "spark.log.2", "spark.log.3"]
    assert all(one.stat().st_size < 12 * MEGABYTE for one in files)
    assert " ERROR headrace: 54 x" in files[0].read_text()
    assert "nobody needs this" not in "".join(one.read_text() for one in files)


def test_what_the_jvm_prints_is_kept_once_more(tmp_path: Path):
    log = tmp_path / "spark.log"
    for text in ("first", "second"):
        with session._stderr_to(log):
            session.os.write(2, text.encode())
    assert session.printed(log).read_text() == "second"
    assert (tmp_path / "spark.out.1").read_text() == "first"
