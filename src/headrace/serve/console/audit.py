"""Who did what through the console: one line for every action, before it is done and when it is over.

The lines are JSON in `.headrace/audit.jsonl` beside the app; nothing removes them. An action that cannot be written
down is not done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from starlette.requests import Request

from headrace.engine import progress
from headrace.engine.lines import append
from headrace.errors import HeadraceError, ServeError
from headrace.settings import Settings

FILE = "audit.jsonl"
LAST_BYTES = 64_000


@dataclass(frozen=True)
class Action:
    """One line: `user` is who was let in by what, `outcome` is `asked`, `done` or why it was not done."""

    at: str
    user: str
    address: str
    app: str
    action: str
    of: str
    outcome: str


@dataclass(frozen=True)
class Audit:
    """The book of an app; `request` tells who acts."""

    settings: Settings
    app: str

    @property
    def file(self) -> Path:
        return self.settings.state / FILE

    @contextmanager
    def noted(self, request: Request, action: str, of: str) -> Iterator[None]:
        """Write down what is asked, and how it ended."""
        user = getattr(request.state, "user", "unknown")
        address = request.client.host if request.client else "unknown"

        def note(outcome: str) -> None:
            self._write(Action(progress.moment(), user, address, self.app, action, of, outcome))

        note("asked")
        try:
            yield
        except HeadraceError as error:
            note(f"{error.code}: {error.what}"[:500])
            raise
        except BaseException as error:
            note(f"failed: {type(error).__name__}")
            raise
        note("done")

    def last(self, count: int = 20) -> list[Action]:
        """The newest lines, the newest first."""
        try:
            with self.file.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LAST_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        found = [action for line in lines if (action := _read(line)) is not None and action.app == self.app]
        return found[: -count - 1 : -1]

    def _write(self, action: Action) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            append(self.file, json.dumps(asdict(action)), durable=True)
        except OSError as error:
            raise ServeError(
                "HR-543",
                f"The action was not done, because it cannot be written down in {self.file}: {error.strerror}.",
                found=self.file,
                fix="make the directory writable, and free some space",
            ) from None


def _read(line: str) -> Action | None:
    try:
        return Action(**json.loads(line))
    except (ValueError, TypeError):
        return None
