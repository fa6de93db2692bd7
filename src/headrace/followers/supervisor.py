"""Starts the followers of an app, each in a thread of its own, and supervises them until they are stopped.

A follower of a view starts when the catalogue names the view. It starts anew when the catalogue gives the view another
topic, other columns or another key, as when another version becomes current. A follower of a stream starts when the
catalogue has answered, and anew when another version of the stream becomes current.

A follower that cannot go on by itself has failed; the others go on. A crash of this process loses nothing: every
follower goes on from the positions in its store. So a follower that does not end within `STOP_S` seconds is abandoned
and reported (HR-416).
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from headrace.errors import FollowError, LogError
from headrace.followers.follower import Follower, Status
from headrace.followers.store import Positions
from headrace.log import away, catalogue
from headrace.log.catalogue import Entries, View
from headrace.log.connection import Connection
from headrace.log.patience import begun

LOOK_S = 1.0
LOOK_AGAIN_S = 5.0
STOP_S = 10.0


@dataclass(frozen=True)
class Task:
    """A follower that is to be started. `name` is `<view>.postgres` or `<stream>.<webhook>`, and `of` the view or
    stream that it follows. `make` gets what the catalogue says of that, with where it ended when it became current.

    A view must be in the catalogue; a stream that is not there is followed as it is declared.
    """

    name: str
    of: str
    is_view: bool
    make: Callable[[View | None, Positions], Follower]


class Supervisor:
    """The followers of an app; call `supervise` again and again, from one thread."""

    def __init__(self, app: str, connection: Connection, tasks: Sequence[Task]) -> None:
        self._app = app
        self._connection = connection
        self._followers = {task.name: _Supervised(task) for task in tasks}
        self._looked = 0.0
        self._away: float | None = None
        self._asking: Future[Entries] | None = None

    def supervise(self) -> None:
        """Start what can start. It never waits for the log: an answer of the catalogue is used when it is there."""
        if self._asking is None:
            missing = any(one.waits for one in self._followers.values())
            if time.monotonic() - self._looked >= (LOOK_S if missing else LOOK_AGAIN_S):
                self._asking = begun(lambda: catalogue.entries(self._connection, self._app), "catalogue")
        if self._asking is None or not self._asking.done():
            return
        asked, self._asking, self._looked = self._asking, None, time.monotonic()
        entries, unknown = Entries(), None
        try:
            entries, self._away = asked.result(), None
        except LogError as error:
            self._away = (self._away or time.time()) if error.code == "HR-201" else None
            unknown = error.what if self._away is None else away.since(self._away)
        for one in self._followers.values():
            if one.held:
                continue
            of = one.task.of
            found = entries.current.get(of)
            if found is not None:
                version = entries.versions.get(of, {}).get(found.version)
                one.begin(found, version.since if version else {})
            elif unknown is None and not one.task.is_view:
                one.begin(None, {})
            elif one.waits:
                one.wait(unknown or f"the view `{of}` has not run yet: start the app")

    def hold(self, name: str, held: bool) -> None:
        """Stop a follower after the batch that it is applying, or let it go on from the positions in its store."""
        one = self._followers[name]
        if held and not one.held:
            one.hold()
        elif not held and one.held:
            one.held = False
            self._looked = 0.0

    @property
    def statuses(self) -> dict[str, tuple[str, Status]]:
        """The status of each, by name, with the topic that it follows."""
        return {name: (one.topic, one.status) for name, one in self._followers.items()}

    @property
    def failures(self) -> list[FollowError]:
        """The errors of those that have failed."""
        return [status.error for _, status in self.statuses.values() if status.error is not None]

    @property
    def all_failed(self) -> bool:
        return bool(self._followers) and len(self.failures) == len(self._followers)

    def stop(self) -> list[FollowError]:
        """Stop every follower after the batch that it is applying; an error for each that did not end in time."""
        for one in self._followers.values():
            one.stop.set()
        until = time.monotonic() + STOP_S
        return [late for one in self._followers.values() if (late := one.end(until - time.monotonic())) is not None]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Supervised:
    """One follower with its thread."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.stop = threading.Event()
        self.held = False
        self._view: View | None = None
        self._follower: Follower | None = None
        self._thread: threading.Thread | None = None
        self._status = Status()

    @property
    def waits(self) -> bool:
        return self._follower is None and self._status.state != "failed" and not self.held

    @property
    def topic(self) -> str:
        return "" if self._follower is None else self._follower.topic

    @property
    def status(self) -> Status:
        return self._status if self._follower is None or self._status.state == "failed" else self._follower.status

    def wait(self, reason: str) -> None:
        self._status = Status("waiting", waiting=reason)

    def begin(self, view: View | None, since: Positions) -> None:
        """Start it, unless it already runs for this view; a changed view first ends the follower of the old one."""
        known = (self._thread is not None and not self.stop.is_set()) or self._status.state == "failed"
        if known and (view is None or (self._view is not None and _same(view, self._view))):
            return
        self.stop.set()
        if not self.join(LOOK_S):
            return  # it is asked again at the next look
        self._view, self.stop, self._status = view, threading.Event(), Status()
        try:
            self._follower = self.task.make(view, since)
        except FollowError as error:
            self._follower, self._status = None, Status("failed", error=error)
            return
        run = (self._follower, self.stop)
        self._thread = threading.Thread(target=self._run, args=run, name=f"headrace-{self.task.name}", daemon=True)
        self._thread.start()

    def hold(self) -> None:
        self.held = True
        self.stop.set()
        self.join(LOOK_S)
        if self._follower is None and self._status.state != "failed":
            self._status = Status("stopped")

    def end(self, seconds: float) -> FollowError | None:
        """Wait for its end; an error when it does not end in time."""
        ended, status = self.join(seconds), self.status
        if ended:
            if self.waits:
                self._status = Status("stopped")
            return None
        return FollowError(
            "HR-416",
            f"The follower `{self.task.name}` did not end in {STOP_S:g} seconds, and is left where it is.",
            found=f"it is {status.doing} since {status.step}",
            fix="nothing is lost: the next one goes on from the positions in its store; look at what it waited for",
        )

    def join(self, seconds: float) -> bool:
        """Wait for its thread; whether it has ended."""
        if self._thread is not None:
            self._thread.join(max(0.0, seconds))
            if self._thread.is_alive():
                return False
            self._thread = None
        return True

    def _run(self, follower: Follower, stop: threading.Event) -> None:
        try:
            follower.run(stop)
        except FollowError:
            return  # its status tells
        except Exception as error:
            told = FollowError(
                "HR-409",
                f"The follower `{follower.name}` stopped with {type(error).__name__}: {error}.",
                found="".join(traceback.format_exception(error)[-3:]).strip(),
                fix="this is a fault of Headrace: please report it. Starting again goes on from the store's positions",
            )
            status = follower.status
            self._status = replace(status, state="failed", waiting=None, error=told)


def _same(one: View, other: View) -> bool:
    return (one.topic, one.schema, one.key) == (other.topic, other.schema, other.key)
