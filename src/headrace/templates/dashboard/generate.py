"""Visits of pages, one JSON object a line; some pages are seen more than others.

python generate.py --rate 20 --seconds 60
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
import uuid
from contextlib import suppress
from datetime import UTC, datetime

PAGES = ("/", "/search", "/cart", "/product/lamp", "/product/desk", "/checkout", "/help")


def visit() -> dict[str, object]:
    """One visit, made now."""
    return {
        "id": str(uuid.uuid4()),
        "visitor": f"visitor{random.randrange(500)}@example.com",
        "page": random.choices(PAGES, [1 / (1 + rank) for rank in range(len(PAGES))])[0],
        "at": datetime.now(UTC).isoformat(),
    }


def main() -> None:
    """Print visits until the time is over, or until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Print visits.")
    parser.add_argument("--rate", type=float, default=20, help="visits a second (20)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end by itself")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while time.monotonic() < until:
            print(json.dumps(visit()), flush=True)
            time.sleep(1 / given.rate)


if __name__ == "__main__":
    main()
