"""Which files of an app were saved: its own, the modules beside it that it has loaded, and its files of SQL.

The directories of these files are watched, and not what is below them: the state directory, where files change all the
time, is beside the app. A new file of SQL counts where there is one of the app's. After a file that could not be loaded
any saved file of Python or SQL there counts, since the one that is missing may be new.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog
from watchfiles import Change, watch

from headrace.app import App
from headrace.graph.node import Derived
from headrace.graph.statement import Statement

QUIET_MS = 300
SQL = ".sql"
STEP_MS = 200

log = structlog.get_logger()


class SavedFiles:
    """Those of the app in a file, watched inside the `with` block; `take` gives what was saved since the last time."""

    def __init__(self, app: Path) -> None:
        self.app = app.resolve()
        self._lock = threading.Lock()
        self._saved: set[Path] = set()
        self._known: frozenset[Path] = frozenset()
        self._any = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def know(self, files: Collection[Path], *, any_file: bool = False) -> None:
        """Heed these files besides the app's, or any of Python or SQL in their directories."""
        before = self._directories()
        self._known, self._any = frozenset(files), any_file
        if self._thread is not None and self._directories() != before:
            self._end()
            self._begin()

    def take(self) -> list[Path]:
        """The files that were saved, in order of their names."""
        with self._lock:
            found, self._saved = sorted(self._saved), set()
        of_sql = {one.parent for one in self._known if one.suffix == SQL}
        return [
            one
            for one in found
            if self._any or one == self.app or one in self._known or (one.suffix == SQL and one.parent in of_sql)
        ]

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _directories(self) -> set[Path]:
        return {one.parent for one in (self.app, *self._known)}

    def _begin(self) -> None:
        self._stop = threading.Event()
        arguments = (self._directories(), self._stop)
        self._thread = threading.Thread(target=self._watch, args=arguments, name="headrace-saved", daemon=True)
        self._thread.start()

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self, directories: set[Path], stop: threading.Event) -> None:
        changes = watch(
            *(one for one in directories if one.is_dir()),
            watch_filter=_is_code,
            debounce=QUIET_MS,
            step=STEP_MS,
            stop_event=stop,
            recursive=False,
            raise_interrupt=False,
        )
        try:
            for changed in changes:
                with self._lock:
                    self._saved |= {Path(path).resolve() for kind, path in changed if kind is not Change.deleted}
        except (OSError, RuntimeError) as error:  # such as: the system watches as many files as it may
            log.warning(f"saved files are not noticed: {error}")


def _is_code(change: Change, path: str) -> bool:
    return path.endswith((".py", SQL))


def loaded(file: Path, app: App | None = None) -> list[Path]:
    """The files of the modules in the app's directory that this process has loaded, and those of the app's SQL."""
    functions = [node.function for node in (app.definitions if app else ()) if isinstance(node, Derived)]
    statements = [Path(one.where.file).resolve() for one in functions if isinstance(one, Statement)]
    return [*(module for _, module in _beside(file)), *(one for one in statements if one.suffix == SQL)]


def forget(app: Path) -> None:
    """Let the modules in the app's directory be loaded again when they are asked for."""
    for name, _ in _beside(app):
        sys.modules.pop(name, None)


def _beside(app: Path) -> list[tuple[str, Path]]:
    directory = app.resolve().parent
    found: list[tuple[str, Path]] = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name == "__main__" or name.partition(".")[0] == "headrace" or not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(directory) and not path.is_relative_to(sys.prefix):
            found.append((name, path))
    return found
