"""How a command that goes on and on comes to its end when its time is over."""

from __future__ import annotations

import math
import time
from typing import Annotated

import typer

from headrace import duration

For = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="End after this time, such as 60s.", show_default=False)
]


def ending_at(text: str | None) -> float:
    """When `--for` is over, by the clock of `time.monotonic`."""
    lasting = seconds(text)
    return math.inf if lasting is None else time.monotonic() + lasting


def seconds(text: str | None) -> float | None:
    """The value of `--for` in seconds."""
    try:
        return None if text is None else duration.parse(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None
