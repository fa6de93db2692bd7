from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.schema import Field, Schema, SchemaError


def test_columns_in_order_with_canonical_types():
    schema = Schema.parse(
        """
        ID string not null COMMENT 'the id',   -- a comment
        b BYTE, c Short, d INTEGER, e long, f real, g double, h boolean, i binary,
        j date, k timestamp, l timestamp_ntz, m timestamp_ltz, n decimal, o numeric( 12 ), p DEC(10, 2)
        """
    )
    assert schema.names == ("ID", *"bcdefghijklmnop")
    assert [field.type for field in schema.fields] == [
        "string", "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "binary",
        "date", "timestamp", "timestamp_ntz", "timestamp", "decimal(10,0)", "decimal(12,0)", "decimal(10,2)",
    ]  # fmt: skip
    assert schema.field("ID") == Field("ID", "string", nullable=False)
    assert schema.field("id") is None
    assert schema.field("b") == Field("b", "tinyint", nullable=True)


def test_nested_types():
    schema = Schema.parse(
        'a array< map<String , STRUCT<x : int NOT NULL, Y array<string> COMMENT "why", `z z`:double>> > NOT NULL'
    )
    assert schema.fields == (
        Field("a", "array<map<string,struct<x:int not null,Y:array<string>,`z z`:double>>>", nullable=False),
    )


def test_names_that_are_not_plain_words():
    schema = Schema.parse("`card-no` string, `a``b` int, `plain` int, `1st` int")
    assert schema.names == ("card-no", "a`b", "plain", "1st")
    assert schema.ddl == "`card-no` string, `a``b` int, plain int, `1st` int"


def test_a_column_may_be_called_like_a_word_of_the_language():
    assert Schema.parse("timestamp timestamp, comment string COMMENT 'x', not int").names == (
        "timestamp",
        "comment",
        "not",
    )


def test_require():
    schema = Schema.parse("id string, at timestamp, n int")
    assert schema.require("id", "at").ddl == "id string NOT NULL, at timestamp NOT NULL, n int"
    assert schema.ddl == "id string, at timestamp, n int"
    with pytest.raises(KeyError, match="missing"):
        schema.require("id", "missing")


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected columns, found nothing"),
        ("   ", 3, "expected columns, found nothing"),
        ("id", 2, "expected the type of column `id`, found the end"),
        ("id dubble", 3, "column `id`: `dubble` is not a type at character 4; did you mean `double`?"),
        ("id text", 3, "write `string` instead of `text`"),
        ("id xyzzy", 3, "the types are boolean, tinyint"),
        ("id string,", 10, "expected the name of a column in the schema, found the end"),
        ("id string, , n int", 11, "found `,`"),
        ("id string n int", 10, "is a comma missing before `n`?"),
        ("id: string", 2, "write a space between a column and its type, not `:`"),
        ("id string NOT", 13, "expected NULL after NOT in column `id`, found the end"),
        ("id string COMMENT x", 18, "expected a text in quotes after COMMENT in column `id`, found `x`"),
        ("id string, ID int", 11, "`ID` stands twice in the schema"),
        ("s struct<a:int,A:int>", 15, "`A` stands twice in the struct in column `s`"),
        ("s struct<>", 9, "expected the name of a column in the struct in column `s`, found `>`"),
        ("a array<string", 14, "expected `>` in array, found the end"),
        ("a array", 7, "expected `<` in array, found the end at character 8; write it like `array<string>`"),
        ("m map<int,string>", 6, "column `m`: the key of a map is `int`"),
        ("m map<string>", 12, "expected `,` in map, found `>`"),
        ("d decimal(39,2)", 10, "there is no decimal(39,2)"),
        ("d decimal(4,5)", 10, "there is no decimal(4,5)"),
        ("d decimal(a)", 10, "expected a whole number in decimal(p,s), found `a`"),
        ("1st int", 0, "expected the name of a column in the schema, found `1`"),
        ("card-no string", 4, "a name that is not a plain word stands in back-quotes"),
        ("id string)", 9, "expected a comma or the end after column `id`, found `)`"),
        ("id varchar(20)", 3, "`varchar` is not a type"),
        ("naïve int", 2, "found `ï`"),
        ("id string COMMENT 'open", 18, "found `'`"),
    ],
)
def test_what_is_wrong_and_where(text: str, position: int, message: str):
    with pytest.raises(SchemaError) as caught:
        Schema.parse(text)
    assert isinstance(caught.value, ValueError)
    assert message in str(caught.value)
    assert caught.value.position == position
    assert f"at character {position + 1}" in str(caught.value)


_names = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8)
_scalars = st.sampled_from(
    ["boolean", "tinyint", "int", "bigint", "double", "string", "date", "timestamp", "decimal(38,38)"]
)


def _unique(fields: list[Field]) -> bool:
    return len({field.name.lower() for field in fields}) == len(fields)


def _structs(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    suffix = st.sampled_from(["", " not null"])
    return st.lists(st.tuples(types, suffix), min_size=1, max_size=3).map(
        lambda members: f"struct<{','.join(f'Field{n}:{kind}{end}' for n, (kind, end) in enumerate(members))}>"
    )


_types = st.recursive(
    _scalars,
    lambda types: types.map("array<{}>".format) | types.map("map<string,{}>".format) | _structs(types),
    max_leaves=5,
)
_schemas = st.lists(st.builds(Field, _names, _types, st.booleans()), min_size=1, max_size=5).filter(_unique)


@given(_schemas)
def test_ddl_parses_to_the_same_schema(fields: list[Field]):
    schema = Schema(tuple(fields))
    assert Schema.parse(schema.ddl) == schema
