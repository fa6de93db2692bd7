"""CONTRIBUTING.md is true: its commands exist and take what they are given, its paths are there, no suite is missing.

Nothing is run: `make` is asked what it would do, and the others whether they have such options. Of the tools of a JDK,
which not every machine has, only the names are known.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.test_docs import COMMANDS, blocks, orders

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
TEXT = PAGE.read_text(encoding="utf-8")
LINES = [command for block in blocks(PAGE) if block.language == "console" for command, _ in orders(block)]
PYTEST = [one for one in LINES if " -m pytest " in one]
JDK = {"jcmd", "jfr"}


def words(command: str) -> list[str]:
    """The words of a command, without the variables that it is given."""
    found = shlex.split(command)
    while re.fullmatch(r"[A-Z_]+=.*", found[0]):
        found.pop(0)
    return found


@pytest.mark.parametrize("command", LINES)
def test_a_command_exists(command: str):
    program, *arguments = words(command)
    if program == "make":
        subprocess.run(["make", "--dry-run", *arguments], cwd=ROOT, check=True, capture_output=True)
    elif program == ".venv/bin/headrace":
        (name,) = (one for one in COMMANDS if f"{' '.join(arguments)} ".startswith(one.removeprefix("headrace ") + " "))
        taken = {option for one in COMMANDS[name].params for option in one.opts}
        assert {one for one in arguments if one.startswith("-")} <= taken
        assert all((ROOT / one).exists() for one in arguments if "/" in one)
    else:
        assert command in PYTEST or program in JDK or re.match(r"export SPARK_SUBMIT_OPTS=", command)


@pytest.mark.parametrize("command", PYTEST)
def test_pytest_takes_its_arguments(command: str, pytestconfig: pytest.Config):
    arguments = words(command)[words(command).index("pytest") + 1 :]
    chosen = arguments.pop(arguments.index("-k") + 1) if "-k" in arguments else ""
    for option in (one.partition("=")[0] for one in arguments if one.startswith("--")):
        pytestconfig.getoption(option)
    files = [file for one in arguments if one.startswith("tests/") for file in files_of(ROOT / one)]
    assert any(chosen in file.read_text(encoding="utf-8") for file in files)


def files_of(place: Path) -> list[Path]:
    return sorted(place.glob("test_*.py")) if place.is_dir() else [place]


def test_every_path_is_there():
    paths = set(re.findall(r"`((?:src|tests|examples|docs|bench|\.ci)/[\w./-]*[\w/])`", TEXT))
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_every_suite_is_in_the_table():
    folders = {one.name for one in (ROOT / "tests").iterdir() if one.is_dir() and one.name != "__pycache__"}
    assert folders - set(re.findall(r"`tests/(\w+)`", TEXT)) == set()


def test_every_target_that_runs_something_is_on_the_page():
    targets = re.findall(r"(?m)^([a-z-]+):.*## (?:run|check|measure)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert {one for one in targets if f"`make {one}`" not in TEXT} <= {"demo"}
