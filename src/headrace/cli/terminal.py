"""What reaches the terminal, made harmless.

Records, headers and errors hold bytes that strangers chose. A control character among them could move the cursor,
retitle the window or answer for the user, and a bidirectional mark could show text in another order than it has. All
text printed here has them escaped, as Python writes them in a string; only line ends are kept, and only where the text
is ours. The text is then for reading: `--json` output is exact.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from headrace.errors import HeadraceError

_HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# They join letters and emoji, and do nothing else.
_JOINERS = "\u200c\u200d"
NULL = "<null>"


def safe(text: str, keep: str = "") -> str:
    """The text with control and direction characters escaped, except those in `keep`."""
    if text.isprintable():
        return text
    keep += _JOINERS
    return "".join(
        char.encode("unicode_escape").decode() if char not in keep and unicodedata.category(char) in _HARMFUL else char
        for char in text
    )


def readable(raw: bytes | None) -> str:
    """Bytes as one line of text: UTF-8 where it is, escapes where it is not."""
    return NULL if raw is None else safe(raw.decode("utf-8", "backslashreplace"))


def out(text: str) -> None:
    """A line, or several, of the result."""
    print(safe(text, keep="\n"), flush=True)


def out_json(value: Any) -> None:
    """One JSON value on one line, of ASCII characters that can be printed."""
    print(json.dumps(value, default=str, separators=(",", ":")).replace("\x7f", "\\u007f"), flush=True)


def note(text: str) -> None:
    """A line for the person in front of the terminal; no part of the result."""
    print(safe(text, keep="\n"), file=sys.stderr, flush=True)


def fail(error: HeadraceError) -> None:
    """The text of an error, its codes in red where there are colours."""
    text = Text(safe(str(error), keep="\n"))
    text.highlight_regex(r"(?m)^HR-\d{3}", "bold red")
    Console(stderr=True, highlight=False).print(text, soft_wrap=True)


def page(markdown: str) -> None:
    """A page, laid out for the terminal."""
    from rich.markdown import Markdown  # no other command needs it

    Console().print(Markdown(markdown))


def columns(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """Rows as aligned text; columns of numbers stand to the right."""
    values = [list(row) for row in rows]
    right = [all(_is_number(value) for value in column) for column in zip(*values, strict=True)]
    cells = [[_cell(value) for value in row] for row in values]
    if header:
        cells.insert(0, list(header))
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padding = [" " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)]
        padded = [
            pad + text if column < len(right) and right[column] else text + pad
            for column, (text, pad) in enumerate(zip(row, padding, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,}"
    return "-" if value is None else safe(str(value))
