"""Where in the app a query failed, read out of what Spark says of it.

The line is that of a Python function that raised; or the call of which Spark says that it made the expression; or, for
an expression that was written as SQL, the first line of the query's functions in which its text stands. Lines of
Headrace, PySpark and other installed packages are passed over.

The record that the task had at hand is told by the kernel (its Origin). Rows go to Python functions in groups, so there
it is the last one of a group, and the row that failed may be some rows before it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.errors import Location
from headrace.graph.plan import Query

_RAISED = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_CALLED = re.compile(r"was called from\s+(?P<file>[^\n]+?):(?P<line>\d+)\s*$", re.MULTILINE)
_SQL = re.compile(r"^== SQL[^\n]*==\n(?P<text>[^\n]+)\n\s*\^+\s*$", re.MULTILINE)
_PYTHON = re.compile(r"PythonException|Traceback \(most recent call last\)")


def place(text: str, query: Query) -> Location | None:
    """The line of the app; None where Spark says nothing of one."""
    for said in (_RAISED, _CALLED):
        found = [Location(one["file"], int(one["line"])) for one in said.finditer(text)]
        if own := [one for one in found if _is_own(one)]:
            return own[-1]
    return next((at for sql in _SQL.finditer(text) for at in _written(sql["text"], query)), None)


def is_in_python(text: str) -> bool:
    """Whether a Python function failed, to which rows go in groups."""
    return _PYTHON.search(text) is not None


def _is_own(at: Location) -> bool:
    parts = Path(at.file).parts
    return not {"site-packages", "dist-packages", "pyspark", "headrace"} & set(parts) and bool(at.source)


def _written(sql: str, query: Query) -> Iterator[Location]:
    """The lines of the query's functions with this text."""
    for node in (query.node, *query.fused):
        function: Callable[..., object] = inspect.unwrap(node.function)
        try:
            lines, first = inspect.getsourcelines(function)
            file = inspect.getsourcefile(function)
        except (OSError, TypeError):
            continue
        yield from (Location(file, first + i) for i, line in enumerate(lines) if file and sql.strip() in line)
