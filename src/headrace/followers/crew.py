"""Several followers, each in a thread of its own, looked after until they are stopped.

A follower of a view begins when the catalogue names the view, and begins anew when the catalogue says that the view has
another topic, other columns or another key: also when another version of it becomes current. A follower of a stream
begins when the catalogue has been asked, and begins anew when another version of the stream becomes current. One that
cannot go on by itself has failed, and the others go on. A crash of this process loses nothing: every follower goes on
from the positions in its store.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from headrace.errors import FollowError, LogError
from headrace.followers.follower import Follower, Status
from headrace.followers.store import Positions
from headrace.log import catalogue
from headrace.log.catalogue import Entries, View
from headrace.log.connection import Connection

LOOK_S = 1.0
LOOK_AGAIN_S = 5.0


@dataclass(frozen=True)
class Task:
    """A follower to be: `name` is `<view>.postgres` or `<stream>.<webhook>`; `make` gets what it follows, with where it
    ended when it became current.

    `of` is what it follows. A view is waited for; a stream that the catalogue does not name is what is declared.
    """

    name: str
    of: str
    is_view: bool
    make: Callable[[View | None, Positions], Follower]


class Crew:
    """The followers of an app; `look_after` again and again, from one thread."""

    def __init__(self, app: str, connection: Connection, tasks: Sequence[Task]) -> None:
        self._app = app
        self._connection = connection
        self._members = {task.name: _Member(task) for task in tasks}
        self._looked = 0.0

    def look_after(self) -> None:
        """Begin what can begin."""
        missing = any(member.waits for member in self._members.values())
        if time.monotonic() - self._looked < (LOOK_S if missing else LOOK_AGAIN_S):
            return
        entries, unknown = Entries(), None
        try:
            entries = catalogue.entries(self._connection, self._app)
        except LogError as error:
            unknown = error.what
        self._looked = time.monotonic()
        for member in self._members.values():
            if member.held:
                continue
            of = member.task.of
            found = entries.current.get(of)
            if found is not None:
                version = entries.versions.get(of, {}).get(found.version)
                member.begin(found, version.since if version else {})
            elif unknown is None and not member.task.is_view:
                member.begin(None, {})
            elif member.waits:
                member.wait(unknown or f"the view `{of}` has not run yet: start the app")

    def hold(self, name: str, held: bool) -> None:
        """Let a follower end after what it is applying, or let it go on from where its store says that it is."""
        member = self._members[name]
        if held and not member.held:
            member.hold()
        elif not held and member.held:
            member.held = False
            self._looked = 0.0

    @property
    def statuses(self) -> dict[str, tuple[str, Status]]:
        """How each one does, by name, with the topic that it follows."""
        return {name: (member.topic, member.status) for name, member in self._members.items()}

    @property
    def failures(self) -> list[FollowError]:
        """Why those that have failed have."""
        return [status.error for _, status in self.statuses.values() if status.error is not None]

    @property
    def all_failed(self) -> bool:
        return bool(self._members) and len(self.failures) == len(self._members)

    def stop(self) -> None:
        """Let every follower finish what it applies, and end."""
        for member in self._members.values():
            member.stop.set()
        for member in self._members.values():
            member.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Member:
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
        """Start it, unless it runs already for this view; a changed view ends what ran for the old one."""
        known = self._thread is not None or self._status.state == "failed"
        if known and (view is None or (self._view is not None and _same(view, self._view))):
            return
        self.stop.set()
        self.join()
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
        self.join()
        if self._follower is None and self._status.state != "failed":
            self._status = Status("stopped")

    def end(self) -> None:
        self.join()
        if self.waits:
            self._status = Status("stopped")

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

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
            self._status = Status("failed", status.applied, status.dead, status.lag, status.last, error=told)


def _same(one: View, other: View) -> bool:
    return (one.topic, one.schema, one.key) == (other.topic, other.schema, other.key)
