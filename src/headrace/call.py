"""Where in the user's code a declaration was made.

The place is the first frame of the stack that is not Headrace's own. An error about one option of a call that spans
several lines points at the line of that option, and an error about a function points at its `def`, not its decorator.
The call is found in its source by where it ends, since no two end at one place, and other calls may stand inside it.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from headrace.errors import Location


@dataclass(frozen=True)
class Call:
    """The lines that a call spans, and the column behind its end, in bytes, where it is known."""

    file: str
    first: int
    last: int
    end: int | None = None

    @property
    def where(self) -> Location:
        return Location(self.file, self.first)

    def at(self, option: str) -> Location:
        """The line on which `option=` stands, or else the first line of the call."""
        call = _calls("".join(linecache.getlines(self.file))).get((self.last, self.end))
        if call is not None:
            lines = (keyword.lineno for keyword in call.keywords if keyword.arg == option)
            return Location(self.file, next(lines, self.first))
        written = re.compile(rf"\b{re.escape(option)}\s*=(?!=)")
        for line in range(self.first, self.last + 1):
            if written.search(linecache.getline(self.file, line)):
                return Location(self.file, line)
        return self.where


def calling() -> Call:
    """The call into Headrace that is being made."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    first, last, _, end = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    first = first or frame.f_lineno
    return Call(frame.f_code.co_filename, first, max(first, last or first), end)


@lru_cache(maxsize=32)
def _calls(source: str) -> dict[tuple[int | None, int | None], ast.Call]:
    """The calls of a source by the line and the column in which they end; none where it cannot be read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    return {(call.end_lineno, call.end_col_offset): call for call in ast.walk(tree) if isinstance(call, ast.Call)}


def definition(function: Callable[..., Any]) -> Location | None:
    """The `def` line of a function; None for a callable that has no code of its own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    lines = linecache.getlines(code.co_filename)
    for line in range(code.co_firstlineno, len(lines) + 1):
        if re.match(r"\s*(async\s+)?def\s", lines[line - 1]):
            return Location(code.co_filename, line)
    return Location(code.co_filename, code.co_firstlineno)


def _is_ours(module: str) -> bool:
    return module == "headrace" or module.startswith("headrace.")
