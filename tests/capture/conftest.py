"""A stage for each test: a database of its own and an app that captures from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.capture.stage import Stage


@pytest.fixture
def stage(postgres_url: str, bootstrap: str, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(postgres_url, bootstrap, tmp_path)
    yield made
    made.close()
