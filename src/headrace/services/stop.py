"""How what runs is asked to end: by two signals, the first in order, the second at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import structlog

log = structlog.get_logger()


@contextmanager
def signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let the handler take SIGINT and SIGTERM inside."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Stop:
    """Two signals: the first ends what runs in order, the second, or one before anything runs, at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.ready = threading.Event()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Heed SIGINT and SIGTERM inside; a signal before `ready` ends it, and that is told."""
        try:
            with signals(self._hear):
                yield
        except KeyboardInterrupt:
            if self.ready.is_set():
                raise
            log.info("stopped before anything ran")

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self.ready.is_set() or self.asked.is_set():
            raise KeyboardInterrupt
        self.asked.set()
