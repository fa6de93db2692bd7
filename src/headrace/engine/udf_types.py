"""The types of Python functions: read when Spark runs, and compared with how a function is written and called.

PySpark reads a type that is given as text, such as `@F.udf("int")` at the top of an app, when the function is declared,
and needs Spark's JVM for that. An app is loaded before there is one. So while an app is loaded, a type that cannot be
read yet stays text; PySpark reads it at the first call, which is when a plan is built.

Spark does not look at the function itself. A function that returns something else than its type says gives null or an
error for each row, and one that is called with too few arguments fails at the first row. Both can be found before: the
call is compared with the signature, and the type with the annotation of the result, where there is one.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from headrace.call import definition
from headrace.errors import Location, RunError

_ROW_BY_ROW = (PythonEvalType.SQL_BATCHED_UDF, PythonEvalType.SQL_ARROW_BATCHED_UDF)
# What a function that is annotated with this gives for a row, and columns of which types never hold it.
_NEVER: dict[type, tuple[type[DataType], ...]] = {
    int: (StringType, BooleanType, DateType, TimestampType, BinaryType, ArrayType, MapType, StructType),
    float: (StringType, BooleanType, DateType, TimestampType, BinaryType, ArrayType, MapType, StructType),
    bool: (StringType, NumericType, DateType, TimestampType, BinaryType, ArrayType, MapType, StructType),
    str: (NumericType, BooleanType, DateType, TimestampType, ArrayType, MapType, StructType),
    list: (StringType, NumericType, BooleanType, DateType, TimestampType, MapType),
    dict: (StringType, NumericType, BooleanType, DateType, TimestampType, ArrayType),
}
_TYPE = {int: "bigint", float: "double", bool: "boolean", str: "string", list: "array<…>", dict: "map<…>"}


@contextmanager
def read_later() -> Iterator[None]:
    """Inside, a Python function can be declared with the text of a type though Spark does not run."""
    functions: Any = UserDefinedFunction
    known = functions.returnType

    def return_type(function: UserDefinedFunction) -> Any:
        if SparkContext._active_spark_context is None and isinstance(function._returnType, str):
            return function._returnType
        return known.fget(function)

    functions.returnType = property(return_type)
    try:
        yield
    finally:
        functions.returnType = known


@contextmanager
def checked() -> Iterator[None]:
    """Inside, a call of a Python function that cannot work is a RunError."""
    functions: Any = UserDefinedFunction
    known = functions.__call__

    def call(function: UserDefinedFunction, *arguments: Any, **named: Any) -> Any:
        _check(function, arguments, named)
        return known(function, *arguments, **named)

    functions.__call__ = call
    try:
        yield
    finally:
        functions.__call__ = known


def _check(function: UserDefinedFunction, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    called, where = function._name, definition(function.func)
    try:
        declared = function.returnType
    except PySparkException as error:
        raise RunError(
            "HR-350",
            f"The type of the Python function `{called}` cannot be read.",
            where=where,
            found=repr(function._returnType),
            fix='write it as in a schema, such as "int", "double", "array<string>" or "struct<a: int, b: string>"',
        ) from error
    if function.evalType not in _ROW_BY_ROW:
        return
    try:
        signature = inspect.signature(function.func)
    except (TypeError, ValueError):
        return  # a function of C does not tell
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        raise RunError(
            "HR-350",
            f"The Python function `{called}` is not called as it is written: {error}.",
            where=_caller() or where,
            found=f"{len(arguments) + len(named)} columns for {called}{_parameters(signature)}",
            fix="give it one column for each parameter",
        ) from error
    given = _result(function.func)
    if given in _NEVER and isinstance(declared, _NEVER[given]):
        raise RunError(
            "HR-350",
            f"The Python function `{called}` returns {given.__name__}, and its type is {declared.simpleString()}.",
            where=where,
            found=f"-> {given.__name__}, and {declared.simpleString()}"
            + (", which is the type of a function that names none" if isinstance(declared, StringType) else ""),
            fix=f'name the type of what it returns, such as `@F.udf("{_TYPE[given]}")`, or return what the type says',
        )


def _caller() -> Location | None:
    """The line that has called, through PySpark and this module."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("pyspark", "headrace"):
        frame = frame.f_back
    return None if frame is None else Location(frame.f_code.co_filename, frame.f_lineno)


def _parameters(signature: inspect.Signature) -> str:
    return f"({', '.join(signature.parameters)})"


def _result(function: Callable[..., Any]) -> Any:
    """What the result of a function is annotated with; None where it is not, or where that cannot be found out."""
    try:
        return inspect.get_annotations(inspect.unwrap(function), eval_str=True).get("return")
    except Exception:  # an annotation is any expression, and may name what is not there
        return None
