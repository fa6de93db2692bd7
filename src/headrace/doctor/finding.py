"""One thing that was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Weight(StrEnum):
    """How bad it is."""

    BROKEN = "broken"
    """It does not run, or not rightly."""
    AILING = "ailing"
    """It runs, and will get worse."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True)
class Repair:
    """What can be done about it: `what` in words, and the doing, which says where the backup is."""

    what: str
    do: Callable[[], str]


@dataclass(frozen=True)
class Finding:
    """`of` is the query, topic or table that has it."""

    weight: Weight
    of: str
    disease: str
    evidence: str
    remedy: str
    repair: Repair | None = field(default=None, compare=False)
