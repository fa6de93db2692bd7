"""What a type checker tells a user: the examples and the templates are right, and common mistakes are found.

mypy and pyright (as basedpyright) run in strict mode, once each, in a directory outside of the checkout and with an
environment in which headrace is an installed package: they take its types only because it has py.typed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECKERS = ("mypy", "pyright")

# What no example uses itself is not read: it takes half of the time.
UNREAD = (
    "anyio numpy prometheus_client pydantic pydantic_settings pyspark.pandas pyspark.sql.connect starlette "
    "uvicorn websockets"
)
MYPY = f"""
[mypy]
strict = True
explicit_package_bases = True
mypy_path = examples/payments

[mypy-psutil.*]
ignore_missing_imports = True

[mypy-{",".join(f"{name}.*" for name in UNREAD.split())}]
follow_imports = skip
"""
PYRIGHT = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}

BEGINNING = """
from pyspark.sql import DataFrame

import headrace as hr

app = hr.App("shop")
orders = app.source("orders", schema="id string, card string, amount double, at timestamp", event_time="at", id="id")
cards = app.table("cards", hr.postgres("public.cards"), key="card")
board = app.dashboard("sales")


@app.stream
def large(orders: DataFrame) -> DataFrame:
    return orders.where("amount > 500")


@app.view(key="card")
def spent(orders: DataFrame) -> DataFrame:
    return hr.window(orders, hr.global_(), by="card", spent=hr.sum("amount"))


def rows(orders: DataFrame) -> DataFrame:
    return orders
"""

RIGHT = """
from typing import assert_type

from headrace.graph.declared import Declared
from headrace.graph.node import Source


def of_the_declarations(frame: DataFrame) -> None:
    assert_type(orders, Source)
    assert_type(cards, Source)
    assert_type(app.stream("clicks", schema="id string", partitions=4), Source)
    assert_type(large(frame), DataFrame)
    assert_type(large(orders=frame), DataFrame)
    assert_type(spent(frame), DataFrame)
    assert_type(app.stream(rows)(frame), DataFrame)
    assert_type(app.view(rows, key=["id"])(orders=frame), DataFrame)
    assert_type(large.definition.name, str)
    followed: list[Declared[..., DataFrame] | Source] = [large, spent, orders]
    for one in followed:
        app.follow(one, hr.webhook("https://example.com/changes"))
    board.top(spent, label="card", value="spent")
"""

# Each mistake has the rule by which mypy finds it, and the rule of pyright.
WRONG = """
# an input without a schema: call-arg, reportCallIssue
app.source("clicks")

# a misspelt option: call-arg, reportCallIssue
app.source("clicks", schema="id string", evnt_time="at")

# an option of the wrong type: arg-type, reportArgumentType
app.source("clicks", schema="id string", partitions="4")

# an unknown unit of time: arg-type, reportArgumentType
app.source("clicks", schema="at timestamp", epoch="millis")

# a table's connector for a stream: arg-type, reportArgumentType
app.source("clicks", hr.postgres("public.clicks"), schema="id string")

# an alias without a schema: call-overload, reportArgumentType
app.stream("clicks")

# a function with a schema: call-overload, reportCallIssue
@app.stream(schema="id string")
def copied(orders: DataFrame) -> DataFrame:
    return orders

# a function without a result: type-var, reportArgumentType
@app.stream
def nothing(orders: DataFrame) -> None:
    orders.select("id")

# a function that gives rows: type-var, reportArgumentType
@app.stream(key="id")
def collected(orders: DataFrame) -> list[str]:
    return orders.columns

# a view without a key: call-overload, reportCallIssue
@app.view
def latest(orders: DataFrame) -> DataFrame:
    return orders

# a view with options and without a key: call-overload, reportCallIssue
@app.view(topic="newest")
def newest(orders: DataFrame) -> DataFrame:
    return orders

# a table without a key: call-arg, reportCallIssue
app.table("limits", schema="card string, amount double")

# a table's place as text: arg-type, reportArgumentType
app.table("limits", "public.limits", key="card")

# an outbox for a table: arg-type, reportArgumentType
app.table("limits", hr.outbox("public.outbox"), key="card")

# a declaration taken for its rows: attr-defined, reportAttributeAccessIssue
orders.select("id")

# a declaration given to an operator: arg-type, reportArgumentType
hr.join(orders, cards, on="card")

# a declaration given to a function: arg-type, reportArgumentType
large(orders)

# too few inputs: call-arg, reportCallIssue
large()

# an input by another name: call-arg, reportCallIssue
def other(frame: DataFrame) -> None:
    large(payments=frame)

# a window as text: arg-type, reportArgumentType
def windowed(frame: DataFrame) -> None:
    hr.window(frame, "1 minute", by="card")

# a misspelt word: arg-type, reportArgumentType
def joined(frame: DataFrame) -> None:
    hr.join(frame, frame, on="id", how="outer")

# an aggregate that is a column: arg-type, reportArgumentType
def summed(frame: DataFrame) -> None:
    hr.aggregate(frame, by="card", n="count")

# an aggregate of nothing: call-arg, reportCallIssue
hr.sum()

# a follower as text: arg-type, reportArgumentType
app.follow(large, "https://example.com/changes")

# something followed by its name: arg-type, reportArgumentType
app.follow("large", hr.webhook("https://example.com"))

# a chart of a source: arg-type, reportArgumentType
board.number(orders, value="amount")

# a chart with an unknown combination: arg-type, reportArgumentType
board.number(spent, value="spent", combine="median")

# a name that does not exist: attr-defined, reportAttributeAccessIssue
hr.tumblin
"""


class Found:
    """What one checker says of the files, as `rule: message` by file and line."""

    def __init__(self) -> None:
        self.by_line: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))

    def add(self, file: str, line: int, rule: str, message: str) -> None:
        self.by_line[file][line].append(f"{rule}: {message}")

    def of(self, *files: str) -> list[str]:
        lines = ((file, line) for file in self.by_line if file.startswith(files) for line in self.by_line[file])
        return [f"{file}:{line}: {one}" for file, line in lines for one in self.by_line[file][line]]


def environment(place: Path) -> Path:
    """A Python that has headrace of this checkout and what it stands on in its path, as an installation would."""
    venv.create(place, with_pip=False, symlinks=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "installed.pth").write_text(f"{ROOT / 'src'}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    return place / "bin" / "python"


def mypy(out: str) -> Found:
    found = Found()
    for file, line, message, rule in re.findall(r"(?m)^(.+?):(\d+): error: (.*)  \[([\w-]+)\]$", out):
        found.add(file, int(line), rule, message)
    return found


def pyright(out: str, place: Path) -> Found:
    found = Found()
    for one in json.loads(out)["generalDiagnostics"]:
        file = Path(one["file"]).relative_to(place).as_posix()
        found.add(file, one["range"]["start"]["line"] + 1, one.get("rule", ""), one["message"])
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Found]:
    """What both checkers say, by their names."""
    place = tmp_path_factory.mktemp("user").resolve()
    python = environment(tmp_path_factory.mktemp("environment"))
    shutil.copytree(ROOT / "examples", place / "examples")
    shutil.copytree(ROOT / "src" / "headrace" / "templates", place / "templates")
    (place / "right.py").write_text(BEGINNING + RIGHT, encoding="utf-8")
    (place / "wrong.py").write_text(BEGINNING + WRONG, encoding="utf-8")
    (place / "mypy.ini").write_text(MYPY, encoding="utf-8")
    (place / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    commands = {
        "mypy": ["mypy", "--python-executable", python, "--cache-dir", place / ".cache", "--no-error-summary", "."],
        "pyright": ["basedpyright", "--pythonpath", python, "--outputjson"],
    }
    started = {
        name: subprocess.Popen(
            [sys.executable, "-m", *map(str, command)],
            cwd=place,
            env=clean,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, command in commands.items()
    }
    said = {name: one.communicate() for name, one in started.items()}
    assert {name: one.returncode for name, one in started.items()} == dict.fromkeys(CHECKERS, 1), said
    return {"mypy": mypy(said["mypy"][0]), "pyright": pyright(said["pyright"][0], place)}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("files", ["examples", "templates", "right.py"])
def test_nothing_is_wrong_with(files: str, checker: str, found: dict[str, Found]):
    assert found[checker].of(files) == []


def mistakes() -> dict[str, tuple[range, tuple[str, str]]]:
    """By its title the lines of each mistake in wrong.py, and the two rules."""
    text = (BEGINNING + WRONG).splitlines()
    heads = [(number, re.fullmatch(r"# (.+): ([\w-]+), (\w+)", line)) for number, line in enumerate(text, start=1)]
    begun = [(number, head) for number, head in heads if head]
    ends = [*(number for number, _ in begun[1:]), len(text) + 1]
    return {head[1]: (range(number, end), (head[2], head[3])) for (number, head), end in zip(begun, ends, strict=True)}


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("mistake", mistakes())
def test_a_mistake_is_found(mistake: str, checker: str, found: dict[str, Found]):
    lines, rules = mistakes()[mistake]
    said = [one for line in lines for one in found[checker].by_line["wrong.py"].get(line, [])]
    rule = rules[CHECKERS.index(checker)]
    assert any(one.startswith(f"{rule}: ") for one in said), said


@pytest.mark.parametrize("checker", CHECKERS)
def test_nothing_is_found_beside_the_mistakes(checker: str, found: dict[str, Found]):
    within = {line for lines, _ in mistakes().values() for line in lines}
    assert {line: one for line, one in found[checker].by_line["wrong.py"].items() if line not in within} == {}
