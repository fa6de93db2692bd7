"""What the pages are about: one app, where it runs, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.graph.graph import Graph
from headrace.graph.node import Derived
from headrace.log.connection import Connection
from headrace.names import versioned
from headrace.serve.console.audit import Audit
from headrace.serve.console.rows import Views
from headrace.serve.console.secret import secrets
from headrace.serve.console.tail import Tails
from headrace.serve.console.watch import Watch
from headrace.settings import Settings


@dataclass(frozen=True)
class Scene:
    """One app with its background; `tails` and `views` are the topics that somebody looks at."""

    settings: Settings
    connection: Connection
    watch: Watch
    tails: Tails
    views: Views
    audit: Audit
    file: Path | None = None

    @classmethod
    def of(cls, graph: Graph, settings: Settings, connection: Connection, file: Path | None = None) -> Scene:
        """The scene of an app, not yet watched; `file` declares it."""
        return cls(
            settings,
            connection,
            Watch(graph, settings, connection),
            Tails(connection),
            Views(connection),
            Audit(settings, graph.app),
            file,
        )

    @property
    def graph(self) -> Graph:
        """The app in the versions that are current."""
        return self.watch.graph

    def query(self, name: str) -> str:
        """What the query that writes a function is called, in its current version."""
        node = self.graph.node(name)
        return versioned(name, node.version) if isinstance(node, Derived) else name

    def secrets(self, name: str) -> frozenset[str]:
        """The fields of a node that are not shown."""
        return secrets(self.graph)[name]

    def start(self) -> None:
        self.watch.start()

    def stop(self) -> None:
        self.tails.stop()
        self.views.stop()
        self.watch.stop()
