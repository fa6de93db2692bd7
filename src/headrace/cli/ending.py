"""How a command that goes on and on comes to its end: by a signal, or when its time is over."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from headrace import duration


@contextmanager
def signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let the handler take SIGINT and SIGTERM inside."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def seconds(text: str | None) -> float | None:
    """The value of `--for` in seconds."""
    try:
        return None if text is None else duration.parse(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--for") from None
