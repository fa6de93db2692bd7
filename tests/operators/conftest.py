"""What property tests of operators share: the same histories in a simulation, and with `make test-deep` on Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import headrace as hr
from headrace.testing import Driver, Simulation


@pytest.fixture(params=["simulated", pytest.param("on Spark", marks=pytest.mark.deep)])
def driven(request: pytest.FixtureRequest, spark: SparkSession) -> Callable[[hr.App], Simulation | Driver]:
    """Runs an app in exact mode, without a stream or with one."""
    if request.param == "simulated":
        return lambda app: Simulation(app, spark=spark)
    bootstrap = request.getfixturevalue("bootstrap")
    return lambda app: Driver(app, spark=spark, bootstrap=bootstrap)
