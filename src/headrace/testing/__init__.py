"""The test kit: run a declared app against real Spark and a real log, hurt it, and compare it with the batch answer."""

from headrace.testing.change import Delete, Put
from headrace.testing.chaos import duplicated, shuffled
from headrace.testing.driver import Driver
from headrace.testing.oracle import oracle

__all__ = ["Delete", "Driver", "Put", "duplicated", "oracle", "shuffled"]
