"""What runs beside the queries of an app in threads of this process: its capture, or its followers.

A companion tells how it does once a second, in progress events beside those of the queries. Who started it calls `step`
again and again; what is new is said on the terminal.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType, TracebackType
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict

from headrace.cli import terminal
from headrace.cli.ending import signals
from headrace.cli.status import line
from headrace.engine import progress
from headrace.engine.progress import Progress, State
from headrace.errors import PartError
from headrace.parts import address
from headrace.settings import Settings

LINE_S = 5.0
PROGRESS_S = 1.0
STEP_S = 0.2


class Companion(ABC):
    """It runs inside its `with` block; `events` are the last ones of each table or follower."""

    def __init__(self, app: str, mode: str, settings: Settings) -> None:
        self.events: Sequence[Progress] = ()
        self._app = app
        self._mode = mode
        self._settings = settings
        self._started_at = progress.moment()
        self._told = 0.0
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
        for event in self.events:
            progress.write(self._settings, event)

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


class Stop:
    """Two signals: the first ends what runs in order, the second, or one before anything runs, at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.ready = threading.Event()

    @contextmanager
    def heeded(self) -> Iterator[None]:
        """Heed SIGINT and SIGTERM inside; a signal before `ready` ends it with a note."""
        try:
            with signals(self._hear):
                yield
        except KeyboardInterrupt:
            if self.ready.is_set():
                raise
            terminal.note("stopped before anything ran")

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self.ready.is_set() or self.asked.is_set():
            raise KeyboardInterrupt
        self.asked.set()


def attend(companion: Companion, stop: Stop, until: float, *, as_json: bool) -> None:
    """Look after a companion until it is over, is to stop, or its time is over."""
    shown = 0.0
    while not companion.is_over and not stop.asked.wait(STEP_S) and time.monotonic() < until:
        if companion.step():
            shown = show(companion, shown, as_json=as_json)


def show(companion: Companion, shown: float, *, as_json: bool) -> float:
    """Print the events, or a line of them when the last is a while ago; when one was printed last."""
    if as_json:
        for event in companion.events:
            terminal.out_json(asdict(event))
    elif time.monotonic() - shown >= LINE_S:
        terminal.note(line(companion.events))
        return time.monotonic()
    return shown


def check(url: str, who: str) -> None:
    """An address that cannot be read is an error; a server that is away is waited for."""
    try:
        address.require_postgres(url, seconds=3)
    except PartError as error:
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise error from None
        terminal.note(f"{error.what} {who} for it.")
