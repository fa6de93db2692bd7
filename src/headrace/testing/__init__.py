"""The test kit: run a declared app against real Spark and a real log, hurt it, and compare it with the batch answer."""

from headrace.testing.change import Delete, Put
from headrace.testing.disorder import duplicated, shuffled
from headrace.testing.driver import Driver
from headrace.testing.oracle import oracle
from headrace.testing.simulation import Simulation

__all__ = ["Delete", "Driver", "Put", "Simulation", "duplicated", "oracle", "shuffled"]
