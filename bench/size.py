"""How much a bench over preloaded records does, from its command line."""

from __future__ import annotations

import argparse
from typing import NamedTuple


class Size(NamedTuple):
    """How many records, and how many warm rounds, of which the median counts."""

    events: int
    warm: int


def size(bench: str, what: str) -> Size:
    """Read the options of `python -m <bench>`; `what` describes it in --help."""
    parser = argparse.ArgumentParser(prog=f"python -m {bench}", description=what)
    parser.add_argument("--events", type=int, default=2_000_000, help="how many records (default 2,000,000)")
    parser.add_argument("--warm", type=int, default=3, help="warm rounds, of which the median counts (default 3)")
    parser.add_argument("--quick", action="store_true", help="100,000 records and one warm round")
    given = parser.parse_args()
    return Size(100_000, 1) if given.quick else Size(given.events, given.warm)
