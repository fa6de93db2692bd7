"""What Spark refuses of a declared function, in the words of the app.

A function is called once, with DataFrames that have no end, and gives a plan. So three mistakes are common: a column
that is not there, a question that only rows with an end can answer (`count`, `collect`), and a step that needs all rows
at once (`orderBy`). Each is reported with the line of the app and with what to write instead; for anything else Spark's
own words are given. While `quiet`, PySpark does not print what it raises, because it is printed here.
"""

from __future__ import annotations

import difflib
import inspect
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger

from headrace.errors import Location, RunError
from headrace.graph.node import Derived
from headrace.graph.statement import Statement

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_COLUMN = re.compile(r"UNRESOLVED_COLUMN|UNRESOLVED_USING_COLUMN_FOR_JOIN|ATTRIBUTE_NOT_SUPPORTED|FIELD_NOT_FOUND")
_SQL_LINE = re.compile(r"\bline:? (\d+)\b")
_ACTION = re.compile(r"must be executed with writeStream|CALL_ON_STREAMING_DATASET_UNSUPPORTED|STREAMING_NOT_SUPPORTED")
_NAME = re.compile(r"`((?:[^`]|``)+)`")
_NAMED_BY = ("objectName", "colName", "fieldName", "attr_name")
_NO_END = "the rows of a stream have no end"


@dataclass(frozen=True)
class _Step:
    """A step that streams do not have: by what Spark says of it, the calls that make it, and what to write instead."""

    said: re.Pattern[str]
    calls: tuple[str, ...]
    instead: str


_STEPS = (
    _Step(
        re.compile(r"^Sorting is not supported"),
        ("orderBy", "sort"),
        "leave it out: what reads the result sorts it; or keep the first of each key with `hr.top(rows, n, by=…)`",
    ),
    _Step(
        re.compile(r"^Limits are not supported|^Offset is not supported"),
        ("limit", "offset"),
        "keep the first of each key with `hr.top(rows, n, by=…)`",
    ),
    _Step(
        re.compile(r"^Non-time-based windows are not supported|NON_TIME_WINDOW_NOT_SUPPORTED"),
        ("over",),
        "rank with `hr.top`, and compute over the rows before with `hr.sliding`",
    ),
)


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, PySpark raises its errors without printing them."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def of_call(error: BaseException, node: Derived, given: Mapping[str, Sequence[str]]) -> RunError:
    """What a function raised when it was called with DataFrames of these columns."""
    where = _place(error, node)
    found = ", ".join(f"{name}({', '.join(columns)})" for name, columns in given.items())
    if not isinstance(error, PySparkException):
        return RunError(
            "HR-302",
            f"The function `{node.name}` raised {type(error).__name__}: {error}",
            where=where,
            found=type(error).__name__,
            fix="correct the function; it is called with DataFrames that have no rows, when the app is checked and when"
            " a run starts",
        )
    condition = f"{error.getCondition() or ''} {error}"
    if _ACTION.search(condition):
        return RunError(
            "HR-344",
            f"The function `{node.name}` asks for rows with `{_called(error, node)}`, and {_NO_END}.",
            where=where,
            found=found,
            fix="return what is to be computed, such as `hr.aggregate(rows, by=[], n=hr.count())`: the function is"
            " called once, to plan; the rows come afterwards",
        )
    if _COLUMN.search(condition) and (column := _column(error)):
        near = [_plain(name) for name in _NAME.findall((error.getMessageParameters() or {}).get("proposal", ""))]
        known = list(dict.fromkeys([*near, *(column for columns in given.values() for column in columns)]))
        close = difflib.get_close_matches(column.rpartition(".")[2].lower(), [name.lower() for name in known], n=1)
        meant = next((name for name in known if close and name.lower() == close[0]), None)
        there = f" There are {', '.join(f'`{name}`' for name in sorted(near))}." if near else ""
        return RunError(
            "HR-302",
            f"The function `{node.name}` names the column `{column}`, which is not there.{there}",
            where=where,
            found=found,
            fix=f"did you mean `{meant}`?" if meant else "name one of the columns; those found are what it is given",
        )
    return RunError(
        "HR-302",
        f"The function `{node.name}` cannot be turned into a plan: {_first_line(error)}",
        where=where,
        found=found,
        fix="correct the expression; the columns found are those that the function is given",
    )


def of_plan(error: PySparkException, node: Derived) -> RunError:
    """What Spark refuses of the plan that a function has given, since it is one of a stream."""
    said = _first_line(error)
    step = next((step for step in _STEPS if step.said.search(said)), None)
    if step is None:
        return RunError(
            "HR-344",
            f"The plan of `{node.name}` cannot be run on a stream.",
            where=node.where,
            found=said,
            fix="replace what the words of Spark name by an operator of Headrace",
        )
    called, where = written(step.calls, node) or (step.calls[0], node.where)
    return RunError(
        "HR-344",
        f"The function `{node.name}` needs all rows at once for `{called}`, and {_NO_END}.",
        where=where,
        found=said,
        fix=step.instead,
    )


def _place(error: BaseException, node: Derived) -> Location:
    """The deepest line of the user's code in the traceback, or the line of its SQL that is named; else the
    declaration."""
    if isinstance(node.function, Statement):
        named = _SQL_LINE.search(str(error))
        return node.function.at(int(named[1])) if named else node.where
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == _file(node)]
    return Location(own[-1].filename, own[-1].lineno or node.where.line) if own else node.where


def _called(error: BaseException, node: Derived) -> str:
    """The name of what the user's code has called when it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [number for number, frame in enumerate(frames) if frame.filename == _file(node)]
    inner = frames[own[-1] + 1 :] if own else frames
    return inner[0].name if inner else "an action"


def written(calls: Sequence[str], node: Derived, *, method: bool = True) -> tuple[str, Location] | None:
    """Which of these calls stands first in a function, and where; as a `method`, it stands behind a dot."""
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(node.function))
    except (OSError, TypeError):
        return None
    before = r"\.\s*" if method else r"\b"
    for number, line in enumerate(lines, start=first):
        for call in calls:
            if re.search(rf"{before}{call}\s*\(", line) and not re.match(r"\s*(async\s+)?def\s", line):
                return call, Location(_file(node) or node.where.file, number)
    return None


def _file(node: Derived) -> str | None:
    code = getattr(inspect.unwrap(node.function), "__code__", None)
    return code.co_filename if code else None


def _column(error: PySparkException) -> str | None:
    """The name that cannot be resolved, without its quotes."""
    parameters = error.getMessageParameters() or {}
    named = next((parameters[one] for one in _NAMED_BY if one in parameters), None)
    return None if named is None else ".".join(_plain(part) for part in _NAME.findall(named)) or named


def _plain(name: str) -> str:
    return name.replace("``", "`")


def _first_line(error: PySparkException) -> str:
    text = str(error.getMessage() if isinstance(error, AnalysisException) else error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__
