"""What Spark's real-time mode does not take of a plan, found while the plan is built.

Spark looks at the physical plan of the first batch, when topics, checkpoints and tasks are there already, and names a
class of its own. Here the plan is asked for beforehand, and the step is named as the app writes it, at its line. Only
steps are refused that real-time mode is known to refuse; what else Spark does not take, it says itself when the query
starts.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.engine import refusal
from headrace.errors import Location, RunError
from headrace.graph.plan import Query

# A line of the tree of a formatted plan: `      +- * Project (12)`.
_NODE = re.compile(r"^[\s:+\-]*(?:\* )?(?P<name>[A-Za-z]\w*)(?: [^(]*)? \((?P<number>\d+)\)$")
_FUNCTION = re.compile(r"([A-Za-z_]\w*|<lambda>)\([^()]*\)#\d+")


@dataclass(frozen=True)
class _Step:
    """Nodes of a physical plan, what they are to the user, the calls that make them, and what to write instead."""

    nodes: tuple[str, ...]
    what: str
    calls: tuple[str, ...]
    instead: str


_STEPS = (
    _Step(
        ("BatchEvalPython", "ArrowEvalPython", "BatchEvalPythonUDTF", "ArrowEvalPythonUDTF"),
        "a Python function",
        (),
        "write it with the functions of pyspark.sql.functions",
    ),
    _Step(
        ("MapInPandas", "PythonMapInArrow", "MapInArrow", "FlatMapGroupsInPandas", "FlatMapGroupsInArrow"),
        "a Python function over many rows",
        ("mapInPandas", "mapInArrow", "applyInPandas", "applyInArrow"),
        "write it with the functions of pyspark.sql.functions",
    ),
    _Step(
        ("FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark", "TransformWithStateInPandas"),
        "a Python function with state",
        ("applyInPandasWithState", "transformWithStateInPandas", "transformWithState"),
        "use Headrace's operators, such as `hr.aggregate`, `hr.window` or `hr.sliding`",
    ),
    _Step(
        ("StreamingSymmetricHashJoin", "SortMergeJoin", "ShuffledHashJoin", "CartesianProduct"),
        "a join of Spark's own",
        ("join", "crossJoin"),
        "use `hr.join`",
    ),
    _Step(
        ("StreamingDeduplicateWithinWatermark",),
        "a step of Spark's own against repeats",
        ("dropDuplicatesWithinWatermark",),
        "use `hr.dedupe(rows, by=…, within=…)`",
    ),
    _Step(
        ("SessionWindowStateStoreRestore", "SessionWindowStateStoreSave", "UpdatingSessions", "MergingSessions"),
        "a session of Spark's own",
        ("session_window",),
        "use `hr.window(rows, hr.session(…), …)`",
    ),
    _Step(("Coalesce",), "`coalesce`", ("coalesce",), "leave it out: a result has the partitions of its topic"),
)
_BY_NODE = {node: step for step in _STEPS for node in step.nodes}
REFUSED = frozenset(_BY_NODE)
"""The nodes of a physical plan that are refused."""


def refuse(rows: DataFrame, query: Query) -> None:
    """RunError when real-time mode will not take the plan of a query's rows."""
    plan = _plan(rows)
    tree, _, details = plan.partition("\n\n")
    for line in tree.splitlines():
        node = _NODE.match(line)
        step = _BY_NODE.get(node["name"]) if node else None
        if node is None or step is None:
            continue
        found = _written(step, _functions(details, node["number"]), query)
        called, where = found or ("", query.node.where)
        named = f"{step.what} (`{called}`)" if called and f"`{called}`" != step.what else step.what
        raise RunError(
            "HR-308",
            f"`{query.name}` cannot run live: Spark's real-time mode does not take {named}.",
            where=where,
            found=node["name"],
            fix=f"{step.instead}; or run it with --mode exact",
        )


def _plan(rows: DataFrame) -> str:
    """The physical plan, as Spark prints it; empty where Spark cannot make one without a sink, and says so later."""
    out = io.StringIO()
    try:
        with refusal.quiet(), redirect_stdout(out):
            rows.explain(mode="formatted")
    except PySparkException:
        return ""
    return out.getvalue().strip()


def _functions(details: str, number: str) -> tuple[str, ...]:
    """The names under which the app calls the Python functions that a node computes."""
    section = re.search(rf"^\({number}\) .*?(?=^\(\d+\) |\Z)", details, re.MULTILINE | re.DOTALL)
    named = _FUNCTION.findall(section[0]) if section else []
    return tuple(dict.fromkeys("udf" if name == "<lambda>" else name for name in named))


def _written(step: _Step, python: Sequence[str], query: Query) -> tuple[str, Location] | None:
    """Where the functions of a query call for a step, or call one of these Python functions."""
    for node in (*query.fused, query.node):
        found = refusal.written(step.calls, node) or refusal.written(python, node, method=False)
        if found is not None:
            return found
    return None
