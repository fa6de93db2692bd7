"""How far a reader is in the topic of a view, as one compact token: `Zk3q0w.1767225600.12-0-7`.

The parts are: the topic (a digest of its id, so that a topic that was deleted and made again is another one), the
second at which the reader had read all that there was up to here, and the next offset of each partition from 0 on.

A token can be resumed from while the topic still holds everything behind it. What compaction takes away behind a token
is only what newer records of the same key replace, except for deletions, which it takes away after
`delete.retention.ms`: so a token that is older than that is refused. The time is what it is checked by.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import ServeError

MOST_PARTITIONS = 10_000
_TEXT = re.compile(r"([A-Za-z0-9_-]{8})\.(\d{1,11})\.(\d{1,19}(?:-\d{1,19})*)", re.ASCII)


@dataclass(frozen=True)
class Positions:
    """`str()` and `parse` are each other's inverse; partitions that are not named begin at 0."""

    topic: str
    at: int
    offsets: tuple[int, ...]

    @classmethod
    def of(cls, topic: str, at: int, offsets: Mapping[int, int]) -> Positions:
        """From the next offset of each partition; `topic` is its digest."""
        return cls(topic, at, tuple(offsets.get(i, 0) for i in range(max(offsets, default=0) + 1)))

    @classmethod
    def parse(cls, text: str) -> Positions:
        """The positions that a token says."""
        match = _TEXT.fullmatch(text)
        if match is None or match[3].count("-") >= MOST_PARTITIONS:
            raise ServeError(
                "HR-507",
                "This does not say how far a reader is.",
                found=text[:200],
                fix="give the `id` of the last event, or the `position` of an answer, as it was; without one the "
                "subscription begins with a snapshot",
            )
        return cls(match[1], int(match[2]), tuple(int(one) for one in match[3].split("-")))

    def __str__(self) -> str:
        return token(self.topic, self.at, self.offsets)


def token(topic: str, at: int, offsets: tuple[int, ...] | list[int]) -> str:
    """The same text, where there is no time to make a Positions of it."""
    return f"{topic}.{at}.{'-'.join(map(str, offsets))}"


def digest(topic_id: str) -> str:
    """What a topic is called in a token."""
    return urlsafe_b64encode(hashlib.sha256(topic_id.encode()).digest()[:6]).decode()
