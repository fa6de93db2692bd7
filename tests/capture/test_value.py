"""Every usual type, exactly: what the stream writes, what a snapshot writes, and what PostgreSQL says are one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.capture.stage import Stage, eventually

from headrace.capture import lsn, value

VALUES: list[tuple[str, str, Any]] = [
    ("smallint", "-32768", -32768),
    ("integer", "2147483647", 2147483647),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("oid", "4294967295", 4294967295),
    ("real", "1.5", 1.5),
    ("double precision", "'1e300'", 1e300),
    ("double precision", "'NaN'", "NaN"),
    ("double precision", "'-Infinity'", "-Infinity"),
    ("numeric(40,10)", "123456789012345678901234567890.0123456789", "123456789012345678901234567890.0123456789"),
    ("numeric", "0.00000000000000000001", "0.00000000000000000001"),
    ("numeric", "'NaN'", "NaN"),
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("text", """E'a "quoted" \\\\ back\\tslash\\nline é 日本 😀'""", 'a "quoted" \\ back\tslash\nline é 日本 😀'),
    ("text", "''", ""),
    ("text", "E'\\\\N'", "\\N"),
    ("varchar(10)", "'x'", "x"),
    ("char(3)", "'x'", "x  "),
    ("bytea", "'\\x00ff5c0a'", base64.b64encode(b"\x00\xff\x5c\x0a").decode()),
    ("date", "'2024-02-29'", "2024-02-29"),
    ("date", "'infinity'", "infinity"),
    ("date", "'0044-03-15 BC'", "0044-03-15 BC"),
    ("time", "'23:59:59.123456'", "23:59:59.123456"),
    ("time with time zone", "'12:00:00+05:30'", "12:00:00+05:30"),
    ("timestamp", "'2024-02-29 12:34:56.789'", "2024-02-29T12:34:56.789"),
    ("timestamp", "'-infinity'", "-infinity"),
    ("timestamptz", "'2024-02-29 12:34:56.789+02'", "2024-02-29T10:34:56.789Z"),
    ("timestamptz", "'infinity'", "infinity"),
    ("interval", "'1 year 2 mons 3 days 04:05:06.7'", "P1Y2M3DT4H5M6.7S"),
    ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("json", '\'{"a": [1, "x"]}\'', '{"a": [1, "x"]}'),
    ("jsonb", '\'{"a": [1, "x"], "b": null}\'', '{"a": [1, "x"], "b": null}'),
    ("inet", "'10.0.0.1/8'", "10.0.0.1/8"),
    ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "08:00:2b:01:02:03"),
    ("bit(4)", "B'1010'", "1010"),
    ("money", "'12.5'", "$12.50"),
    ("point", "'(1,2)'", "(1,2)"),
    ("int4range", "'[1,5)'", "[1,5)"),
    ("tsvector", "'a b'", "'a' 'b'"),
    ("mood", "'happy'", "happy"),
    ("price", "12.5", "12.50"),
    ("pair", "ROW(1, 'x y')", '(1,"x y")'),
    ("integer[]", "'{1,NULL,3}'", [1, None, 3]),
    ("integer[]", "'{}'", []),
    ("integer[]", "'{{1,2},{3,4}}'", [[1, 2], [3, 4]]),
    ("integer[]", "'[0:1]={5,6}'", [5, 6]),
    (
        "text[]",
        """ARRAY['a', 'b,c', '{"x"}', NULL, 'NULL', 'back\\slash', '']""",
        ["a", "b,c", '{"x"}', None, "NULL", "back\\slash", ""],
    ),
    ("numeric(6,2)[]", "'{1.50,2}'", ["1.50", "2.00"]),
    ("timestamptz[]", "ARRAY['2024-01-01 00:00+00'::timestamptz]", ["2024-01-01T00:00:00Z"]),
    ("bytea[]", "ARRAY['\\x01'::bytea]", ["AQ=="]),
    ("boolean[]", "'{t,f}'", [True, False]),
    ("mood[]", "'{happy,sad}'", ["happy", "sad"]),
    ("price[]", "ARRAY[1.5]::price[]", ["1.50"]),
]  # fmt: skip


def test_every_usual_type(stage: Stage):
    stage.execute("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    stage.execute("CREATE DOMAIN price AS numeric(8,2) CHECK (value > 0)")
    stage.execute("CREATE TYPE pair AS (a int, b text)")
    columns = ", ".join(f"v{number} {kind}" for number, (kind, _, _) in enumerate(VALUES))
    stage.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {columns})")
    values = ", ".join(text for _, text, _ in VALUES)
    stage.execute(f"INSERT INTO kinds VALUES (1, {values})")
    with stage.capturing(stage.table("kinds")) as running:
        running.wait_until_read()
        stage.execute(f"INSERT INTO kinds VALUES (2, {values})")
        stage.execute("INSERT INTO kinds (id) VALUES (3)")
        eventually(lambda: len(stage.rebuilt("kinds")) == 3)
    rows = stage.rebuilt("kinds")
    expected = {f"v{number}": told for number, (_, _, told) in enumerate(VALUES)}
    for number in (1, 2):
        found = rows[f'{{"id":{number}}}']
        wrong = {name: (found[name], told) for name, told in expected.items() if found[name] != told}
        assert wrong == {}, "read by the snapshot" if number == 1 else "brought by the stream"
    assert set(rows['{"id":3}'].values()) == {3, None}


def test_names_and_keys_that_need_quotes(stage: Stage):
    stage.execute('CREATE TABLE "Odd" ("the ""key""" text PRIMARY KEY, "100%" int, "b\\a" text)')
    stage.execute("""INSERT INTO "Odd" VALUES ('x"; DROP TABLE "Odd"; --', 1, 'y')""")
    with stage.capturing(stage.table("Odd", 'the "key"')) as running:
        running.wait_until_read()
        stage.execute("""INSERT INTO "Odd" VALUES (E'tab\\there', 2, '<b>')""")
        stage.wait_until_equal("Odd", 'the "key"')
        stage.execute('DELETE FROM "Odd"')
        stage.wait_until_equal("Odd", 'the "key"')


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(TEXTS)
def test_any_text_is_a_json_string(text: str):
    assert json.loads(value.text(text.encode())) == text


@given(st.lists(st.recursive(st.none() | TEXTS, lambda one: st.lists(one, min_size=1))))
def test_any_array_is_a_json_array(tree: list[Any]):
    assert json.loads(value.array(value.text)(_literal(tree).encode())) == tree


def _literal(tree: Any) -> str:
    """The text form, as PostgreSQL writes it; always with quotes, which it does where they are needed."""
    if tree is None:
        return "NULL"
    if isinstance(tree, list):
        return "{" + ",".join(map(_literal, tree)) + "}"
    return '"' + tree.replace("\\", "\\\\").replace('"', '\\"') + '"'


@pytest.mark.parametrize("text", ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"])
def test_a_place_in_the_log(text: str):
    assert lsn.show(lsn.parse(text)) == text
