"""Where in the app a query failed, found in what Spark says of the failure.

The line is that of a Python function that raised; or the call that made the expression, as Spark names it; or, for an
expression that was written as SQL, the first line of the query's functions with its text. Lines of Headrace, PySpark
and other installed packages are skipped.

The kernel names the record that the task was processing (its Origin). Rows go to Python functions in groups, so there
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
