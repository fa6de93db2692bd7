from __future__ import annotations

import json

import pytest

from headrace.followers.change import Number, Unreadable, key, last_of_each_key, row, text_of
from headrace.log.consumer import Record


def change(value: bytes | str | None, name: bytes | None = b"k", offset: int = 0) -> Record:
    return Record("t", 0, offset, 0, name, value.encode() if isinstance(value, str) else value)


def test_numbers_keep_their_digits():
    found = row(change('{"d":1234567890.12345678901234567890,"e":1E+2,"i":-0,"s":"1","x":null}'))
    assert found == {"d": "1234567890.12345678901234567890", "e": "1E+2", "i": "-0", "s": "1", "x": None}
    assert [type(value) for value in (found or {}).values()] == [Number, Number, Number, str, type(None)]


def test_a_deletion_has_no_row():
    assert row(change(None)) is None


@pytest.mark.parametrize("value", ["", "{", "[1]", "1", "null", '"x"', '{"a":NaN}', b"\xff", "[" * 100_000, '{"a":1}x'])
def test_what_is_no_row(value: str | bytes):
    with pytest.raises(Unreadable):
        row(change(value))


def test_keys():
    assert key(change(None, "ü".encode()), ("id",), text=True) == {"id": "ü"}
    assert key(change(None, b'{"a":1,"b":"x"}'), ("a", "b"), text=False) == {"a": "1", "b": "x"}
    for name, text in ((None, True), (b"\xff", True), (b"plain", False), (b"[]", False)):
        with pytest.raises(Unreadable):
            key(change(None, name), ("id",), text=text)


def test_the_last_of_each_key_in_the_order_of_the_last():
    changes = [change(None, name, offset) for offset, name in enumerate([b"a", b"b", b"a", b"c", b"b", None, None])]
    assert [one.offset for one in last_of_each_key(changes)] == [2, 3, 4, 6]


def test_a_value_as_text_again():
    value = '{"a":[1,2.50,true,false,null],"b":{"c\\n\\"":"\\\\ü"}}'
    found = row(change(value))
    assert json.loads(text_of(found)) == json.loads(value)
    assert "2.50" in text_of(found)
