"""The app in a file, loaded as every command loads it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from headrace.app import App, load
from headrace.engine import udf_types


def load_app(file: Path) -> App:
    """The App in the file; what the file prints goes to standard error, because the result is ours."""
    with redirect_stdout(sys.stderr), udf_types.read_later():
        return load(file)
