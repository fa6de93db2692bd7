"""What is to be captured, and what is to be done again."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.capture.table import Captured
from headrace.log.connection import Connection


@dataclass(frozen=True)
class Order:
    """What is to be captured, and where from and to. `limit` is how many bytes of its log the server may hold back."""

    app: str
    url: str = field(repr=False)
    connection: Connection
    tables: tuple[Captured, ...]
    limit: int | None = None


@dataclass
class Wanted:
    """Tables that are to be read again, and whether a lost slot may be made anew; each is granted once."""

    tables: set[str] = field(default_factory=set)
    slot: bool = False
