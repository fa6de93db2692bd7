"""What runs in threads of this process and tells how it does: the capture of an app, or its followers.

A service tells once a second how it does, in progress events beside those of the queries. Who started it calls `step`
again and again, or lets `attend` do it.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import structlog

from headrace.engine import progress
from headrace.engine.progress import Progress, State
from headrace.services.stop import Stop
from headrace.settings import Settings

PROGRESS_S = 1.0
STEP_S = 0.2
Show = Callable[[Sequence[Progress]], None]

log = structlog.get_logger()


class BackgroundService(ABC):
    """It runs inside its `with` block; `events` are the last ones of each table or follower."""

    def __init__(self, app: str, mode: str, settings: Settings) -> None:
        self.events: Sequence[Progress] = ()
        self._app = app
        self._mode = mode
        self._settings = settings
        self._started_at = progress.moment()
        self._told = 0.0
        self._unwritten = False
        self._rates: dict[str, tuple[float, int]] = {}

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""

    @property
    @abstractmethod
    def is_in_trouble(self) -> bool:
        """Whether some of it cannot go on."""

    def step(self) -> bool:
        """Look after it; whether there are new events."""
        if time.monotonic() - self._told < PROGRESS_S:
            return False
        self._tell()
        return True

    def stop(self) -> None:
        """End it in order, and tell of that."""
        self._end()
        self._tell()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...

    @abstractmethod
    def _look(self) -> list[Progress]:
        """How everything does, when what is new has been said."""

    def _tell(self) -> None:
        self._told = time.monotonic()
        self.events = self._look()
        unwritten = [why for event in self.events if (why := progress.write(self._settings, event))]
        if unwritten and not self._unwritten:
            log.warning(unwritten[0])
        self._unwritten = bool(unwritten)

    def _event(self, query: str, state: State, rows: int, **told: Any) -> Progress:
        """How one does, with its rows a second since it was asked last."""
        at = time.monotonic()
        then, before = self._rates.get(query, (at, rows))
        self._rates[query] = (at, rows)
        return Progress(
            app=self._app,
            query=query,
            mode=self._mode,
            state=state,
            at=progress.moment(),
            started_at=self._started_at,
            pid=os.getpid(),
            rows_in=rows,
            rows_per_second=round(max(0.0, (rows - before) / (at - then)), 1) if at > then else 0.0,
            **told,
        )


def attend(service: BackgroundService, stop: Stop, until: float, show: Show = lambda events: None) -> None:
    """Look after a service until it is over, is to stop, or its time is over."""
    stop.ready.set()
    while not service.is_over and not stop.asked.wait(STEP_S) and time.monotonic() < until:
        if service.step():
            show(service.events)
