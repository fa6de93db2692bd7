"""The structures that hold the kernel's state, in memory and between tasks, beside plain ones of Java's.

The comparison is java/headrace/kernel/Structures.java, compiled with the kernel, whose classes are not public.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.parts import java, kernel_jar
from headrace.parts.jars import pyspark_jars

ROUNDS = 200


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    sources = tmp_path_factory.mktemp("sources")
    for found in (kernel_jar.SOURCES, Path(__file__).with_name("java")):
        shutil.copytree(found, sources, dirs_exist_ok=True)
    return f"{kernel_jar.kernel_jar(print, sources)}:{pyspark_jars()}/*"


def test_the_structures_hold_what_plain_ones_hold(class_path: str, rng: random.Random, deep: int) -> None:
    arguments = [str(rng.randrange(2**32)), str(ROUNDS * deep)]
    command = [java.find().executable, "-cp", class_path, "headrace.kernel.Structures", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "equal", done.stderr
