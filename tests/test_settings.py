"""Settings that cannot be used are refused by name before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import PartError
from headrace.settings import Settings


@pytest.mark.parametrize("given", ["4 seconds", "4999ms", "soon"])
def test_a_live_batch_that_spark_would_not_take(tmp_path: Path, given: str):
    (tmp_path / "headrace.toml").write_text(f'live_batch = "{given}"\n')
    with pytest.raises(PartError, match=f"`live_batch`: .*`{given}`") as raised:
        Settings.load(tmp_path)
    assert raised.value.code == "HR-101"


def test_the_shortest_live_batch(tmp_path: Path):
    (tmp_path / "headrace.toml").write_text('live_batch = "5 seconds"\n')
    assert Settings.load(tmp_path).live_batch == "5 seconds"
