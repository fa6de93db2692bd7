"""What the pages read, and act through: one app, where it runs, and what is known of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from headrace.graph.graph import Graph
from headrace.graph.node import Derived
from headrace.log.connection import Connection
from headrace.names import CAPTURE, versioned
from headrace.serve.console.audit import Audit
from headrace.serve.console.secret import secrets
from headrace.serve.observation.observer import Observer
from headrace.serve.observation.rows import Views
from headrace.serve.observation.summary import FOLLOW
from headrace.serve.observation.tail import Tails
from headrace.settings import Settings


@dataclass(frozen=True)
class Backend:
    """One app; `tails` and `views` are the topics that somebody looks at, and `file` declares it."""

    settings: Settings
    connection: Connection
    observer: Observer
    tails: Tails
    views: Views
    audit: Audit
    file: Path | None = None

    @classmethod
    def of(cls, observer: Observer, settings: Settings, connection: Connection, file: Path | None = None) -> Backend:
        """The backend of an app that is observed."""
        return cls(
            settings,
            connection,
            observer,
            Tails(connection),
            Views(connection),
            Audit(settings, observer.graph.app),
            file,
        )

    @property
    def graph(self) -> Graph:
        """The app in the versions that are current."""
        return self.observer.graph

    def query(self, name: str) -> str:
        """What the query that writes a function is called, in its current version."""
        node = self.graph.node(name)
        return versioned(name, node.version) if isinstance(node, Derived) else name

    def command(self, mode: str) -> str:
        """What starts the queries of a mode, the followers or the captures of the app."""
        file = shlex.quote(self.file.name if self.file else "app.py")
        if mode in (FOLLOW, CAPTURE):
            return f"headrace {mode} {file}"
        return f"headrace run {file}{f' --mode {mode}' if mode else ''}"

    def secrets(self, name: str) -> frozenset[str]:
        """The fields of a node that are not shown."""
        return secrets(self.graph)[name]

    def stop(self) -> None:
        """Read no more for pages."""
        self.tails.stop()
        self.views.stop()
