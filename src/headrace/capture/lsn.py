"""Places in the write-ahead log: a 64-bit number that PostgreSQL writes as `16/B374D848`."""

from __future__ import annotations


def parse(text: str) -> int:
    """The number of `16/B374D848`."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def show(lsn: int) -> str:
    """PostgreSQL's spelling."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
