"""What has come out of an app under test, read from its topics, wherever those are."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from headrace import names
from headrace.graph.graph import Graph
from headrace.log.consumer import Record


class Outcome(ABC):
    """A context manager that is closed at its end."""

    graph: Graph

    def read(self, name: str) -> list[dict[str, Any]]:
        """The rows that a node's topic holds, oldest first."""
        return _rows(self.records(name))

    def view(self, name: str) -> list[dict[str, Any]]:
        """The rows that a view has, by what its topic says."""
        table: dict[bytes | None, Record] = {}
        for record in self.records(name):
            table.pop(record.key, None)
            table[record.key] = record
        return _rows(list(table.values()))

    def records(self, name: str) -> list[Record]:
        """The same with keys, headers and positions."""
        return self._oldest_first(self.graph.node(name).topic)

    def late(self, name: str) -> list[dict[str, Any]]:
        """The rows that came too late for a written node's operators."""
        return _rows(self._oldest_first(names.late_topic(self.graph.node(name).topic)))

    @abstractmethod
    def close(self) -> None:
        """Let go of what was made for it."""

    @abstractmethod
    def _oldest_first(self, topic: str) -> list[Record]:
        """The records of a topic."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _rows(records: list[Record]) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in records if record.value is not None]
