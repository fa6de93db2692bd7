"""Partitions that come and go with rows in them, of which the write-ahead log says nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.capture.stage import Running, Stage, eventually
from tests.capture.test_schema_change import status

from headrace.capture import session, snapshot

KEY = ("id", "part")
TABLE = "CREATE TABLE {} (id int, part int, note text, PRIMARY KEY (id, part))"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "HEALTH_S", 0.1)
    monkeypatch.setattr(snapshot, "ROWS", 40)


@pytest.fixture
def sales(stage: Stage) -> Stage:
    stage.execute(TABLE.format("sales") + " PARTITION BY LIST (part)")
    stage.execute("CREATE TABLE other (id int PRIMARY KEY)")
    stage.execute("CREATE TABLE sales_0 PARTITION OF sales FOR VALUES IN (0)")
    stage.execute("INSERT INTO sales SELECT n, 0, 'first' FROM generate_series(1, 100) n")
    return stage


def attach(stage: Stage, part: int, rows: int, note: str = "attached") -> None:
    stage.execute(TABLE.format(f"sales_{part}"))
    stage.execute(f"INSERT INTO sales_{part} SELECT n, {part}, '{note}' FROM generate_series(1, {rows}) n")
    stage.execute(f"ALTER TABLE sales ATTACH PARTITION sales_{part} FOR VALUES IN ({part})")


def wait_until_seen(stage: Stage, running: Running) -> None:
    """Until the capture has seen which partitions there are."""
    found = stage.execute("SELECT inhrelid::bigint FROM pg_inherits WHERE inhparent = 'sales'::regclass")
    there = {number for (number,) in found}

    def seen() -> bool:
        now = running.capture._session
        live = now.lives.get("public.sales") if now is not None else None
        return live is not None and {number for number, _ in live.state.partitions or ()} == there

    eventually(seen, lambda: f"{running.capture.status} {running.lines}")


def read_rows(stage: Stage) -> int:
    return sum(one["op"] == "r" for one in stage.changes("sales"))


def test_a_partition_that_is_attached_with_rows(sales: Stage):
    """Torture row 28: only the rows of that partition are read."""
    with sales.capturing(sales.table("sales", *KEY), sales.table("other")) as running:
        running.wait_until_read()
        attach(sales, 1, 95)
        sales.execute("UPDATE sales SET note = 'changed' WHERE part = 1 AND id % 3 = 0")
        sales.execute("DELETE FROM sales WHERE part = 1 AND id % 5 = 0")
        sales.execute("INSERT INTO other VALUES (1)")
        sales.wait_until_equal("other")
        sales.wait_until_equal("sales", *KEY)
        running.wait_until_read()
        assert read_rows(sales) <= 195
        assert len(sales.rebuilt("sales")) == 176
        assert status(running, "sales").paused is None


def test_partitions_that_are_detached_and_dropped(sales: Stage):
    for part in (1, 2):
        attach(sales, part, 30)
    with sales.capturing(sales.table("sales", *KEY), sales.table("other")) as running:
        running.wait_until_read()
        sales.wait_until_equal("sales", *KEY)
        sales.execute("ALTER TABLE sales DETACH PARTITION sales_1")
        sales.wait_until_equal("sales", *KEY)
        sales.execute("ALTER TABLE sales DETACH PARTITION sales_2 CONCURRENTLY")
        sales.wait_until_equal("sales", *KEY)
        sales.execute("DROP TABLE sales_0")
        eventually(lambda: sales.rebuilt("sales") == {})
        sales.execute("ALTER TABLE sales ATTACH PARTITION sales_2 FOR VALUES IN (2)")
        sales.wait_until_equal("sales", *KEY)
        assert len(sales.rebuilt("sales")) == 30
        assert status(running, "sales").paused is None


def test_a_partition_that_is_made_empty_and_filled_is_not_read(sales: Stage):
    with sales.capturing(sales.table("sales", *KEY), sales.table("other")) as running:
        running.wait_until_read()
        sales.execute("CREATE TABLE sales_1 PARTITION OF sales FOR VALUES IN (1)")
        (made,) = sales.execute("SELECT oid FROM pg_class WHERE relname = 'sales_1'")
        known = lambda: running.capture._session and running.capture._session.lives["public.sales"].state.partitions  # noqa: E731
        eventually(lambda: made[0] in dict(known() or ()))
        sales.execute("INSERT INTO sales SELECT n, 1, 'late' FROM generate_series(1, 50) n")
        sales.wait_until_equal("sales", *KEY)
        assert read_rows(sales) == 100
        assert status(running, "sales").paused is None


def test_what_happens_to_partitions_while_nobody_captures(sales: Stage):
    """One that is detached, changed and attached again has the same number, and other rows."""
    attach(sales, 1, 50)
    with sales.capturing(sales.table("sales", *KEY)) as running:
        running.wait_until_read()
    sales.execute("UPDATE sales SET note = 'before' WHERE part = 1")
    sales.execute("ALTER TABLE sales DETACH PARTITION sales_1")
    sales.execute("DELETE FROM sales_1 WHERE id > 20")
    sales.execute("INSERT INTO sales_1 VALUES (77, 1, 'while it was detached')")
    sales.execute("ALTER TABLE sales ATTACH PARTITION sales_1 FOR VALUES IN (1)")
    # A partition that has partitions of its own.
    sales.execute(TABLE.format("more") + " PARTITION BY LIST (part)")
    for part in (7, 8):
        sales.execute(f"CREATE TABLE more_{part} PARTITION OF more FOR VALUES IN ({part})")
        sales.execute(f"INSERT INTO more SELECT n, {part}, 'deep' FROM generate_series(1, 60) n")
    sales.execute("ALTER TABLE sales ATTACH PARTITION more FOR VALUES IN (7, 8)")
    with sales.capturing(sales.table("sales", *KEY)) as running:
        sales.wait_until_equal("sales", *KEY)
        sales.execute("ALTER TABLE sales DETACH PARTITION more")
        sales.execute("INSERT INTO more VALUES (100, 7, 'x')")
        sales.wait_until_equal("sales", *KEY)
        sales.execute("ALTER TABLE sales ATTACH PARTITION more FOR VALUES IN (7, 8)")
        sales.wait_until_equal("sales", *KEY)
        assert len(sales.rebuilt("sales")) == 100 + 21 + 121


def test_a_role_that_may_read_the_table_and_not_its_partitions(sales: Stage):
    role = f"poor_{sales.app}"
    sales.execute(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'one'")
    sales.execute(f"GRANT SELECT ON sales TO {role}")
    sales.execute(f"CREATE PUBLICATION headrace_{sales.app} FOR TABLE sales WITH (publish_via_partition_root = true)")
    url, sales.url = sales.url, make_conninfo(sales.url, user=role, password="one")
    with sales.capturing(sales.table("sales", *KEY)) as running:
        running.wait_until_read()
        attach(sales, 1, 50)
        sales.wait_until_equal("sales", *KEY)
        assert status(running, "sales").paused is None
    sales.url = url
    sales.execute(f"DROP OWNED BY {role}")
    sales.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("after", ["", "CREATE TABLE sales_1 AS SELECT 7 AS id, 1 AS part, 'not ours' AS note"])
def test_a_partition_that_goes_while_it_is_read(sales: Stage, after: str, monkeypatch: pytest.MonkeyPatch):
    """Between the look at its name and the reading of its rows; or another table has taken its name."""
    look, asked = snapshot.tables.partition, list[int]()

    def gone(connection: psycopg.Connection[tuple[Any, ...]], number: int) -> sql.Identifier | None:
        name = look(connection, number)
        if not asked:
            sales.execute("DROP TABLE sales_1")
            if after:
                sales.execute(after)
        asked.append(number)
        return name

    monkeypatch.setattr(snapshot.tables, "partition", gone)
    with sales.capturing(sales.table("sales", *KEY)) as running:
        running.wait_until_read()
        attach(sales, 1, 50)
        eventually(lambda: len(asked) > 0)
        sales.wait_until_equal("sales", *KEY)
        running.wait_until_read()
        assert status(running, "sales").paused is None
    assert len(sales.rebuilt("sales")) == 100


def test_any_order_of_partitions_that_come_and_go(sales: Stage, seed: int, tmp_path: Path):
    """While rows change and capture is stopped and started, with the rows of a table that is behind. A partition that
    goes has been seen: what comes, is written to and goes between two looks of the capture stays in the topic."""
    dice = random.Random(seed)
    inside, outside, made = {0}, set[int](), 0
    for _ in range(4):
        with sales.capturing(sales.table("sales", *KEY), sales.table("other")) as running:
            for _ in range(12):
                what = dice.choice(("attach", "detach", "drop", "change", "change", "wait"))
                if what == "attach" and outside and dice.random() < 0.5:
                    part = outside.pop()
                    sales.execute(f"DELETE FROM sales_{part} WHERE id % 4 = {dice.randrange(4)}")
                    sales.execute(f"ALTER TABLE sales ATTACH PARTITION sales_{part} FOR VALUES IN ({part})")
                    inside.add(part)
                elif what == "attach":
                    made += 1
                    attach(sales, made, dice.choice((0, 10, 90)), f"made {made}")
                    inside.add(made)
                elif what in ("detach", "drop") and inside:
                    wait_until_seen(sales, running)
                    part = inside.pop()
                    if what == "drop":
                        sales.execute(f"DROP TABLE sales_{part}")
                    else:
                        sales.execute(f"ALTER TABLE sales DETACH PARTITION sales_{part}")
                        outside.add(part)
                elif what == "change" and inside:
                    part, note = dice.choice(sorted(inside)), dice.randrange(1000)
                    sales.execute(
                        f"INSERT INTO sales SELECT n, {part}, 'a' FROM generate_series(1, 60) n WHERE n % 7 ="
                        f" {dice.randrange(7)} ON CONFLICT (id, part) DO UPDATE SET note = 'b{note}'"
                    )
                    sales.execute(f"DELETE FROM sales WHERE part = {part} AND id % 11 = {dice.randrange(11)}")
                elif what == "wait":
                    running.wait_until_read()
            if dice.random() < 0.5:
                sales.wait_until_equal("sales", *KEY)
    with sales.capturing(sales.table("sales", *KEY), sales.table("other")) as running:
        sales.wait_until_equal("sales", *KEY)
        assert status(running, "sales").paused is None
    assert made
