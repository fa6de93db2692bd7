"""What a subscriber is told, in the two forms in which it can be told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property

from headrace.errors import HeadraceError
from headrace.serve import problem


@dataclass(frozen=True)
class Event:
    """`data` is the text of a JSON object; a heartbeat has none."""

    name: str
    data: str = "{}"
    id: str | None = None

    @cached_property
    def sse(self) -> bytes:
        """As a server-sent event."""
        id_line = f"id: {self.id}\n" if self.id is not None else ""
        if self.name == "heartbeat":
            return f": heartbeat\n{id_line}\n".encode()
        return f"event: {self.name}\n{id_line}data: {self.data}\n\n".encode()

    @cached_property
    def message(self) -> str:
        """As a message of a WebSocket: one object with the event, the id and the data."""
        head = json.dumps({"event": self.name} | ({"id": self.id} if self.id is not None else {}))
        return head if self.data == "{}" else f"{head[:-1]}, {self.data[1:]}"


def closed(error: HeadraceError) -> Event:
    """The event that says why nothing more comes."""
    return Event("closed", json.dumps(problem.body(error)))
