"""kill -9 of capture at any moment: no change is lost, none is doubled, none is out of order."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import Any

import pytest
from tests.capture.stage import Stage, eventually

from headrace.capture import beginning

KILLS = 4


@pytest.mark.timeout(300)
def test_changes_while_capture_is_killed_again_and_again(stage: Stage):
    """Also while it reads the table for the first time, which takes several ranges (torture row 12)."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text, version int)")
    stage.execute("INSERT INTO cards SELECT n, 'first', 0 FROM generate_series(1, 70000) n")
    stage.declare('app.table("cards", hr.postgres("public.cards"), key="id")')
    stop, committed = threading.Event(), []

    def write() -> None:
        own = random.Random(seed + 1)
        with stage.connect() as database:
            while not stop.is_set():
                with database.transaction():
                    xid = database.execute("SELECT pg_current_xact_id()::text").fetchone()
                    for _ in range(own.randrange(1, 8)):
                        _change(database, own)
                committed.append(int(xid[0] if xid else 0))
                time.sleep(own.random() / 200)

    writer = threading.Thread(target=write)
    writer.start()
    process = stage.start()
    try:
        for _ in range(KILLS):
            time.sleep(1.5 + chance.random() * 1.5)
            process.kill()
            process.wait()
            process = stage.start()
        time.sleep(1)
    finally:
        stop.set()
        writer.join()
    stage.wait_until_equal("cards")
    end(process)
    changes = [change for change in stage.changes("cards") if change["op"] != "r"]
    check_transactions(changes)
    assert {change["source"]["txId"] for change in changes} <= set(committed)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def check_transactions(changes: list[dict[str, Any]]) -> None:
    """Each change of each transaction is there once, and none is missing from the middle."""
    found = Counter((one["transaction"]["id"], one["transaction"]["total_order"]) for one in changes)
    assert [place for place, count in found.items() if count > 1] == []
    orders: dict[str, list[int]] = {}
    for name, order in found:
        orders.setdefault(name, []).append(order)
    assert {name: sorted(of) for name, of in orders.items()} == {
        name: list(range(1, len(of) + 1)) for name, of in orders.items()
    }


def _change(database: Any, chance: random.Random) -> None:
    id_ = chance.randrange(1, 80000)
    kind = chance.random()
    if kind < 0.4:
        database.execute(
            "INSERT INTO cards VALUES (%s, 'new', 0) ON CONFLICT (id) DO UPDATE SET version = cards.version + 1", (id_,)
        )
    elif kind < 0.7:
        database.execute("UPDATE cards SET version = version + 1, owner = owner || 'x' WHERE id = %s", (id_,))
    elif kind < 0.9:
        database.execute("DELETE FROM cards WHERE id = %s", (id_,))
    else:
        database.execute(
            "UPDATE cards SET id = %s WHERE id = %s AND NOT EXISTS (SELECT FROM cards WHERE id = %s)",
            (id_ + 100000, id_, id_ + 100000),
        )


def test_a_second_capture_is_refused_and_the_first_goes_on(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(beginning, "TAKE_OVER_S", 1.0)
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards")) as first:
        first.wait_until_read()
        with stage.capturing(stage.table("cards")) as second:
            second.wait_for("failed")
            assert "HR-608" in str(second.capture.status.error)
        stage.execute("INSERT INTO cards VALUES (1)")
        eventually(lambda: len(stage.rebuilt("cards")) == 1)
