"""All of it together, for an app: sessions one after the other, until it is stopped or cannot go on.

A session ends when the database or the log does not answer; the next one begins as soon as both do, where the log says.
What cannot mend itself (a lost slot, a missing right) ends the capture with a CaptureError. A database that refuses the
connection ends it at its start; later, when a password may be about to be changed, it is asked again now and then. A
record that the log does not take pauses its table, and the next session goes on without it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from threading import Event
from typing import Literal

from headrace.capture.database import Away
from headrace.capture.order import Order, Wanted
from headrace.capture.session import Health, Session
from headrace.capture.writer import TooLarge
from headrace.errors import CaptureError, HeadraceError, LogError

AGAIN_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Pauses between attempts; the last one is repeated."""
REFUSED_S = 30.0
"""The pause after a refused connection: servers count those, and may lock a user out."""


@dataclass(frozen=True)
class TableStatus:
    """How a table is; `written` counts changes and rows of this process, `skipped` those while it was paused."""

    name: str
    topic: str
    reading: bool = False
    written: int = 0
    dead: int = 0
    skipped: int = 0
    paused: str | None = None


@dataclass(frozen=True)
class Status:
    """How the capture is."""

    state: Literal["starting", "running", "waiting", "stopped", "failed"] = "starting"
    waiting: str | None = None
    error: HeadraceError | None = None
    tables: tuple[TableStatus, ...] = ()
    health: Health = field(default_factory=Health)


class Capture:
    """The capture of an app; `run` it in a thread of its own and look at its `status`."""

    def __init__(
        self,
        order: Order,
        *,
        again: Collection[str] = (),
        again_all: bool = False,
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._order = order
        self._again = Wanted({*again} if not again_all else {one.table for one in order.tables}, again_all)
        self._told = told
        self._session: Session | None = None
        self._status = Status()
        self._before: dict[str, tuple[int, int, int]] = {}

    @property
    def status(self) -> Status:
        """How it is now."""
        session, known = self._session, self._status
        lives = dict(session.lives) if session is not None else {}
        tables = []
        for captured in self._order.tables:
            live = lives.get(captured.table)
            written, dead, skipped = self._before.get(captured.table, (0, 0, 0))
            if live is None:
                tables.append(TableStatus(captured.name, captured.topic, False, written, dead, skipped))
                continue
            tables.append(
                TableStatus(
                    captured.name,
                    captured.topic,
                    live.state.reading,
                    written + live.written,
                    dead + live.dead,
                    skipped + live.skipped,
                    live.state.paused,
                )
            )
        health = session.health if session is not None else known.health
        waiting = known.waiting or (session.waiting if session is not None else None)
        return Status(known.state, waiting, known.error, tuple(tables), health)

    def run(self, stop: Event) -> None:
        """Capture until it is to stop; the status tells how it ended."""
        attempts, begun = 0, False
        unfit: dict[str, TooLarge] = {}
        while not stop.is_set():
            refused = False
            session = self._session = Session(self._order, self._again, self._told, stop=stop, unfit=unfit)
            try:
                session.begin()
                unfit = {}
                self._status = Status("running")
                self._told("capturing")
                attempts, begun = 0, True
                session.run()
            except TooLarge as record:
                unfit[record.topic] = record
                self._status = Status("waiting", waiting=str(record))
            except Away as away:
                self._status = Status("waiting", waiting=str(away))
            except LogError as error:
                if error.code not in ("HR-201", "HR-206"):
                    self._fail(error)
                    return
                self._status = Status("waiting", waiting=error.what)
            except CaptureError as error:
                if error.code != "HR-623" or not begun:
                    self._fail(error)
                    return
                self._status, refused = Status("waiting", waiting=str(error)), True
            except Exception as error:
                self._fail(
                    CaptureError(
                        "HR-616",
                        f"The capture of `{self._order.app}` stopped with {type(error).__name__}: {error}.",
                        found="".join(traceback.format_exception(error)[-4:]).strip(),
                        fix="this is a fault of Headrace: please report it. Starting again goes on where it was",
                    )
                )
                return
            finally:
                session.close()
                self._add_up(session)
            if self._status.state == "waiting":
                stop.wait(REFUSED_S if refused else AGAIN_S[min(attempts, len(AGAIN_S) - 1)])
                attempts += 1
        self._status = Status("stopped")

    def _fail(self, error: HeadraceError) -> None:
        self._status = Status("failed", error=error)

    def _add_up(self, session: Session) -> None:
        for name, live in session.lives.items():
            written, dead, skipped = self._before.get(name, (0, 0, 0))
            self._before[name] = (written + live.written, dead + live.dead, skipped + live.skipped)
            live.written = live.dead = live.skipped = 0
