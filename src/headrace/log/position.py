"""Where a record is: `topic[partition]@offset`, such as `payments[0]@42`.

A position names one record for good, as long as its topic is not deleted and made again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.errors import LogError

_TEXT = re.compile(r"([A-Za-z0-9._-]{1,249})\[(\d{1,10})\]@(\d{1,19})", re.ASCII)


@dataclass(frozen=True, order=True, slots=True)
class Position:
    """A record's place in the log; `str()` and `Position.parse` are each other's inverse."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `text` names."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise LogError(
                "HR-214",
                f"`{text}` is not a position",
                found=text,
                fix="write topic[partition]@offset, such as payments[0]@42",
            )
        return cls(match[1], int(match[2]), int(match[3]))

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"
