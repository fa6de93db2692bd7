"""What a store must do so that a follower can keep it: the contract of all stores.

A store holds the result of a topic and the positions up to which it was applied, and changes both at once: after a
crash at any moment the positions say exactly what is in it. A store that cannot do that (a webhook) keeps the positions
right after the data; what was applied in between is applied again, and it says so.

`apply` either applies everything or raises, and then nothing was applied, except in a store that says otherwise:

    StoreAway   it cannot be reached now, or another follower holds it; the follower waits, opens it again and goes on
                from the positions that it then gives
    Poison      it can never take some of these changes; the follower writes dead letters and applies the rest
    FollowError it needs a person

tests/contracts/ holds the suite that every store passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.followers.pulse import Pulse
from headrace.log.consumer import Record

Positions = Mapping[int, int]
"""The next offset to apply, by partition."""


class StoreAway(Exception):  # noqa: N818 - not an error of anyone: it passes
    """The store cannot be reached; `retry_after` is how many seconds it asked to be left alone."""

    def __init__(self, reason: str, *, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Poison(Exception):  # noqa: N818 - it is the change that is wrong
    """Changes that the store can never take, each with the reason; without any, it is among those given."""

    def __init__(self, reason: str, changes: Sequence[tuple[Record, str]] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.changes = tuple(changes)


@dataclass(frozen=True)
class Kept:
    """What a store remembers: positions, of which topic (its id, where it knows), and how long ago they were
    written."""

    positions: Positions = field(default_factory=dict)
    topic_id: str | None = None
    age_s: float = 0.0


class Store(Protocol):
    """One derived store; used by one thread. It beats its `pulse` at each step, and ends a long one early with
    StoreAway when the pulse says that it is to stop."""

    pulse: Pulse

    @property
    def batch(self) -> int:
        """How many changes it takes at once, at most."""
        ...

    def open(self, topic_id: str) -> Kept:
        """Reach it, make what is missing, lock it against other followers, and give what it remembers.

        What it makes anew belongs to the topic with this id. Called again after `StoreAway`.
        """
        ...

    def apply(self, changes: Sequence[Record], positions: Positions) -> None:
        """Apply the changes in order, and move the positions on from those that `open` gave or the last `apply` left.

        When the positions of the store are others, another follower has been at work: FollowError.
        """
        ...

    def clear(self) -> None:
        """Reach and lock it, and clear everything, positions included; `open` then makes it anew."""
        ...

    def close(self) -> None:
        """Unlock it and close the connection; nothing is applied by this."""
        ...
