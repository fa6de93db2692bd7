"""The columns of a captured table: what the database has as a schema, and what an app may declare of it."""

from __future__ import annotations

import pytest
from tests.capture.stage import Stage, eventually

from headrace.capture import columns
from headrace.capture.database import connect
from headrace.capture.kinds import Kinds
from headrace.capture.table import find
from headrace.errors import CaptureError
from headrace.log.schema import Schema

TYPES = [
    ("smallint", "smallint"),
    ("integer", "int"),
    ("bigint", "bigint"),
    ("oid", "bigint"),
    ("real", "float"),
    ("double precision", "double"),
    ("boolean", "boolean"),
    ("numeric(10,2)", "decimal(10,2)"),
    ("numeric(38,38)", "decimal(38,38)"),
    ("numeric(5)", "decimal(5,0)"),
    ("numeric(3,-2)", "decimal(5,0)"),
    ("numeric(2,5)", "decimal(5,5)"),
    ("numeric(39,2)", "string"),
    ("numeric(38,-1)", "string"),
    ("numeric", "string"),
    ("text", "string"),
    ("varchar(7)", "string"),
    ("uuid", "string"),
    ("jsonb", "string"),
    ("interval", "string"),
    ("money", "string"),
    ("bytea", "binary"),
    ("date", "date"),
    ("time", "string"),
    ("timestamp(3)", "timestamp_ntz"),
    ("timestamptz", "timestamp"),
    ("mood", "string"),
    ("price", "decimal(12,3)"),
    ("prices", "array<decimal(12,3)>"),
    ("grid", "array<array<int>>"),
    ("integer[]", "array<int>"),
    ("numeric(6,1)[]", "array<decimal(6,1)>"),
    ("text[][]", "array<array<string>>"),
    ("price[]", "array<decimal(12,3)>"),
    ("oidvector", "string"),
    ("int2vector", "string"),
]


def made(stage: Stage) -> None:
    stage.execute("CREATE TYPE mood AS ENUM ('happy')")
    stage.execute("CREATE DOMAIN price AS numeric(12,3)")
    stage.execute("CREATE DOMAIN prices AS price[]")
    stage.execute("CREATE DOMAIN grid AS int[][]")


def test_the_database_tells_the_columns(stage: Stage):
    made(stage)
    listed = ", ".join(f"c{number} {name}" for number, (name, _) in enumerate(TYPES))
    stage.execute(f'CREATE TABLE things (id int PRIMARY KEY, {listed}, "Odd `name`" text)')
    found = columns.ask(stage.url, stage.table("things"))
    assert [field.type for field in found.fields[1:-1]] == [wanted for _, wanted in TYPES]
    assert found.names[-1] == "Odd `name`"
    assert [field.name for field in found.fields if not field.nullable] == ["id"]
    assert Schema.parse(found.ddl) == found


def test_a_table_that_is_not_there_or_has_no_key(stage: Stage):
    with pytest.raises(CaptureError, match="HR-604"):
        columns.ask(stage.url, stage.table("things"))
    stage.execute("CREATE TABLE things (id int)")
    with pytest.raises(CaptureError, match="HR-605"):
        columns.ask(stage.url, stage.table("things"))


def test_declared_columns_must_be_readable(stage: Stage):
    made(stage)
    stage.execute(
        "CREATE TABLE things (id int PRIMARY KEY, amount numeric(10,2), n bigint, at timestamptz, day timestamp,"
        " tags text[], grid int[][], x real, note text, raw bytea)"
    )

    def complaint(declared: str) -> str:
        captured = stage.table("things", columns=Schema.parse(declared).fields)
        with connect(stage.url, "test") as connection:
            try:
                columns.check(captured, find(connection, captured), Kinds(connection))
            except CaptureError as error:
                return str(error)
        return ""

    fine = "id bigint, amount decimal(12,2), n double, at timestamp, day timestamp_ntz, tags array<string>,"
    assert complaint(fine + " grid array<array<bigint>>, x double, note string, raw binary") == ""
    assert complaint("id int, amount string, at string, day string, note timestamp, raw string") == ""
    assert complaint(Schema.parse(columns.ask(stage.url, stage.table("things")).ddl).ddl) == ""
    for wrong in ("amount double", "n string", "at timestamp_ntz", "day timestamp", "tags string", "tags array<int>",
                  "note int", "note struct<a:int>", "x boolean", "other int"):  # fmt: skip
        assert wrong.split()[0] in complaint(f"id int, {wrong}"), wrong
    assert "HR-622" in complaint("id int, amount double")
    assert "declare `amount decimal(10,2)`" in complaint("id int, amount double")


def test_capture_does_not_begin_with_columns_that_nobody_can_read(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, amount numeric)")
    with stage.capturing(stage.table("cards", columns=Schema.parse("id int, amount double").fields)) as running:
        running.wait_for("failed")
        assert "HR-622" in str(running.capture.status.error)
    with stage.capturing(stage.table("cards", columns=Schema.parse("id int, amount string").fields)) as running:
        stage.execute("INSERT INTO cards VALUES (1, 0.10)")
        eventually(lambda: stage.rebuilt("cards") == {'{"id":1}': {"id": 1, "amount": "0.10"}})
