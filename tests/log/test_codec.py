from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import LogError
from headrace.log.codec import encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_what_json_knows_comes_back(value: dict[str, Any]) -> None:
    assert json.loads(encode(value)) == value


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 3, 1, 12, tzinfo=UTC), '"2026-03-01T12:00:00.000000Z"'),
        (datetime(2026, 3, 1, 1, 0, 0, 7, tzinfo=timezone(timedelta(hours=2))), '"2026-02-28T23:00:00.000007Z"'),
        (date(2026, 3, 1), '"2026-03-01"'),
        (Decimal("12345678901234567890.10"), "12345678901234567890.10"),
        (Decimal("NaN"), '"NaN"'),
        (Decimal("-Infinity"), '"-Infinity"'),
        (float("nan"), '"NaN"'),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (b"\x00\xff", '"AP8="'),
        ((1, 2), "[1,2]"),
        (True, "true"),
        (Colour.RED, '"red"'),
        (Level.HIGH, "3"),
        ("é\n", '"é\\n"'),
    ],
)
def test_text(value: object, text: str) -> None:
    assert encode({"v": value}) == f'{{"v":{text}}}'.encode()


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"a": [{"b": object()}]}, "`a[0].b`", "builtins.object"),
        ({"at": datetime(2026, 3, 1)}, "`at`", "no time zone"),
        ({"a": {1: 2}}, "`a`", "field name 1"),
        ({"a": "\ud800"}, "The value", "surrogates"),
    ],
)
def test_what_cannot_be_written_is_named(value: dict[str, Any], path: str, found: str) -> None:
    with pytest.raises(LogError) as caught:
        encode(value)
    assert caught.value.code == "HR-222"
    assert path in caught.value.what
    assert found in str(caught.value.found)
