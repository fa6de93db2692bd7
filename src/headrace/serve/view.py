"""The views that are served: those of one app in the catalogue, with their columns.

A view is the version of it that is current, until a read finds that its table holds another one (view_table.py): then
that one is served, so that a switch from one version to another is seen whole, and when the table is exchanged.
"""

from __future__ import annotations

import asyncio
import difflib
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from headrace.errors import HeadraceError, LogError, ServeError
from headrace.log import catalogue
from headrace.log.connection import Connection
from headrace.log.schema import Schema, SchemaError
from headrace.serve import statement
from headrace.serve.column import Column

REFRESH_S = 5.0
AGAIN_S = 0.5


@dataclass(frozen=True)
class View:
    """A view of the catalogue, with its schema read."""

    entry: catalogue.View
    columns: tuple[Column, ...]
    key: tuple[Column, ...]

    @classmethod
    def of(cls, entry: catalogue.View) -> View:
        columns = tuple(Column.of(field) for field in Schema.parse(entry.schema).fields)
        by_name = {column.name: column for column in columns}
        return cls(entry, columns, tuple(by_name[name] for name in entry.key))

    @property
    def name(self) -> str:
        return self.entry.view

    @property
    def topic(self) -> str:
        return self.entry.topic

    @property
    def table(self) -> str:
        """Its table as SQL names it."""
        return statement.name(self.entry.app, self.entry.view)

    @property
    def follower(self) -> str:
        """Under what name the positions of the table are kept."""
        return f"{self.entry.app}.{self.entry.view}"

    @property
    def text_key(self) -> bool:
        """Whether a record's key is the text of the one key column, and not a JSON object."""
        return len(self.key) == 1 and self.key[0].type == "string"


class Views:
    """The views of an app, read from the catalogue again and again; `moved` is told of one that is no longer as it was.

    While Kafka is away the last views that were seen are served.
    """

    def __init__(self, connection: Connection, app: str, moved: Callable[[View], None]) -> None:
        self._connection = connection
        self._app = app
        self._moved = moved
        self._views: dict[str, View] = {}
        self._versions: dict[str, View] = {}
        self._unreadable: dict[str, ServeError] = {}
        self._read = 0.0
        self._reading = asyncio.Lock()

    async def all(self) -> list[View]:
        """All of them, by name."""
        await self._refresh(math.inf)
        return [view for _, view in sorted(self._views.items())]

    async def find(self, name: str) -> View:
        """The view of that name; ServeError where there is none."""
        await self._refresh(math.inf)
        if name not in self._views:
            await self._refresh(AGAIN_S)
        if name in self._unreadable:
            raise self._unreadable[name]
        found = self._views.get(name)
        if found is None:
            close = difflib.get_close_matches(name, self._views, n=1)
            meant = f"did you mean `{close[0]}`? " if close else ""
            there = f"there are {', '.join(sorted(self._views))}" if self._views else "there are none yet"
            raise ServeError(
                "HR-501",
                f"The app `{self._app}` has no view of this name.",
                found=name[:200],
                fix=f"{meant}{there}; a view appears when `headrace run` has started its query",
            )
        return found

    async def version(self, name: str, topic: str) -> View:
        """The version of a view that has this topic; ServeError where there is none."""
        for age in (math.inf, 0.0):
            await self._refresh(age)
            found = self._versions.get(topic)
            if found is not None and found.name == name:
                return found
        raise ServeError(
            "HR-520",
            f"The table of the view `{name}` holds a version that the catalogue does not know.",
            found=f"rows of the topic {topic}",
            fix="try again; if it stays so, let `headrace follow` of the app run, which exchanges the table",
        )

    async def watch(self) -> None:
        """Keep them fresh, for ever."""
        while True:
            with suppress(HeadraceError):
                await self._refresh(0)
            await asyncio.sleep(REFRESH_S)

    async def _refresh(self, age: float) -> None:
        if time.monotonic() - self._read < age and self._read:
            return
        async with self._reading:
            if time.monotonic() - self._read < age and self._read:
                return
            try:
                entries = await asyncio.to_thread(catalogue.entries, self._connection, self._app)
            except LogError:
                if not self._read:
                    raise
                return
            finally:
                checked = time.monotonic()
            read = {name: _read(entry) for name, entry in entries.current.items() if entry.kind == "view"}
            others = [_read(one.of) for found in entries.versions.values() for one in found.values() if one.built]
            before, self._views = self._views, {name: view for name, view in read.items() if isinstance(view, View)}
            self._unreadable = {name: error for name, error in read.items() if isinstance(error, ServeError)}
            known = [*others, *self._views.values()]
            self._versions = {view.topic: view for view in known if isinstance(view, View)}
            self._read = checked
        for name, view in before.items():
            if self._views.get(name) != view:
                self._moved(view)


def _read(entry: catalogue.View) -> View | ServeError:
    try:
        return View.of(entry)
    except (SchemaError, KeyError) as error:
        return ServeError(
            "HR-513",
            f"The view `{entry.view}` cannot be served: its columns in the catalogue cannot be read.",
            found=f"{entry.schema}: {error}"[:500],
            fix="start the app again with the same version of Headrace that serves it",
        )
