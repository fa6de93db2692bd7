"""Set-up on a machine where everything is there already says where it is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

from headrace.parts import setup


def test_setup_says_what_is_there_and_where(call: Callable[..., Result]):
    setup.install(print)
    first, second = call("setup"), call("setup")
    assert first.exit_code == second.exit_code == 0
    kept = dict(line.split(maxsplit=1) for line in second.stdout.splitlines()[:-1])
    assert list(kept) == ["Java", "jars", "kernel", "classes"]
    places = [Path(re.search(r"(/.*)$", place)[1]) for place in kept.values()]  # type: ignore[index]
    assert [place for place in places if not place.exists()] == []
    assert second.stdout.endswith("everything was there already\n")
    assert second.stderr == ""
