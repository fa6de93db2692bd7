"""The examples of joins: attribution (streams), timelines (tables), and orders (a database) with `headrace dev`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession

from headrace.app import load
from headrace.log import topic
from headrace.log.connection import Connection
from headrace.testing import Delete, Driver

EXAMPLES = Path(__file__).parents[2] / "examples"
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PATIENCE_S = 300


def minutes(count: float) -> datetime:
    return START + timedelta(minutes=count)


def test_attribution(spark: SparkSession, bootstrap: str):
    with Driver(load(EXAMPLES / "attribution" / "app.py"), spark=spark, bootstrap=bootstrap) as driver:
        shown = [
            ("i1", "ann", "lamp", 0),
            ("i2", "ann", "lamp", 5),
            ("i3", "bob", "lamp", 5),
            ("i4", "ann", "desk", -40),
        ]
        for name, visitor, ad, at in shown:
            driver.push("impressions", [{"impression": name, "visitor": visitor, "ad": ad, "shown": minutes(at)}])
        driver.push("searches", [{"search": f"s{n}", "words": "a lamp", "searched": minutes(n)} for n in range(3)])
        for name, ad, search, at in (("c1", "lamp", "s0", 10), ("c2", "desk", None, 0), ("c3", "lamp", "s1", 30)):
            click = {"click": name, "visitor": "ann", "ad": ad, "search": search, "clicked": minutes(at)}
            driver.push("clicks", [click])
        driver.advance()
        (lamp,) = driver.view("clicks_per_ad")
        assert (lamp["ad"], lamp["clicks"], lamp["impressions"]) == ("lamp", 2, 2)
        # Nothing is said of a search before its ten minutes are over, by the time of both streams.
        for partition in range(2):
            driver.push("searches", [{"search": "end", "words": "", "searched": minutes(60)}], partition=partition)
            later = {"click": f"end{partition}", "visitor": "eve", "ad": "x", "search": None, "clicked": minutes(60)}
            driver.push("clicks", [later], partition=partition)
        driver.advance()
        assert sorted(row["search"] for row in driver.read("unanswered")) == ["s1", "s2"]


def test_timelines(spark: SparkSession, bootstrap: str):
    with Driver(load(EXAMPLES / "timelines" / "app.py"), spark=spark, bootstrap=bootstrap) as driver:

        def seen() -> set[tuple[str, str, str]]:
            return {(row["follower"], row["post"], row["text"]) for row in driver.view("timelines")}

        driver.push("follows", [{"follower": who, "author": "bob"} for who in ("ann", "eve")])
        driver.push("posts", [{"post": "p1", "author": "bob", "text": "hello", "at": START}])
        driver.advance()
        assert seen() == {("ann", "p1", "hello"), ("eve", "p1", "hello")}
        driver.push("follows", [Delete({"follower": "eve", "author": "bob"})])
        driver.push("posts", [{"post": "p1", "author": "bob", "text": "hello!", "at": START}])
        driver.push("posts", [{"post": "p2", "author": "bob", "text": "again", "at": START}])
        driver.advance()
        assert seen() == {("ann", "p1", "hello!"), ("ann", "p2", "again")}
        assert [(row["author"], row["followers"]) for row in driver.view("reach")] == [("bob", 1)]


@pytest.fixture
def database(postgres_url: str) -> Iterator[str]:
    """A database with the tables of the example; its slots go with it."""
    name = f"orders_{uuid4().hex[:8]}"
    url = make_conninfo(postgres_url, dbname=name)
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")  # pyright: ignore[reportArgumentType, reportCallIssue]
        with psycopg.connect(url) as connection:
            connection.execute((EXAMPLES / "orders" / "tables.sql").read_bytes())
        yield url
        server.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", [name]
        )
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_orders(database: str, bootstrap: str, tmp_path: Path):
    app = tmp_path / "app.py"
    app.write_bytes((EXAMPLES / "orders" / "app.py").read_bytes())
    settings = {"HEADRACE_POSTGRES": database, "HEADRACE_BOOTSTRAP": bootstrap}
    command = [str(Path(sys.executable).with_name("headrace")), "dev", str(app), "--no-console", "--for", "10m"]
    log = tmp_path / "dev.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=out, stderr=subprocess.STDOUT)
    try:
        invoices = "SELECT id, article, buyer, city, total FROM orders.invoices ORDER BY id"
        lamps = [(1, "lamp", "Ann", "Berlin", "21.00"), (2, "lamp", "Bob", "Paris", "10.50")]
        _await(database, invoices, [*lamps, (3, "desk", "Bob", "Paris", "99.00")], process, log)
        with psycopg.connect(database) as connection:
            connection.execute("UPDATE products SET price = 12 WHERE id = 1")
            connection.execute("UPDATE customers SET city = 'Rome' WHERE id = 2")
            connection.execute("DELETE FROM orders WHERE id = 3")
        lamps = [(1, "lamp", "Ann", "Berlin", "24.00"), (2, "lamp", "Bob", "Rome", "12.00")]
        _await(database, invoices, lamps, process, log)
        revenue = "SELECT city, orders, total FROM orders.revenue ORDER BY city"
        _await(database, revenue, [("Berlin", 1, "24.00"), ("Rome", 1, "12.00")], process, log)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, log.read_text(errors="replace")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        connection = Connection(bootstrap)
        captured = [f"orders.public.{table}" for table in ("orders", "products", "customers")]
        topic.delete(connection, "invoices", "revenue", *captured)


def _await(url: str, query: str, expected: list[tuple[Any, ...]], process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the table of a view says so."""
    until = time.monotonic() + PATIENCE_S
    found: object = None
    while found != expected:
        assert time.monotonic() < until, f"{found}\n{log.read_text(errors='replace')[-3000:]}"
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        time.sleep(0.3)
        try:
            with psycopg.connect(url) as connection:
                rows = connection.execute(query.encode()).fetchall()
            found = [(*row[:-1], f"{row[-1]:.2f}") for row in rows]
        except psycopg.errors.UndefinedTable as error:
            found = str(error)
