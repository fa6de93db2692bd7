"""`make lint` looks at the Java sources where it can, and says so where it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import java_lint
import pytest

from headrace.errors import PartError
from headrace.parts import java
from headrace.parts.cache import entry

PLAIN = 'package probe;\n\nfinal class Probe {\n  static boolean isOne(String a) {\n    return a.equals("1");\n  }\n}\n'
UNTIDY = PLAIN.replace("{\n  static", "{\nstatic")
WRONG = PLAIN.replace('a.equals("1")', "a.equals(1)")


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "probe" / "Probe.java"
    file.parent.mkdir()
    monkeypatch.setattr(java_lint, "ROOT", tmp_path)
    monkeypatch.setattr(java_lint, "SOURCES", ("probe",))
    return file


@pytest.mark.skipif(java.find().javac is None, reason="needs a Java with a compiler")
def test_what_is_not_tidy_or_not_right_is_an_error(probe: Path, capfd: pytest.CaptureFixture[str]) -> None:
    probe.write_text(UNTIDY, encoding="utf-8")
    assert java_lint.main(fix=False) == 1
    assert "java_lint.py --fix" in capfd.readouterr().err
    assert java_lint.main(fix=True) == 0
    assert probe.read_text(encoding="utf-8") == PLAIN
    assert java_lint.main(fix=False) == 0
    assert entry("lint", java_lint.key(java.find(), [probe])).is_dir()
    probe.write_text(WRONG, encoding="utf-8")
    assert java_lint.main(fix=False) == 1
    assert "EqualsIncompatibleType" in capfd.readouterr().err


def test_without_a_compiler_that_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = java.find()
    monkeypatch.setattr(java, "find", lambda: replace(found, javac=None))
    assert java_lint.main(fix=False) == 0
    assert capsys.readouterr().err == f"the Java sources are not checked: {found.home} has no compiler\n"


def test_without_java_that_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def find() -> java.Java:
        raise PartError("HR-102", "There is none.", found="nothing", fix="install one")

    monkeypatch.setattr(java, "find", find)
    assert java_lint.main(fix=False) == 0
    assert "the Java sources are not checked" in capsys.readouterr().err
