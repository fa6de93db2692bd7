"""The session is started as set-up has made it ready."""

from __future__ import annotations

from pyspark.sql import SparkSession

from headrace.parts import archive, jars, java


def test_a_session_uses_the_classes_that_were_recorded(spark: SparkSession):
    given = spark.conf.get("spark.driver.extraJavaOptions") or ""
    assert [option for option in archive.options(java.find(), jars.spark_files()) if option not in given] == []
