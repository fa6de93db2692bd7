"""The line of an option in the call that it belongs to, and in no other."""

from __future__ import annotations

import linecache
import sys
from typing import Any

from headrace.call import Call, calling
from headrace.errors import Location


def here() -> int:
    return sys._getframe(1).f_lineno


def cached(file: str, source: str) -> None:
    """As a notebook keeps the source of a cell."""
    linecache.cache[file] = (len(source), None, [*source.splitlines(keepends=True)], file)


ours: dict[str, Any] = {"__name__": "headrace.asked", "calling": calling}
exec("def ask(*_, **__): return calling()", ours)
ask = ours["ask"]


def test_an_inner_call_has_the_same_option():
    line = here()
    call = ask(
        ask(1,
            by="inner"),
        n=ask(
            by="deep",
        ),
        by="outer",
    )  # fmt: skip
    assert call.where.line == line + 1
    assert call.at("by").line == line + 7
    assert call.at("n").line == line + 4


def test_an_option_of_an_inner_call_is_none_of_the_outer():
    line = here()
    call = ask(
        ask(by="inner"),
        "by = 1",
    )
    assert call.at("by").line == line + 1


def test_a_comment_or_a_text_is_no_option():
    line = here()
    call = ask(
        # by=… is what it is about
        "within=5",
        within=5,
        by="card",
    )
    assert call.at("within").line == line + 4
    assert call.at("by").line == line + 5


def test_two_calls_on_one_line():
    first, second = ask(by="a"), ask(1, 2,
                                     by="b")  # fmt: skip
    assert first.at("by").line == here() - 2
    assert second.at("by").line == here() - 2


def test_options_that_are_not_written_out_are_at_the_call():
    options = {"by": "card"}
    line = here()
    call = ask(
        1,
        **options,
    )
    assert call.at("by").line == line + 1


def test_a_decorator():
    calls = []

    def keep(call: Call) -> Any:
        calls.append(call)
        return lambda function: function

    line = here()

    @keep(
        ask(
            topic="t",
            key="k",
        )
    )
    def declared(): ...

    assert calls[0].at("key").line == line + 5


def test_a_cell_of_a_notebook():
    source = "call = ask(\n    ask(by=1),\n    # by=2\n    by=3,\n)\n"
    cached("<cell 1>", source)
    names: dict[str, Any] = {"__name__": "__main__", "ask": ask}
    exec(compile(source, "<cell 1>", "exec"), names)
    assert names["call"].at("by") == Location("<cell 1>", 4)


def test_without_a_source_it_is_the_first_line():
    names: dict[str, Any] = {"__name__": "__main__", "ask": ask}
    exec(compile("\ncall = ask(\n    by=3)\n", "<gone>", "exec"), names)
    assert names["call"].at("by") == Location("<gone>", 2)


def test_a_source_that_cannot_be_read_is_searched():
    source = "call = ask(\n    1,\n    by=3,\n)\n"
    names: dict[str, Any] = {"__name__": "__main__", "ask": ask}
    exec(compile(source, "<cell 2>", "exec"), names)
    cached("<cell 2>", source + "%magic words\n")
    assert names["call"].at("by") == Location("<cell 2>", 3)
