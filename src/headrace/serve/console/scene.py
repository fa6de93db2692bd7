"""What the pages are about: one app, where it runs, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.graph.graph import Graph
from headrace.log.connection import Connection
from headrace.serve.console.secret import secrets
from headrace.serve.console.tail import Tails
from headrace.serve.console.watch import Watch
from headrace.settings import Settings


@dataclass(frozen=True)
class Scene:
    """One app with its background; `tails` are the topics that somebody looks at."""

    graph: Graph
    settings: Settings
    connection: Connection
    watch: Watch
    tails: Tails

    @classmethod
    def of(cls, graph: Graph, settings: Settings, connection: Connection) -> Scene:
        """The scene of an app, not yet watched."""
        return cls(graph, settings, connection, Watch(graph, settings, connection), Tails(connection))

    def secrets(self, name: str) -> frozenset[str]:
        """The fields of a node that are not shown."""
        return secrets(self.graph)[name]

    def start(self) -> None:
        self.watch.start()

    def stop(self) -> None:
        self.tails.stop()
        self.watch.stop()
