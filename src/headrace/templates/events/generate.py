"""Orders, one JSON object a line, as a checkout would send them: some of them twice.

python generate.py --rate 5 --seconds 60
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

PRODUCTS = {"lamp": 60, "desk": 300, "chair": 120, "shelf": 200, "sofa": 800}


def order() -> dict[str, object]:
    """One order, made now."""
    product, price = random.choice(list(PRODUCTS.items()))
    return {
        "id": str(uuid.uuid4()),
        "customer": f"customer{random.randrange(50)}",
        "product": product,
        "amount": price * random.randint(1, 3),
        "at": datetime.now(UTC).isoformat(),
    }


def main() -> None:
    """Print orders until the time is over, or until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Print orders.")
    parser.add_argument("--rate", type=float, default=5, help="orders a second (5)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end by itself")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while time.monotonic() < until:
            line = json.dumps(order())
            for _ in range(2 if random.random() < 0.1 else 1):
                print(line, flush=True)
            time.sleep(1 / given.rate)


if __name__ == "__main__":
    main()
