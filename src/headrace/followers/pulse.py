"""What a loop is doing at this moment, and since when, as the loop itself says it.

A process that writes its progress from another thread looks alive while the loop hangs. So the loop beats at each of
its steps, and its store at each of its own, and an observer sees how old the last beat is. The pulse also carries the
wish to stop from the loop to its store, so that a long step can end early.
"""

from __future__ import annotations

import threading
import time


class Pulse:
    """`doing` is the step, in words that can follow «it is …»; `at` is when it began, in seconds since 1970."""

    def __init__(self) -> None:
        self.doing = "starting"
        self.at = time.time()
        self.stopping = threading.Event()

    def beat(self, doing: str) -> None:
        """The next step begins."""
        self.doing, self.at = doing, time.time()
