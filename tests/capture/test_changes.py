"""Changes as they are written: in Debezium's form, whole transactions, in the order of their commits."""

from __future__ import annotations

import json

import psycopg
from tests.capture.stage import Stage, eventually

from headrace.capture.changes import in_progress


def test_a_row_that_is_inserted_updated_and_deleted(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text, amount numeric(10,2))")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO cards VALUES (1, 'Ada', 12.50)")
        stage.execute("UPDATE cards SET owner = 'Bo' WHERE id = 1")
        stage.execute("DELETE FROM cards WHERE id = 1")
        stage.execute("INSERT INTO cards VALUES (2, 'Cy', 1)")
        eventually(lambda: list(stage.rebuilt("cards")) == ['{"id":2}'])
    records = stage.records("cards")
    first = [record for record in records if record.key == b'{"id":1}']
    assert first[-1].value is None, "a tombstone stands after the delete"
    created, updated, deleted = (json.loads(record.value or b"") for record in first[:-1])
    assert [one["op"] for one in (created, updated, deleted)] == ["c", "u", "d"]
    assert (created["before"], created["after"]) == (None, {"id": 1, "owner": "Ada", "amount": "12.50"})
    assert (updated["before"], updated["after"]) == (None, {"id": 1, "owner": "Bo", "amount": "12.50"})
    assert (deleted["before"], deleted["after"]) == ({"id": 1, "owner": None, "amount": None}, None)
    source = created["source"]
    assert (source["connector"], source["name"], source["db"]) == ("postgresql", stage.app, stage.app)
    assert (source["schema"], source["table"], source["snapshot"]) == ("public", "cards", "false")
    assert created["source"]["lsn"] < updated["source"]["lsn"] < deleted["source"]["lsn"]
    assert created["transaction"]["id"].startswith(f"{source['txId']}:")


def test_all_of_the_old_row_where_all_of_it_is_logged(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    stage.execute("ALTER TABLE cards REPLICA IDENTITY FULL")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO cards VALUES (1, 'Ada')")
        stage.execute("UPDATE cards SET owner = 'Bo'")
        stage.execute("DELETE FROM cards")
        stage.execute("INSERT INTO cards VALUES (2, 'Cy')")
        stage.wait_until_equal("cards")
    _, updated, deleted = (one for one in stage.changes("cards") if 1 in _ids(one))
    assert updated["before"] == {"id": 1, "owner": "Ada"}
    assert deleted["before"] == {"id": 1, "owner": "Bo"}


def test_a_key_that_changes_is_a_delete_and_an_insert(stage: Stage):
    stage.execute("CREATE TABLE seats (row text, place int, guest text, PRIMARY KEY (row, place))")
    with stage.capturing(stage.table("seats", "row", "place")) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO seats VALUES ('a', 1, 'Ada')")
        stage.execute("UPDATE seats SET place = 2")
        stage.wait_until_equal("seats", "row", "place")
    assert [(one["op"], one["transaction"]["total_order"]) for one in sorted(stage.changes("seats"), key=_place)] == [
        ("c", 1),
        ("d", 1),
        ("c", 2),
    ]


def test_a_truncated_table_is_empty_even_when_it_was_filled_in_the_same_transaction(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    stage.execute("INSERT INTO cards SELECT n, 'old' FROM generate_series(1, 20) n")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        with stage.database.transaction():
            stage.execute("INSERT INTO cards VALUES (100, 'before')")
            stage.execute("DELETE FROM cards WHERE id = 3")
            stage.execute("TRUNCATE cards")
            stage.execute("INSERT INTO cards VALUES (7, 'after')")
        stage.wait_until_equal("cards")
    assert list(stage.rebuilt("cards")) == ['{"id":7}']
    deleted = [one["before"]["id"] for one in stage.changes("cards") if one["op"] == "d"]
    assert sorted(deleted) == sorted([*range(1, 21), 100]), "each row once"


def test_a_rolled_back_transaction_is_not_there_and_savepoints_are_kept_to(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        with stage.database.transaction(force_rollback=True):
            stage.execute("INSERT INTO cards VALUES (1, 'Ada')")
        with stage.database.transaction():
            stage.execute("INSERT INTO cards VALUES (2, 'Bo')")
            with stage.database.transaction(force_rollback=True):
                stage.execute("INSERT INTO cards VALUES (3, 'Cy')")
            stage.execute("INSERT INTO cards VALUES (4, 'Di')")
        stage.wait_until_equal("cards")
    assert sorted(one["after"]["id"] for one in stage.changes("cards")) == [2, 4]
    assert len({one["transaction"]["id"] for one in stage.changes("cards")}) == 1


def test_large_values_that_an_update_leaves_as_they_were(stage: Stage):
    stage.execute("CREATE TABLE books (id int PRIMARY KEY, title text, body text)")
    stage.execute("ALTER TABLE books ALTER body SET STORAGE EXTERNAL")
    stage.execute("CREATE TABLE full_books (LIKE books INCLUDING ALL)")
    stage.execute("ALTER TABLE full_books REPLICA IDENTITY FULL")
    with stage.capturing(stage.table("books"), stage.table("full_books")) as running:
        running.wait_until_read()
        for table in ("books", "full_books"):
            stage.execute(f"INSERT INTO {table} VALUES (1, 'one', repeat('x', 20000))")
            stage.execute(f"UPDATE {table} SET title = 'two'")
            stage.wait_until_equal(table)
            stage.execute(f"UPDATE {table} SET id = 2")
            stage.wait_until_equal(table)
    for table in ("books", "full_books"):
        assert {len(one["after"]["body"]) for one in stage.changes(table) if one["after"]} == {20000}


def test_what_others_do_not_see_yet_is_waited_for(stage: Stage):
    """The stream brings a transaction a moment before others see it: a large value that is asked for is not gone."""
    stage.execute("CREATE TABLE moments (id int PRIMARY KEY)")
    with psycopg.connect(stage.url) as writing, psycopg.connect(stage.url, autocommit=True) as asking:
        row = writing.execute("INSERT INTO moments VALUES (1) RETURNING pg_current_xact_id()::text::bigint").fetchone()
        assert row is not None
        xid = row[0] & 0xFFFFFFFF
        assert in_progress(asking, xid)
        with psycopg.connect(stage.url, autocommit=True) as other:
            other.execute("INSERT INTO moments VALUES (2)")
        assert in_progress(asking, xid)
        writing.commit()
        assert not in_progress(asking, xid)


def test_partitions_are_one_table(stage: Stage):
    stage.execute("CREATE TABLE sales (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)")
    stage.execute("CREATE TABLE sales_1 PARTITION OF sales FOR VALUES FROM ('2025-01-01') TO ('2025-02-01')")
    stage.execute("CREATE TABLE sales_2 PARTITION OF sales FOR VALUES FROM ('2025-02-01') TO ('2025-03-01')")
    stage.execute("INSERT INTO sales VALUES (1, '2025-01-05')")
    with stage.capturing(stage.table("sales", "id", "day")) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO sales VALUES (2, '2025-02-05')")
        stage.execute("UPDATE sales SET day = '2025-02-06' WHERE id = 1")
        stage.wait_until_equal("sales", "id", "day")
        stage.execute("TRUNCATE sales")
        stage.wait_until_equal("sales", "id", "day")


def test_a_capture_goes_on_where_another_stopped(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    stage.execute("INSERT INTO cards VALUES (1, 'Ada')")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
    stage.execute("INSERT INTO cards VALUES (2, 'Bo')")
    with stage.capturing(stage.table("cards")) as running:
        stage.wait_until_equal("cards")
    assert sorted(one["op"] for one in stage.changes("cards")) == ["c", "r"]


def _ids(change: dict[str, dict[str, int] | None]) -> set[int]:
    return {row["id"] for row in (change["before"], change["after"]) if row}


def _place(change: dict[str, dict[str, int]]) -> tuple[int, int]:
    return change["source"]["lsn"], change["transaction"]["total_order"]


def test_a_transaction_that_was_replicated_from_elsewhere_names_its_origin(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    name = f'other "{stage.app}"'
    stage.execute("SELECT pg_replication_origin_create(%s)", name)
    try:
        with stage.capturing(stage.table("cards")) as running, stage.connect() as replica:
            running.wait_until_read()
            replica.execute("SELECT pg_replication_origin_session_setup(%s)", (name,))
            with replica.transaction():
                replica.execute("SELECT pg_replication_origin_xact_setup('0/10', now())")
                replica.execute("INSERT INTO cards VALUES (1)")
            stage.execute("INSERT INTO cards VALUES (2)")
            stage.wait_until_equal("cards")
            replica.execute("SELECT pg_replication_origin_session_reset()")
    finally:
        stage.execute("SELECT pg_replication_origin_drop(%s)", name)
    told = {one["after"]["id"]: one["source"] for one in stage.changes("cards")}
    assert (told[1]["origin"], told[1]["origin_lsn"]) == (name, 16)
    assert (told[2]["origin"], told[2]["origin_lsn"]) == (None, None)
