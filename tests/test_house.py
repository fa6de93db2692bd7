"""The house keeps its order: who may import whom, who may know Spark, and which names are public.

Every import counts, also one inside a function or under TYPE_CHECKING: a dependency is a dependency.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace.errors

SOURCE = Path(headrace.errors.__file__).parent
PUBLIC_NAMES = Path(__file__).parent / "public_names.txt"

BOTTOM = {"call", "errors", "names", "duration", "refusal", "settings"}
DEFINITIONS = BOTTOM | {"graph", "log.schema"}
MIDDLE = {"log", "operators", "capture", "ledger", "followers", "kernel", "parts", "app", "graph"}
ENGINE = BOTTOM | MIDDLE | {"compiler"}
MAY_IMPORT = {
    **dict.fromkeys(BOTTOM, BOTTOM),
    **dict.fromkeys(("log", "ledger", "kernel", "parts"), BOTTOM),
    "capture": BOTTOM | {"log"},
    "followers": BOTTOM | {"log"},
    "operators": BOTTOM | {"kernel"},
    "compiler": BOTTOM | {"kernel", "operators"},
    "graph": DEFINITIONS,
    "app": DEFINITIONS,
    "engine": ENGINE,
    "serve": ENGINE | {"engine"},
    "doctor": ENGINE | {"engine"},
    "services": ENGINE | {"engine", "serve"},
    "cli": ENGINE | {"engine", "serve", "services", "testing", "doctor"},
    "__init__": ENGINE | {"engine", "serve"},
    "testing": ENGINE | {"engine", "serve"},
}
KNOW_SPARK = {"operators", "compiler", "kernel", "engine", "testing"}
# It borrows the Maven resolver inside pyspark, in a process of its own, before there is a session.
RESOLVER = Path("parts", "resolver.py")
KNOW_THE_JVM = Path("kernel", "bridge.py")
KERNEL = SOURCE / "kernel" / "java" / "headrace" / "kernel"
# The kernel's rooms, and which of the others each may import: only the simulation imports `spark`, and there is no way
# around.
ROOMS = {
    "state": set[str](),
    "run": {"state"},
    "time": {"run"},
    "aggregates": {"state"},
    "meters": {"run", "state"},
    "sinks": {"run", "meters"},
    "decode": {"run", "time", "meters", "sinks"},
    "encode": {"run", "time", "meters", "sinks"},
    "operators": {"run", "time", "state", "aggregates", "meters", "sinks", "encode"},
    "spark": {"run", "time", "state", "meters", "sinks", "decode", "encode", "operators"},
    "simulation": {"run", "time", "state", "sinks", "spark"},
    "compiler": set[str](),
}
# The rooms that know Spark's plans: a simulation does to a plan what Spark does, and the compiler reads a user's.
KNOW_PLANS = {"spark", "simulation", "compiler"}
# What other rooms may know of Spark's internals: the form of its rows, and the order of their values.
ROW_FORMAT = {
    "InternalRow",
    "expressions.GenericInternalRow",
    "expressions.SpecializedGetters",
    "expressions.UnsafeProjection",
    "expressions.UnsafeRow",
    "util.ArrayBasedMapData",
    "util.ArrayData",
    "util.GenericArrayData",
    "util.MapData",
    "util.TypeUtils",
}
INTERNALS = re.compile(
    r"\borg\.apache\.spark\.(?:(?:sql\.(?:catalyst|classic|execution|internal)|network|shuffle|rpc|memory)\."
    r"|SparkEnv|SecurityManager|util\.Utils)[\w.]*"
)
PLANS = re.compile(r"\borg\.apache\.spark\.sql\.(?:Dataset|Column|functions)\b")
REFLECTION = re.compile(r"\b(?:setAccessible|getDeclared\w+|forName|java\.lang\.reflect)\b")

# What `headrace new` writes is the user's code, and imports what a user imports.
TEMPLATES = SOURCE / "templates"
FILES = sorted(file.relative_to(SOURCE) for file in SOURCE.rglob("*.py") if not file.is_relative_to(TEMPLATES))
every_file = pytest.mark.parametrize("file", FILES, ids=str)


def unit(file: Path) -> str:
    """The part of the house a file belongs to: `log/schema.py` is of `log`, `cli.py` is `cli`."""
    return file.parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    """The full names of the modules a file imports; `from a.b import c` gives `a.b.c`."""
    package = ["headrace", *file.parts[:-1]]
    for node in ast.walk(ast.parse((SOURCE / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = [*package[: len(package) - node.level + 1]] if node.level else []
            base = ".".join([*origin, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(module: str, allowed: set[str]) -> bool:
    return any(module == f"headrace.{one}" or module.startswith(f"headrace.{one}.") for one in allowed)


@every_file
def test_imports_run_one_way(file: Path):
    owner = unit(file)
    assert owner in MAY_IMPORT, f"say in MAY_IMPORT what `{owner}` may import"
    allowed = MAY_IMPORT[owner] | {owner}
    ours = [module for module in imports(file) if module.split(".")[0] == "headrace"]
    assert [module for module in ours if module != "headrace.__version__" and not within(module, allowed)] == []


@every_file
def test_only_some_know_spark(file: Path):
    spark = [module for module in imports(file) if module.split(".")[0] == "pyspark"]
    assert unit(file) in KNOW_SPARK or file == RESOLVER or spark == []
    assert [module for module in imports(file) if "parts.resolver" in module] == []


@every_file
def test_only_the_bridge_knows_the_jvm(file: Path):
    text = (SOURCE / file).read_text(encoding="utf-8")
    assert file == KNOW_THE_JVM or re.findall(r"\b(?:_jvm|_jdf)\b|\b(?:import|from) py4j\b", text) == []


def test_public_names_are_sorted_and_real():
    package = importlib.import_module("headrace")
    assert list(package.__all__) == sorted(package.__all__)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_public_names_do_not_drift():
    package = importlib.import_module("headrace")
    assert list(package.__all__) == PUBLIC_NAMES.read_text(encoding="utf-8").split()


JAVA = sorted(file.relative_to(KERNEL) for file in KERNEL.rglob("*.java"))
every_java_file = pytest.mark.parametrize("file", JAVA, ids=str)


def java(file: Path) -> str:
    """A file of the kernel without its comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", (KERNEL / file).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_every_java_class_is_in_a_room():
    assert {file.parent for file in JAVA} == {Path(room) for room in ROOMS}
    assert {file.parent.name for file in JAVA if file.name == "package-info.java"} == ROOMS.keys()


@every_java_file
def test_java_rooms_import_one_way(file: Path):
    assert f"package headrace.kernel.{file.parent};" in java(file).splitlines()
    rooms = set(re.findall(r"\bheadrace\.kernel\.(\w+)\.", java(file)))
    assert rooms - ROOMS[file.parent.name] - {file.parent.name} == set()


@every_java_file
def test_only_some_java_rooms_know_the_internals_of_spark(file: Path):
    if file.parent.name in KNOW_PLANS:
        return
    allowed = {f"org.apache.spark.sql.catalyst.{name}" for name in ROW_FORMAT}
    assert set(INTERNALS.findall(java(file))) - allowed == set()
    assert PLANS.findall(java(file)) == [], "what builds a plan is in the room `spark`"
    assert REFLECTION.findall(java(file)) == []


def test_the_order_of_the_java_rooms_has_no_circle():
    below: set[str] = set()
    for room, imported in ROOMS.items():
        assert imported <= below, f"`{room}` is above what it imports"
        below.add(room)
