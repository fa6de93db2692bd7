"""The tables while they are captured, and what is to be remembered of them with the next Kafka transaction."""

from __future__ import annotations

from headrace.capture.envelope import Envelope
from headrace.capture.relation import Relation
from headrace.capture.state import TableState
from headrace.capture.table import Captured
from headrace.errors import CaptureError


class Live:
    """A table while it is captured. `touched` are the keys that the stream brought since a range was begun, `outdated`
    says that what the range would read is not true any more."""

    __slots__ = (
        "captured", "dead", "envelope", "key", "outdated", "relation", "skipped", "state", "topic", "touched",
        "written",
    )  # fmt: skip

    def __init__(self, captured: Captured, key: tuple[str, ...], told: TableState) -> None:
        self.captured = captured
        self.key = key
        self.state = told
        self.topic = captured.topic
        self.relation: Relation | None = None
        self.envelope: Envelope | None = None
        self.touched: set[bytes] | None = None
        self.outdated = False
        self.written = self.skipped = self.dead = 0

    @property
    def is_paused(self) -> bool:
        return self.state.paused is not None


class Tables:
    """All of them: `by_name` as declared, `by_number` as the stream has announced them (None is not ours)."""

    def __init__(self) -> None:
        self.by_name: dict[str, Live] = {}
        self.by_number: dict[int, Live | None] = {}
        self.changed: dict[str, TableState | None] = {}

    def add(self, live: Live) -> None:
        self.by_name[live.captured.table] = live

    def keep(self, live: Live, told: TableState) -> None:
        """The table is so from now on, and this is to be remembered."""
        live.state = told
        self.changed[live.captured.table] = told

    def forget(self, name: str) -> None:
        """The table is not captured any more."""
        self.changed[name] = None

    def pause(self, live: Live, error: CaptureError) -> None:
        """Write nothing of the table until it is read again."""
        self.keep(live, live.state.with_(paused=str(error)))
        live.touched = None

    def to_read(self, *, outboxes: bool) -> Live | None:
        """A table, or an outbox, that is being read."""
        return next(
            (
                live
                for live in self.by_name.values()
                if live.state.reading and not live.is_paused and live.captured.is_outbox == outboxes
            ),
            None,
        )
