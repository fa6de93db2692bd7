"""The rows that certify makes up for captured tables are the rows of PostgreSQL; what it cannot make is told first."""

from __future__ import annotations

import uuid

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import headrace as hr
from headrace.errors import RunError
from headrace.graph.node import Source
from headrace.testing import database
from headrace.testing.database import Database

TYPES = (
    "id bigint, a string, b boolean, c tinyint, d smallint, e int, f float, g double, h decimal(10,2), i binary,"
    " j date, k timestamp, l timestamp_ntz, m array<int>, n array<string>"
)


def captured(schema: str | None) -> Source:
    app = hr.App("shop")
    return app.table("things", hr.postgres("stock.things"), key="id", schema=schema)


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (None, "no schema"),
        ("id bigint, tags map<string,string>", "tags map"),
        ("id bigint, m array<array<int>>", "m a"),
    ],
)
def test_a_table_that_no_rows_can_be_made_of_is_refused(schema: str | None, found: str):
    with pytest.raises(RunError, match=found) as caught:
        Database("host=nowhere", [captured(schema)], seed=1, rate=1, keys=())
    assert caught.value.code == "HR-347"


def test_rows_of_every_type_are_written_and_read(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    name = f"certify{uuid.uuid4().hex[:10]}"
    monkeypatch.setattr(database, "NAME", name)
    table = captured(TYPES)
    made = Database(postgres_url, [table], seed=7, rate=1000, keys=("id",))
    try:
        made.large("things")
        made.start()
        while made.total < 200:
            assert made.is_alive()
        made.stop()
        rows = made.rows()["things"]
        with psycopg.connect(make_conninfo(postgres_url, dbname=name)) as connection:
            found = connection.execute("SELECT count(*), max(length(a)) FROM stock.things").fetchone()
    finally:
        made.stop()
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
    assert found is not None
    assert len(rows) == found[0] > 10
    assert {len(row) for row in rows} == {15}
    assert all(any(row[column] is not None for row in rows) for column in rows[0])
