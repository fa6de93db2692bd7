"""Random transactions against the real server, while capture is killed at random: the topics tell the same story.

Two connections run transactions at once: inserts, updates (of keys too), deletes, truncates, savepoints, rollbacks.
Each transaction also writes one row to `ledger`, whose topic has one partition: it must hold every committed
transaction, once, in the order of the commits. The seed of a run is printed; `HEADRACE_SEED` repeats it, and
`HEADRACE_DEEP` has more.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from tests.capture.stage import Stage
from tests.capture.test_kill import check_transactions, end

DEEP = int(os.environ.get("HEADRACE_DEEP", "1"))
WHO = st.sampled_from((0, 1))
IDS = st.integers(1, 12)
TABLES = st.sampled_from(("cards", "notes"))
LOCKS = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation)


class Writers(RuleBasedStateMachine):
    """What two applications do to a database that is captured."""

    server: str
    bootstrap: str
    directory: Path

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(self.server, self.bootstrap, self.directory)
        self.stage.execute("CREATE TABLE ledger (id bigserial PRIMARY KEY, xid bigint)")
        self.stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text, n int DEFAULT 0)")
        self.stage.execute("CREATE TABLE notes (id int, part int, body text, PRIMARY KEY (id, part))")
        self.stage.execute("ALTER TABLE notes REPLICA IDENTITY FULL")
        self.stage.execute("ALTER TABLE cards ALTER owner SET STORAGE EXTERNAL")
        self.stage.execute("INSERT INTO cards SELECT n, 'first' FROM generate_series(1, 6) n")
        self.stage.declare(
            'app.table("ledger", hr.postgres("public.ledger"), key="id", partitions=1)\n'
            'app.table("cards", hr.postgres("public.cards"), key="id")\n'
            'app.table("notes", hr.postgres("public.notes"), key=["id", "part"])'
        )
        self.connections = [self.stage.connect() for _ in range(2)]
        for one in self.connections:
            one.execute("SET lock_timeout = '100ms'")
        self.running: list[int | None] = [None, None]
        self.committed: list[int] = []
        self.kills = 0
        self.process: subprocess.Popen[bytes] = self.stage.start()

    def run(self, who: int, statement: str, *arguments: Any) -> None:
        """Run a statement; one that meets a lock of the other ends its transaction."""
        connection = self.connections[who]
        if self.running[who] is None:
            connection.execute("BEGIN")
            row = connection.execute(
                "INSERT INTO ledger (xid) VALUES (pg_current_xact_id()::text::bigint) RETURNING xid"
            ).fetchone()
            self.running[who] = row[0] if row else None
        try:
            connection.execute(statement, arguments)  # pyright: ignore[reportArgumentType,reportCallIssue]
        except LOCKS:
            self.rollback(who)

    @rule(who=WHO, id_=IDS, text=st.sampled_from(("a", 'b"\\', "x" * 9000)))
    def upsert_card(self, who: int, id_: int, text: str) -> None:
        self.run(
            who, "INSERT INTO cards VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner", id_, text
        )

    @rule(who=WHO, id_=IDS)
    def count_card(self, who: int, id_: int) -> None:
        self.run(who, "UPDATE cards SET n = n + 1 WHERE id = %s", id_)

    @rule(who=WHO, id_=IDS, part=st.integers(1, 2))
    def upsert_note(self, who: int, id_: int, part: int) -> None:
        self.run(
            who, "INSERT INTO notes VALUES (%s, %s, 'x') ON CONFLICT (id, part) DO UPDATE SET body = notes.body || 'y'",
            id_, part,
        )  # fmt: skip

    @rule(who=WHO, table=TABLES, id_=IDS, other=IDS)
    def change_key(self, who: int, table: str, id_: int, other: int) -> None:
        self.run(who, f"UPDATE {table} SET id = %s WHERE id = %s", other, id_)

    @rule(who=WHO, table=TABLES, id_=IDS)
    def delete(self, who: int, table: str, id_: int) -> None:
        self.run(who, f"DELETE FROM {table} WHERE id = %s", id_)

    @rule(who=WHO, table=TABLES, often=st.integers(0, 3))
    def truncate(self, who: int, table: str, often: int) -> None:
        if often == 0:
            self.run(who, f"TRUNCATE {table}")

    @rule(who=WHO, id_=IDS)
    def undone(self, who: int, id_: int) -> None:
        self.run(who, "SAVEPOINT s")
        self.run(who, "UPDATE cards SET n = -1 WHERE id >= %s", id_)
        if self.running[who] is not None:
            self.run(who, "ROLLBACK TO s")

    @rule(who=WHO)
    def commit(self, who: int) -> None:
        xid = self.running[who]
        if xid is not None:
            self.connections[who].execute("COMMIT")
            self.running[who] = None
            self.committed.append(xid)

    @rule(who=WHO)
    def rollback(self, who: int) -> None:
        if self.running[who] is not None:
            self.connections[who].execute("ROLLBACK")
            self.running[who] = None

    @rule(seconds=st.sampled_from((0.0, 0.05, 0.3, 1.5)))
    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    @precondition(lambda self: self.kills < 4)
    @rule(seconds=st.sampled_from((0.0, 0.01, 0.5, 2.0)))
    def kill(self, seconds: float) -> None:
        time.sleep(seconds)
        self.kills += 1
        self.process.kill()
        self.process.wait()
        self.process = self.stage.start()

    def teardown(self) -> None:
        try:
            for who in (0, 1):
                self.commit(who)
                self.connections[who].close()
            self.check()
        finally:
            self.process.kill()
            self.process.wait()
            self.stage.close()

    def check(self) -> None:
        stage = self.stage
        stage.wait_until_equal("ledger")
        stage.wait_until_equal("cards")
        stage.wait_until_equal("notes", "id", "part")
        end(self.process)
        told: list[dict[str, Any]] = []
        for table in ("ledger", "cards", "notes"):
            places: dict[int, tuple[int, int]] = {}
            for record in stage.records(table):
                if record.value is None:
                    continue
                change = json.loads(record.value)
                if change["op"] == "r":
                    continue
                told.append(change)
                place = (int(change["transaction"]["id"].split(":")[1]), change["transaction"]["total_order"])
                assert place > places.get(record.partition, (0, 0)), "commits are in order"
                places[record.partition] = place
        check_transactions(told)
        # Transactions that were committed before there was a slot were read, and not streamed.
        streamed = [one["after"]["xid"] for one in told if one["source"]["table"] == "ledger"]
        assert streamed == self.committed[len(self.committed) - len(streamed) :]
        assert {one["source"]["txId"] for one in told} == set(streamed)


@pytest.mark.timeout(900)
def test_the_topics_tell_what_was_committed(
    postgres_url: str, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    start = int(os.environ.get("HEADRACE_SEED") or random.randrange(1 << 30))
    print(f"HEADRACE_SEED={start}")
    monkeypatch.setattr(Writers, "server", postgres_url, raising=False)
    monkeypatch.setattr(Writers, "bootstrap", bootstrap, raising=False)
    monkeypatch.setattr(Writers, "directory", tmp_path, raising=False)
    chosen = settings(
        max_examples=2 * DEEP,
        stateful_step_count=60,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(seed(start)(Writers), settings=chosen)
