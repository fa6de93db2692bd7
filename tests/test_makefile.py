"""The two commands and what they stand on: the targets parse and are listed, the locks hold what pyproject.toml asks
for, and no file names a package registry.

Nothing is built here: make is only asked what it would do.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-java.lock")
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)
REGISTRIES = re.compile(
    r"pypi\.(?:org|io)|pythonhosted\.org|pypi\.python\.org|maven\.org|repo\.maven|npmjs\.(?:org|com)"
)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # A make that runs the tests passes its own flags down in these variables.
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS", "NAME")}
    return subprocess.run(
        ["make", "-C", ROOT, "--no-print-directory", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


def is_there(target: str) -> bool:
    return target != "torture" or (ROOT / "tests" / "torture").is_dir()


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_can_be_made(target: str):
    told = make("--dry-run", target)
    assert (told.returncode == 0) == is_there(target), told.stderr


def test_help_lists_every_target():
    told = make("help")
    assert sorted(re.findall(r"^make (\S+) +\S", told.stdout, re.MULTILINE)) == sorted(filter(is_there, TARGETS))
    assert make().stdout == told.stdout


def test_options_reach_the_program():
    assert "demo.py --for 60s" in make("--dry-run", "demo", "ARGS=--for 60s").stdout
    assert "for name in latency;" in make("--dry-run", "bench", "NAME=latency").stdout


def test_an_unusable_python_is_refused(tmp_path: Path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    copy = tmp_path / "checkout"
    copy.mkdir()
    for name in ("Makefile", *LOCKS, "pyproject.toml"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    told = make("-C", str(copy), "setup", f"PYTHON={old}")
    assert told.returncode != 0
    assert f"Python 3.11 or newer, with its venv module, is needed, and none was found as {old}." in told.stderr
    assert not (copy / ".venv").exists()


def test_ci_runs_lint_and_tests():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert re.findall(r"^make (\S+)", text, re.MULTILINE) == ["lint", "test"]


# Locks


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / lock).read_text(encoding="utf-8")
    return {canonicalize_name(n): v for n, v in re.findall(r"^([\w.-]+)(?:\[.*\])?==([^\s;]+)", text, re.MULTILINE)}


def group(name: str) -> Iterator[str]:
    for one in PROJECT["dependency-groups"][name]:
        if isinstance(one, dict):
            yield from group(one["include-group"])
        else:
            yield one


@pytest.mark.parametrize(
    ("lock", "asked"),
    [
        ("requirements.lock", [*PROJECT["project"]["dependencies"], *group("dev")]),
        ("requirements-build.lock", [*PROJECT["build-system"]["requires"], *group("build")]),
        ("requirements-java.lock", PROJECT["project"]["optional-dependencies"]["java"]),
    ],
)
def test_a_lock_holds_what_is_asked_for(lock: str, asked: list[str]):
    pinned = pins(lock)
    missing = [
        text
        for text in asked
        if (one := Requirement(text)) and not one.specifier.contains(pinned.get(canonicalize_name(one.name), "0"))
    ]
    assert missing == [], "run `make lock`"


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_a_hash(lock: str):
    text = (ROOT / lock).read_text(encoding="utf-8")
    packages = re.findall(r"^(?![ #])[^\n]*(?:\n[ ]+--hash=sha256:[0-9a-f]{64}[^\n]*)*", text, re.MULTILINE)
    assert [package for package in packages if package and "--hash" not in package] == []


def test_the_build_lock_agrees_with_the_lock():
    assert pins("requirements-build.lock").items() <= pins("requirements.lock").items()


# Registries


def files() -> Iterator[Path]:
    """Every file of the checkout that git would take."""
    ignored = {line.rstrip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()} | {".git"}
    for directory, folders, names in os.walk(ROOT):
        folders[:] = [folder for folder in folders if folder not in ignored and not folder.endswith(".egg-info")]
        yield from (Path(directory, name) for name in names if name not in ignored)


def test_no_file_names_a_registry():
    named = [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in files()
        if (found := REGISTRIES.search(path.read_text(encoding="utf-8", errors="replace")))
    ]
    assert named == []
