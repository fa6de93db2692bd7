"""The kernel's rooms `spark` and `compiler` rely on what Spark does not promise to keep: classes and methods of its
planner and its execution, some of them overridden, private fields, and the names of two properties of its tasks.

`spark_internals.txt` lists them all, and they are looked for in the Spark on the class path: a release that moves one
fails here with its name, and not in the middle of a run. The list is what the compiled kernel uses; after a change in
these rooms, `HEADRACE_WRITE=1` writes it anew.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from headrace.parts import java

LIST = Path(__file__).with_name("spark_internals.txt")
HEADING = "# What the kernel uses of Spark's internals; test_spark_internals.py says how the list is made.\n"
Internals = Callable[..., list[str]]


@pytest.fixture(scope="module")
def internals(kernel_with_tests: str) -> Internals:
    def run(*arguments: str) -> list[str]:
        command = [java.find().executable, "-cp", kernel_with_tests, "headrace.kernel.spark.Internals", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


def missing(internals: Internals, listed: Path) -> list[str]:
    """A sentence for each that is not there."""
    return [
        f"Spark {version('pyspark')} has no {line}: the kernel relies on it" for line in internals("check", str(listed))
    ]


def test_spark_has_what_the_kernel_relies_on(internals: Internals):
    assert len(LIST.read_text(encoding="utf-8").splitlines()) > 100
    assert missing(internals, LIST) == []


def test_the_list_is_what_the_kernel_uses(internals: Internals, kernel_with_tests: str):
    used = internals("list", kernel_with_tests.partition(":")[0])
    if os.environ.get("HEADRACE_WRITE"):
        LIST.write_text(HEADING + "\n".join(used) + "\n", encoding="utf-8")
    assert LIST.read_text(encoding="utf-8").splitlines()[1:] == used


def test_what_has_moved_is_named(internals: Internals, tmp_path: Path):
    query = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"
    moved = tmp_path / "moved.txt"
    moved.write_text(
        f"class {query}s\nfield {query} tracker\nfield {query} watermarkTracker\nmethod {query} stop(I)V\n"
    )
    assert missing(internals, moved) == [
        f"Spark {version('pyspark')} has no {what}: the kernel relies on it"
        for what in (f"class {query}s", f"field {query} tracker", f"method {query} stop(I)V")
    ]
