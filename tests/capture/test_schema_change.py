"""Columns that change while a table is captured: followed where that is safe, paused where it is not."""

from __future__ import annotations

from tests.capture.stage import Running, Stage, eventually

from headrace import names
from headrace.capture.capture import TableStatus
from headrace.log.schema import Schema


def status(running: Running, table: str) -> TableStatus:
    return next(one for one in running.capture.status.tables if one.name == table)


def test_columns_that_are_added_dropped_and_renamed_are_followed(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text, old text)")
    stage.execute("INSERT INTO cards SELECT n, 'o' || n, 'x' FROM generate_series(1, 50) n")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        stage.execute("ALTER TABLE cards ADD note text")
        stage.execute("INSERT INTO cards VALUES (101, 'a', 'b', 'c')")
        eventually(lambda: len(stage.rebuilt("cards")) == 51)
        assert sum(one["op"] == "r" for one in stage.changes("cards")) == 50, "nothing is read again"
        stage.execute("ALTER TABLE cards ADD rating int NOT NULL DEFAULT 5")
        stage.execute("UPDATE cards SET note = 'n' WHERE id <= 50")
        stage.execute("INSERT INTO cards VALUES (102, 'a', 'b', 'c', 1)")
        stage.wait_until_equal("cards")
        stage.execute("ALTER TABLE cards RENAME owner TO holder")
        stage.execute("INSERT INTO cards VALUES (103, 'a', 'b', 'c', 1)")
        stage.wait_until_equal("cards")
        stage.execute("ALTER TABLE cards DROP old")
        stage.execute("UPDATE cards SET rating = 4")
        stage.wait_until_equal("cards")
        stage.execute("ALTER TABLE cards ALTER rating TYPE bigint USING rating * 10")
        stage.execute("INSERT INTO cards VALUES (104, 'a', 'b', 1)")
        stage.wait_until_equal("cards")
        assert not status(running, "cards").paused


def test_a_column_that_would_look_otherwise_pauses_its_table_and_no_other(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, amount int)")
    stage.execute("CREATE TABLE other (id int PRIMARY KEY)")
    stage.execute("INSERT INTO cards VALUES (1, 10), (2, 20)")
    with stage.capturing(stage.table("cards"), stage.table("other")) as running:
        running.wait_until_read()
        stage.execute("ALTER TABLE cards ALTER amount TYPE text")
        stage.execute("UPDATE cards SET amount = 'many' WHERE id = 1")
        stage.execute("DELETE FROM cards WHERE id = 2")
        stage.execute("INSERT INTO other VALUES (1)")
        stage.wait_until_equal("other")
        eventually(lambda: status(running, "cards").paused is not None)
        assert "HR-611" in str(status(running, "cards").paused)
        assert "`amount` was written as whole number" in str(status(running, "cards").paused)
        assert status(running, "cards").skipped == 2
        assert running.capture.status.state == "running"
    with stage.capturing(stage.table("cards"), stage.table("other")) as running:
        running.wait_for("running")
        assert "HR-611" in str(status(running, "cards").paused), "it stays paused"
        assert len(stage.rebuilt("cards")) == 2
    with stage.capturing(stage.table("cards"), stage.table("other"), again=["public.cards"]) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")
        assert stage.rebuilt("cards") == {'{"id":1}': {"id": 1, "amount": "many"}}
        assert status(running, "cards").paused is None


def test_a_declared_column_that_goes_away_pauses_the_table(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    with stage.capturing(stage.table("cards", columns=Schema.parse("id int, owner string").fields)) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO cards VALUES (1, 'Ada')")
        stage.wait_until_equal("cards")
        stage.execute("ALTER TABLE cards DROP owner")
        stage.execute("INSERT INTO cards VALUES (2)")
        eventually(lambda: status(running, "cards").paused is not None)
        assert "`owner`, which was dropped or renamed" in str(status(running, "cards").paused)


def test_a_key_that_becomes_another_pauses_the_table(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, other int NOT NULL)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
        stage.execute("ALTER TABLE cards DROP CONSTRAINT cards_pkey, ADD PRIMARY KEY (other)")
        stage.execute("INSERT INTO cards VALUES (1, 2)")
        eventually(lambda: status(running, "cards").paused is not None)
        assert "its key" in str(status(running, "cards").paused)


def test_a_table_that_is_dropped_or_made_anew_is_paused(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    stage.execute("CREATE TABLE other (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards"), stage.table("other")) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO cards VALUES (1)")
        stage.wait_until_equal("cards")
        stage.execute("DROP TABLE cards")
        stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
        stage.execute("INSERT INTO cards VALUES (2)")
        eventually(lambda: status(running, "cards").paused is not None)
        assert "HR-612" in str(status(running, "cards").paused)
        stage.execute("INSERT INTO other VALUES (1)")
        stage.wait_until_equal("other")
    with stage.capturing(stage.table("cards"), stage.table("other"), again=["public.cards"]) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")
        assert list(stage.rebuilt("cards")) == ['{"id":2}']


def test_a_table_that_was_taken_out_of_the_publication_is_paused_until_it_is_read_again(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
    stage.execute(f"ALTER PUBLICATION {names.slot(stage.app)} DROP TABLE cards")
    stage.execute("INSERT INTO cards VALUES (1)")
    for _ in range(2):
        with stage.capturing(stage.table("cards")) as running:
            running.wait_for("running")
            assert "HR-612" in str(status(running, "cards").paused)
    with stage.capturing(stage.table("cards"), again=["public.cards"]) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")


def test_tables_that_are_declared_later_and_no_more(stage: Stage):
    for table in ("cards", "other"):
        stage.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
        stage.execute(f"INSERT INTO {table} VALUES (1), (2)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
    with stage.capturing(stage.table("cards"), stage.table("other")) as running:
        running.wait_until_read()
        stage.wait_until_equal("other")
    with stage.capturing(stage.table("other")) as running:
        running.wait_until_read()
        stage.execute("DELETE FROM cards WHERE id = 1")
        stage.execute("INSERT INTO other VALUES (3)")
        stage.wait_until_equal("other")
    with stage.capturing(stage.table("cards"), stage.table("other")) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")
        assert list(stage.rebuilt("cards")) == ['{"id":2}'], "what was deleted meanwhile is gone"
