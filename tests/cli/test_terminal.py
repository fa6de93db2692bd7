from __future__ import annotations

import json
import unicodedata
from contextlib import redirect_stdout
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli import terminal


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (None, "<null>"),
        (b"", ""),
        ('{"name":"Zoë 🚲"}'.encode(), '{"name":"Zoë 🚲"}'),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        (b"a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b31m".encode(), "\\x9b31m"),
        ("ab\u202ecd".encode(), "ab\\u202ecd"),
        ("👩\u200d🚀".encode(), "👩\u200d🚀"),
        (b"\x7f", "\\x7f"),
    ],
)
def test_bytes_are_shown_as_one_harmless_line(raw: bytes | None, shown: str):
    assert terminal.readable(raw) == shown


@given(st.text())
def test_no_control_character_gets_through(text: str):
    assert not [char for char in terminal.safe(text) if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_is_exact_and_printable(text: str):
    printed = StringIO()
    with redirect_stdout(printed):
        terminal.out_json({"value": text})
    assert json.loads(printed.getvalue()) == {"value": text}
    assert printed.getvalue().removesuffix("\n").isprintable()


def test_columns_are_aligned_and_numbers_stand_to_the_right():
    shown = terminal.columns([("a", 1200, None), ("名前", 7, "x\x1b")], ("name", "count", "note"))
    assert shown.splitlines() == [
        "name  count  note",
        "a     1,200  -",
        "名前      7  x\\x1b",
    ]


def test_columns_of_no_rows_are_the_header():
    assert terminal.columns([], ("name", "count")) == "name  count"
