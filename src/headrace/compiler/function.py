"""The call of a declared function: what it gives, with ordinary joins, groups and rankings kept up to date.

A function that treats each row for itself, but for the operators of Headrace, is called with its inputs as they are.
One that does more is called with placeholders of them (stand_in.py), and what it gives is translated. It is found out
by calling it: a plan has a join, a group or a ranking of Spark's, or it cannot be made because of the signs of rows
that a plain join would mix up.

In batch it is called with its inputs as they are, and its rows are all there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from headrace.compiler.stand_in import StandIns
from headrace.errors import DeclarationError, HeadraceError
from headrace.kernel import bridge


def called(function: Callable[..., Any], inputs: Sequence[DataFrame]) -> Any:
    """The rows that a function gives for its inputs; what it gives that is no DataFrame is given as it is."""
    noted = bridge.Noted()
    try:
        rows = function(*inputs)
    except (AnalysisException, HeadraceError):
        noted.forget()
        translated = _translated(function, inputs)
        if translated is None:
            raise
        return translated
    if not isinstance(rows, DataFrame) or bridge.is_plain(rows):
        return rows
    noted.forget()
    translated = _translated(function, inputs)
    if translated is not None:
        return translated
    noted.forget()
    return function(*inputs)


def _translated(function: Callable[..., Any], inputs: Sequence[DataFrame]) -> DataFrame | None:
    """The translated rows; None where nothing of them had to be, or Spark makes no plan of them."""
    with StandIns() as stand_ins:
        try:
            rows = function(*map(stand_ins.of, inputs))
        except AnalysisException:
            return None
        try:
            actual = stand_ins.actual(rows) if isinstance(rows, DataFrame) else None
        except DeclarationError as error:  # the function has returned: no line of it is at hand
            raise DeclarationError(error.code, error.what, found=error.found, fix=error.fix) from None
    return actual if stand_ins.translated else None
