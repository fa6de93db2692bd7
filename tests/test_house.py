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

BOTTOM = {"call", "errors", "names", "duration", "settings"}
DEFINITIONS = BOTTOM | {"graph", "log.schema"}
MIDDLE = {"log", "operators", "capture", "ledger", "followers", "kernel", "parts", "app", "graph"}
ENGINE = BOTTOM | MIDDLE
MAY_IMPORT = {
    **dict.fromkeys(BOTTOM, BOTTOM),
    **dict.fromkeys(("log", "ledger", "kernel", "parts"), BOTTOM),
    "capture": BOTTOM | {"log"},
    "followers": BOTTOM | {"log"},
    "operators": BOTTOM | {"kernel"},
    "graph": DEFINITIONS,
    "app": DEFINITIONS,
    "engine": ENGINE,
    "serve": ENGINE | {"engine"},
    "doctor": ENGINE | {"engine"},
    "cli": ENGINE | {"engine", "serve", "testing", "doctor"},
    "__init__": ENGINE | {"engine", "serve"},
    "testing": ENGINE | {"engine", "serve"},
}
KNOW_SPARK = {"operators", "kernel", "engine", "testing"}
# It borrows the Maven resolver inside pyspark, in a process of its own, before there is a session.
RESOLVER = Path("parts", "resolver.py")
KNOW_THE_JVM = Path("kernel", "bridge.py")

FILES = sorted(file.relative_to(SOURCE) for file in SOURCE.rglob("*.py"))
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
