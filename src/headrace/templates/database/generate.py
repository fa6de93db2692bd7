"""Makes the tables, then writes orders to them, and changes a price now and then.

python generate.py --rate 2 --seconds 60

The database is the one of the settings, or the embedded one that `headrace parts up` has started.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psycopg

TABLES = """
CREATE TABLE IF NOT EXISTS products (id bigint PRIMARY KEY, name text, price numeric(10, 2));
CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, product bigint REFERENCES products, quantity int);
INSERT INTO products VALUES (1, 'lamp', 60), (2, 'desk', 300), (3, 'chair', 120) ON CONFLICT DO NOTHING;
"""


def database() -> str:
    """The address of the database, with its password."""
    command = ["headrace", "parts", "status", "--show-url", "--json", "--directory", str(Path(__file__).parent)]
    asked = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    url = next(part["url"] for part in json.loads(asked.stdout) if part["name"] == "postgres")
    if url is None:
        raise SystemExit("PostgreSQL does not run: start it with `headrace parts up`")
    return str(url)


def main() -> None:
    """Write until the time is over, or until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Make the tables, and write orders.")
    parser.add_argument("--rate", type=float, default=2, help="orders a second (2)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end by itself")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    with suppress(KeyboardInterrupt), psycopg.connect(database(), autocommit=True) as connection:
        connection.execute(TABLES)
        print("writing orders until Ctrl-C", flush=True)
        while time.monotonic() < until:
            order = (random.randint(1, 3), random.randint(1, 5))
            connection.execute("INSERT INTO orders (product, quantity) VALUES (%s, %s)", order)
            if random.random() < 0.05:
                connection.execute("UPDATE products SET price = price + 1 WHERE id = %s", (random.randint(1, 3),))
            time.sleep(1 / given.rate)


if __name__ == "__main__":
    main()
