"""The progress files of an app, read as they grow.

Its processes write them (engine/progress.py). Each file is read from where the last look ended, so a look costs what
was written since.
"""

from __future__ import annotations

import json
from pathlib import Path

from headrace.engine import progress
from headrace.engine.progress import Progress
from headrace.serve.observation.history import History
from headrace.settings import Settings

FIRST_BYTES = 400_000


class ProgressFiles:
    """The progress files of one app; `look` from one thread at a time, `histories` (by name) from any."""

    def __init__(self, settings: Settings, app: str) -> None:
        self._directory = progress.directory(settings, app)
        self._read: dict[str, tuple[int, int]] = {}
        self.histories: dict[str, History] = {}

    def look(self) -> None:
        """Read what was written since the last look."""
        files = sorted(self._directory.glob("*.jsonl")) if self._directory.is_dir() else []
        for file in files:
            known = self.histories.get(file.stem)
            for event in self._events(file, known.last.at if known else ""):
                self.histories.setdefault(event.query, History(event)).take(event)

    @property
    def latest(self) -> list[Progress]:
        """The last event of each, by name."""
        return [self.histories[name].last for name in sorted(self.histories)]

    def _events(self, file: Path, known: str) -> list[Progress]:
        """What was written since; of a file that was cut, and so is read again, what is newer than `known`."""
        try:
            with file.open("rb") as opened:
                found = opened.seek(0, 2)
                inode = file.stat().st_ino
                before, offset = self._read.get(file.name, (0, 0))
                again = before != inode or found < offset  # a file that was cut is another file
                if again:
                    offset = max(0, found - FIRST_BYTES)
                opened.seek(offset)
                text = opened.read(found - offset)
        except OSError:
            return []
        whole = text.rfind(b"\n") + 1
        self._read[file.name] = inode, offset + whole
        events = [event for line in text[:whole].splitlines() if (event := _event(line)) is not None]
        return [event for event in events if event.at > known] if again else events


def _event(line: bytes) -> Progress | None:
    try:
        return Progress(**json.loads(line))
    except (ValueError, TypeError):
        return None
