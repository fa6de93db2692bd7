"""The structures that hold the kernel's state, in memory and between tasks, beside plain ones of Java's.

The comparisons are in java/, in the rooms of what they look at and compiled with the kernel: not all of it is public.
"""

from __future__ import annotations

import random
import subprocess

import pytest

from headrace.parts import java

ROUNDS = 200


@pytest.mark.parametrize("compared", ["state.StateStructures", "operators.OperatorStructures"])
def test_the_structures_hold_what_plain_ones_hold(
    kernel_with_tests: str, compared: str, rng: random.Random, deep: int
) -> None:
    arguments = [str(rng.randrange(2**32)), str(ROUNDS * deep)]
    command = [java.find().executable, "-cp", kernel_with_tests, f"headrace.kernel.{compared}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "equal", done.stderr
