"""What is wrong with the functions of an app, all of it at once, before anything starts.

Every declared function is called as a run calls it (frames.py), in the order of the plan, with frames of the declared
columns that nobody fills: Spark makes plans, and neither Kafka nor PostgreSQL is asked. A function that is wrong has no
columns, so those that read it are left out and named, and so are those that read a table whose columns only the
database knows. Columns that a query has taken from the database before are in its checkpoint, and are taken from there.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.app import load
from headrace.engine import checker, checkpoint, facts, live, refusal, udf_types
from headrace.engine.frames import Frames
from headrace.engine.mode import Mode
from headrace.engine.session import session
from headrace.errors import HeadraceError, Location, together
from headrace.graph.graph import Graph
from headrace.graph.node import Source
from headrace.graph.plan import Query, plan, query_of
from headrace.kernel import bridge
from headrace.log.connection import Connection
from headrace.log.schema import Schema
from headrace.settings import Settings

NOWHERE = "127.0.0.1:9"  # an address for plans that nobody runs


@dataclass(frozen=True)
class Verdict:
    """The `errors`, and why what is `unchecked` could not be looked at, by function."""

    errors: tuple[HeadraceError, ...]
    unchecked: Mapping[str, str]


def check(
    graph: Graph, spark: SparkSession, settings: Settings, modes: Sequence[Mode], only: Sequence[str] = ()
) -> Verdict:
    """Build the plans of the queries, or of those named in `only` with what they read. An error that is not one of all
    these modes says of which it is."""
    queries = needed(plan(graph), only)
    told: dict[tuple[object, ...], tuple[HeadraceError, list[Mode]]] = {}
    unchecked: dict[str, str] = {}
    for mode in modes:
        found, left_out = _in_mode(graph, spark, settings, mode, queries)
        unchecked |= left_out
        for error in found:
            told.setdefault((error.code, error.what, error.where), (error, []))[1].append(mode)
    errors = [error if len(of) == len(modes) else _in(of, error) for error, of in told.values()]
    return Verdict(tuple(errors), unchecked)


def needed(queries: Sequence[Query], only: Sequence[str]) -> list[Query]:
    """The queries named in `only`, or all of them, and those that they read, in the order of the plan."""
    names = set(only or (query.node.name for query in queries))
    for query in reversed(queries):
        names |= set(query.reads) if query.node.name in names else set()
    return [query for query in queries if query.node.name in names]


def each(queries: Iterable[Query], build: Callable[[Query], object]) -> tuple[list[HeadraceError], dict[str, str]]:
    """Build every query that reads none that is wrong: what is wrong, and which ones were left out because of it."""
    errors: list[HeadraceError] = []
    wrong: set[str] = set()
    left_out: dict[str, str] = {}
    for query in queries:
        name = query.node.name
        if broken := [one for one in (*query.reads, *query.node.inputs) if one in wrong]:
            left_out[name] = f"it reads `{broken[0]}`, which is not right yet"
            wrong.add(name)
            continue
        try:
            build(query)
        except HeadraceError as error:
            errors += getattr(error, "errors", [error])
            wrong.add(name)
        except PySparkException as error:
            errors.append(refusal.of_call(error, query.node, {}))
            wrong.add(name)
    return errors, left_out


def refuse(errors: Sequence[HeadraceError]) -> None:
    """Raise what was found, if anything."""
    if errors:
        raise together(errors)


def _in_mode(
    graph: Graph, spark: SparkSession, settings: Settings, mode: Mode, queries: Sequence[Query]
) -> tuple[list[HeadraceError], dict[str, str]]:
    columns, unknown = _columns(graph, settings, queries)
    frames = Frames(spark, graph, mode, Connection(NOWHERE), columns=columns)
    left_out: dict[str, str] = {}

    def apart(query: Query) -> list[HeadraceError]:
        """What is wrong with the functions that run inside of a query, each by itself."""
        parts = [query_of(graph, node) for node in query.fused if node.name not in unknown]
        errors, without = each([*parts, query], lambda part: part is query or frames.result(part))
        left_out.update(without)
        return errors

    def build(query: Query) -> None:
        if query.node.name in unknown:
            refuse(apart(query))
            return
        try:
            records, _ = frames.records(query, bridge.written(spark) if mode is Mode.LIVE else None)
        except HeadraceError:
            refuse(apart(query))
            raise
        if mode is Mode.LIVE:
            live.refuse(records, query)

    errors, behind = each(queries, build)
    return errors, behind | left_out | unknown


def _columns(
    graph: Graph, settings: Settings, queries: Sequence[Query]
) -> tuple[dict[str, dict[str, Schema]], dict[str, str]]:
    """The columns that queries have taken from the database before, and the functions for which they are not known."""
    columns: dict[str, dict[str, Schema]] = {}
    unknown: dict[str, str] = {}
    of_all: dict[str, Schema] = {}
    for query in queries:
        kept = of_all | facts.columns(checkpoint.location(settings, graph.app, query.name))
        of_all = kept | of_all
        for node in (*query.fused, query.node):
            columns[query_of(graph, node).name] = kept
            for name in node.inputs:
                read = graph.node(name)
                if isinstance(read, Source) and read.schema is None and name not in kept:
                    why = f"only the database knows the columns of the table `{name}`; `schema=…` declares them"
                    unknown.setdefault(node.name, why)
                elif name in unknown:
                    unknown.setdefault(node.name, f"it reads `{name}`, which was not checked")
    return columns, unknown


def _in(modes: Sequence[Mode], error: HeadraceError) -> HeadraceError:
    """The error, with the modes that it is of."""
    what = f"In {' and '.join(modes)} mode: {error.what}"
    return type(error)(error.code, what, where=error.where, found=error.found, fix=error.fix)


# The check of a file, as a command asks for it


class _TooLong(BaseException):
    """Raised in the middle of the user's code, which does not catch it by chance."""


def look(app: Path, modes: Sequence[str], within_s: float, *, spark: SparkSession | None = None) -> Verdict:
    """Check the app in a file; its loading and its functions may take so many seconds each. A session that is given is
    hidden while the file is loaded, since a run loads it before there is one."""
    try:
        with _limited(within_s, app), _hidden(), redirect_stdout(sys.stderr), udf_types.read_later():
            graph = load(app).graph()
        settings = Settings.load(app.parent)
        if spark is None:
            spark = session("headrace-check", settings=settings.spark, log=checker.log())
        with _limited(within_s, app), redirect_stdout(sys.stderr):
            return check(graph, spark, settings, [Mode(mode) for mode in modes])
    except HeadraceError as error:
        return Verdict(tuple(getattr(error, "errors", [error])), {})


@contextmanager
def _limited(within_s: float, app: Path) -> Iterator[None]:
    """Inside, the user's code is interrupted after that time, and its line is reported."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, within_s)
    try:
        yield
    except _TooLong as late:
        beside = app.absolute().parent
        frames = [
            frame for frame in traceback.extract_tb(late.__traceback__) if _is_beside(Path(frame.filename), beside)
        ]
        where = Location(frames[-1].filename, frames[-1].lineno or 1) if frames else None
        raise checker.too_long(within_s, where) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_beside(file: Path, directory: Path) -> bool:
    return file.is_relative_to(directory.resolve()) and not file.is_relative_to(sys.prefix)


@contextmanager
def _hidden() -> Iterator[None]:
    """Inside, PySpark has no session."""
    context, spark = SparkContext._active_spark_context, SparkSession._instantiatedSession
    SparkContext._active_spark_context = SparkSession._instantiatedSession = None
    try:
        yield
    finally:
        SparkContext._active_spark_context, SparkSession._instantiatedSession = context, spark
