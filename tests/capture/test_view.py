"""A view over a captured table, from PostgreSQL to PostgreSQL: capture, topic, engine, topic, table.

The app leaves the columns to the database. Rows are put, changed (their keys too), deleted and truncated, before and
after capture and engine are started again; whatever the mode, the table of the view is what the same query says of the
source.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.capture.stage import Stage, eventually

import headrace as hr
from headrace.capture.table import Captured
from headrace.engine import captured
from headrace.engine.health import health
from headrace.engine.mode import Mode
from headrace.engine.run import Run
from headrace.errors import RunError
from headrace.followers.view_follower import ViewFollower
from headrace.log import dead
from headrace.log.catalogue import View
from headrace.settings import Settings

TABLE = """
CREATE TABLE cards (
    id int PRIMARY KEY, owner text NOT NULL, spent numeric(30,12), exact numeric, at timestamptz, day date,
    local timestamp, tags text[], raw bytea, x double precision, big bigint, ok boolean, doc jsonb)
"""
WANTED = (
    "SELECT id, upper(owner), spent * 2, exact::text, at, day, local, tags, raw, x, big, ok, doc::text"
    " FROM cards WHERE spent > 0.000000000001 ORDER BY id"
)
VALUES = "now(), '2024-02-29', '2024-02-29 12:00:00.123456', '{a,NULL,\"b c\"}', '\\x00ff', 0.1, 9007199254740993, true"


def declared(stage: Stage, topic: str | None = None) -> hr.App:
    app = hr.App(stage.app)
    app.table("cards", hr.postgres("public.cards"), key="id")

    @app.view(key="id", topic=topic or f"{stage.app}.rich")
    def rich(cards):
        return cards.where("spent > 0.000000000001").selectExpr(
            "id", "upper(owner) as owner", "cast(spent * 2 as decimal(31,12)) as twice", "exact", "at", "day", "local",
            "tags", "raw", "x", "big", "ok", "doc", "change",
        )  # fmt: skip

    return app


def tables(stage: Stage) -> tuple[Captured, ...]:
    return captured.captured(declared(stage).graph())


@contextmanager
def following(stage: Stage, view: View) -> Iterator[None]:
    """Keep the view's table in the same database."""
    stop = threading.Event()
    follower = ViewFollower(stage.url, view, stage.connection)
    thread = threading.Thread(target=follower.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
    assert follower.status.error is None
    assert follower.status.dead == 0


def table_of(stage: Stage) -> list[tuple[Any, ...]]:
    if stage.execute("SELECT to_regclass(%s)", f'"{stage.app}".rich') == [(None,)]:
        return []
    return stage.execute(
        "SELECT id, owner, twice, exact, at, day, local, tags, raw, x, big, ok, doc"
        f' FROM "{stage.app}".rich ORDER BY id'
    )


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(str(v) if isinstance(v, Decimal) else bytes(v) if isinstance(v, memoryview) else v for v in row)
            for row in rows]  # fmt: skip


def wait_until_equal(stage: Stage) -> None:
    def told() -> str:
        letters = [str(one) for one in dead.dead_letters(stage.connection, stage.topic("cards"))][:3]
        return f"view {table_of(stage)[:4]} source {stage.execute(WANTED)[:4]} dead {letters}"

    eventually(lambda: comparable(table_of(stage)) == comparable(stage.execute(WANTED)), told, seconds=90)


def insert(stage: Stage, first: int, last: int, spent: str) -> None:
    stage.execute(
        "INSERT INTO cards SELECT n, 'owner ' || n, " + spent + ", '0.00000000000000000000000000000000000000001', "
        + VALUES + ", '{\"a\": [1, null]}' FROM generate_series(%s::int, %s::int) n", first, last)  # fmt: skip


def change(stage: Stage) -> None:
    """Inserts, updates, updates of keys, deletes, a truncate with rows after it, and a transaction of all of them."""
    insert(stage, 1, 20, "n * 123456789012345.000000000001")
    stage.execute("UPDATE cards SET spent = 0 WHERE id % 3 = 0")
    stage.execute("UPDATE cards SET id = id + 100 WHERE id <= 5")
    stage.execute("DELETE FROM cards WHERE id IN (7, 8, 101)")
    with stage.database.transaction():
        stage.execute("UPDATE cards SET owner = 'é \"quoted\" 日本', exact = 'NaN', x = 'Infinity' WHERE id = 10")
        stage.execute("UPDATE cards SET spent = NULL, tags = '{}', raw = NULL, doc = NULL WHERE id = 11")
        stage.execute("UPDATE cards SET id = id + 1000 WHERE id = 13")
        stage.execute("DELETE FROM cards WHERE id = 14")


@pytest.mark.parametrize("mode", [Mode.EXACT, Mode.LIVE])
def test_a_view_of_a_captured_table(stage: Stage, spark: SparkSession, tmp_path: Path, mode: Mode):
    stage.execute(TABLE)
    insert(stage, 500, 520, "n")
    settings = Settings.model_construct(directory=tmp_path, source=stage.url)
    start: Callable[[], Run] = lambda: Run.start(  # noqa: E731
        declared(stage), mode=mode, settings=settings, bootstrap=stage.bootstrap, spark=spark
    )
    with stage.capturing(*tables(stage)), start() as run, following(stage, run.outputs["rich"]):
        wait_until_equal(stage)
        change(stage)
        wait_until_equal(stage)
        assert len(table_of(stage)) > 20
        stage.execute("TRUNCATE cards")
        insert(stage, 5, 8, "n")
        wait_until_equal(stage)
        assert len(table_of(stage)) == 4
    # Nobody looks, and a column is added that the query was not built with.
    stage.execute("ALTER TABLE cards ADD more text DEFAULT 'x'")
    stage.execute("UPDATE cards SET id = 9 WHERE id = 5")
    stage.execute("DELETE FROM cards WHERE id = 6")
    with stage.capturing(*tables(stage)), start() as run, following(stage, run.outputs["rich"]):
        wait_until_equal(stage)
        stage.execute("TRUNCATE cards")
        stage.execute("ALTER TABLE cards DROP more")
        change(stage)
        wait_until_equal(stage)
        # The markers of transactions are no records: whoever has read all of those is not behind.
        eventually(lambda: _is_keeping_up(run), lambda: str(run.progress()))
    assert list(dead.dead_letters(stage.connection, stage.topic("cards"))) == []
    # The batch answer over the same topic is the same table.
    stage.execute(f'DROP TABLE "{stage.app}".rich')
    stage.execute("DELETE FROM headrace.positions")
    batch = declared(stage, f"{stage.app}.again")
    with Run.start(batch, mode=Mode.BATCH, settings=settings, bootstrap=stage.bootstrap, spark=spark):
        pass
    with following(stage, replace(run.outputs["rich"], topic=f"{stage.app}.again")):
        wait_until_equal(stage)


def _is_keeping_up(run: Run) -> bool:
    (of,) = run.progress()
    return bool(of.lag) and not any(of.lag.values()) and health(of, datetime.now(UTC), alive=True).word == "keeping-up"


def test_a_query_that_has_begun_starts_without_the_database(stage: Stage, spark: SparkSession, tmp_path: Path):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, owner text)")
    told: list[str] = []

    def start(**given: Any) -> Run:
        app = hr.App(stage.app)
        app.table("cards", hr.postgres("public.cards"), key="id")

        @app.view(key="id", topic=f"{stage.app}.all")
        def everything(cards):
            return cards

        settings = Settings.model_construct(directory=tmp_path, **given)
        return Run.start(
            app, mode=Mode.EXACT, settings=settings, bootstrap=stage.bootstrap, spark=spark, report=told.append
        )

    away = ("postgresql://somebody:open-sesame@127.0.0.1:1/nothing", "postgresql://somebody:open-sesame%@host/nothing")
    for given in ({}, *({"source": url} for url in away)):
        with pytest.raises(RunError, match="HR-304") as raised, start(**given):
            pass
        assert "open-sesame" not in str(raised.value)
    with start(source=stage.url) as run:
        assert run.outputs["everything"].schema == "id INT,owner STRING"
        run.finish_input()
    with start() as run:
        assert run.outputs["everything"].schema == "id INT,owner STRING"
    stage.execute("ALTER TABLE cards ADD more int")
    told.clear()
    with start(source=stage.url) as run:
        assert run.outputs["everything"].schema == "id INT,owner STRING"
    assert "cards has the column more now, which `everything` leaves out until it is replayed" in told
    stage.execute("ALTER TABLE cards ALTER owner TYPE int USING 1")
    with pytest.raises(RunError, match="HR-307"), start(source=stage.url):
        pass


def test_columns_that_cannot_be_taken(stage: Stage, spark: SparkSession, tmp_path: Path):
    app = hr.App(stage.app)
    app.table("cards", hr.postgres("public.cards"), key="id")

    @app.view(key="id", topic=f"{stage.app}.all")
    def everything(cards):
        return cards

    settings = Settings.model_construct(directory=tmp_path, source=stage.url)
    for columns, said in (('a int, "A" int', "upper and lower"), ("change text", "change"), ("__hr_x int", "__hr_x")):
        stage.execute(f"CREATE TABLE cards (id int PRIMARY KEY, {columns})")
        with (
            pytest.raises(RunError, match="HR-304") as raised,
            Run.start(app, mode=Mode.EXACT, settings=settings, bootstrap=stage.bootstrap, spark=spark),
        ):
            pass
        assert said in str(raised.value)
        stage.execute("DROP TABLE cards")
