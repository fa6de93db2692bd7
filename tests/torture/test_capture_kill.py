"""kill -9 of capture while partitions come and go, and while rows are large: the table in the topic is the table.

`make test` kills once; `make torture` kills twenty times (HEADRACE_KILLS).
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.capture.stage import Stage, eventually

KILLS = int(os.environ.get("HEADRACE_KILLS", "1"))
KEY = ("id", "part")
TABLE = "CREATE TABLE {} (id int, part int, note text, PRIMARY KEY (id, part))"
MB = 1024 * 1024


@pytest.fixture
def stage(postgres_url: str, bootstrap: str, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(postgres_url, bootstrap, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(3600)
def test_partitions_come_and_go_while_capture_is_killed(stage: Stage, seed: int):
    """Torture row 28."""
    dice = random.Random(seed)
    stage.execute(TABLE.format("sales") + " PARTITION BY LIST (part)")
    stage.execute("CREATE TABLE sales_0 PARTITION OF sales FOR VALUES IN (0)")
    stage.execute("INSERT INTO sales SELECT n, 0, 'first' FROM generate_series(1, 1000) n")
    stage.declare('app.table("sales", hr.postgres("public.sales"), key=["id", "part"])')
    for kill in range(1, KILLS + 1):
        process = stage.start()
        time.sleep(dice.uniform(0, 4))  # a kill may come at any moment
        stage.execute(TABLE.format(f"sales_{kill}"))
        stage.execute(f"INSERT INTO sales_{kill} SELECT n, {kill}, 'attached' FROM generate_series(1, 1000) n")
        stage.execute(f"ALTER TABLE sales ATTACH PARTITION sales_{kill} FOR VALUES IN ({kill})")
        stage.execute("UPDATE sales SET note = %s WHERE id %% 7 = %s", f"kill {kill}", dice.randrange(7))
        if kill % 2:
            stage.execute(f"ALTER TABLE sales DETACH PARTITION sales_{kill - 1}")
        time.sleep(dice.uniform(0, 6))
        process.kill()
        process.wait()
    process = stage.start()
    stage.execute(f"INSERT INTO sales VALUES (0, {KILLS}, 'last')")
    stage.wait_until_equal("sales", *KEY)
    assert len(stage.rebuilt("sales")) > 900
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.timeout(3600)
def test_large_rows_while_capture_is_killed(stage: Stage, seed: int):
    """Torture row 22: 40 MB are written; what no record holds is an error of its table, and the others go on."""
    dice = random.Random(seed)
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, note text, seen int)")
    stage.execute("ALTER TABLE cards REPLICA IDENTITY FULL")
    for table in ("books", "other"):
        stage.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
    stage.execute("INSERT INTO cards VALUES (1, repeat('x', %s), 0)", 20 * MB)
    tables = (f'app.table("{name}", hr.postgres("public.{name}"), key="id")' for name in ("cards", "books", "other"))
    stage.declare("\n".join(tables))
    for kill in range(1, KILLS + 1):
        process = stage.start()
        time.sleep(dice.uniform(0, 5))  # a kill may come at any moment
        stage.execute("UPDATE cards SET seen = %s", kill)
        stage.execute("INSERT INTO other VALUES (%s, 'small')", kill)
        time.sleep(dice.uniform(0, 2))
        process.kill()
        process.wait()
    process = stage.start()
    stage.wait_until_equal("other")
    stage.wait_until_equal("cards")
    stage.execute("INSERT INTO books VALUES (1, repeat('x', %s))", 64 * MB)
    eventually(lambda: "HR-613" in stage.log.read_text())
    stage.execute("INSERT INTO other VALUES (0, 'small')")
    stage.wait_until_equal("other")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 1, "a table is paused"
