"""What the driver leaves behind when it crashes is what kill -9 can leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine import checkpoint
from headrace.testing.driver import forget_last_commit


@pytest.mark.parametrize(
    ("begun", "finished", "left"),
    [
        ((), (), ()),
        ((0,), (), ()),
        ((0,), (0,), ()),
        ((8, 9, 10), (8, 9, 10), (8, 9)),
        # The batch after the last finished one was killed: to forget one more would ask Spark for state that never was.
        ((8, 9, 10), (8, 9), (8, 9)),
    ],
)
def test_one_batch_is_run_again_and_never_two(
    tmp_path: Path, begun: tuple[int, ...], finished: tuple[int, ...], left: tuple[int, ...]
):
    for log, batches in (("offsets", begun), ("commits", finished)):
        (tmp_path / log).mkdir()
        for batch in batches:
            (tmp_path / log / str(batch)).write_text("v1\n{}")
            (tmp_path / log / f".{batch}.crc").write_text("crc")
    forget_last_commit(tmp_path)
    kept = {file.name for file in (tmp_path / "commits").iterdir()}
    assert kept == {name for batch in left for name in (str(batch), f".{batch}.crc")}


def test_a_batch_that_a_live_one_has_followed_stays_finished(tmp_path: Path):
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "0").write_text("v1\n{}")
    checkpoint.note_live(str(tmp_path), {0: 5})
    forget_last_commit(tmp_path)
    assert (tmp_path / "commits" / "0").exists()
