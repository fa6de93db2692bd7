"""Every code has a page, every page has a code, and an error is ready to be shown to a person."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from headrace import errors
from headrace.errors import DeclarationError, DeclarationErrors, Location

SOURCE = Path(errors.__file__).parent
RANGES = {"DeclarationError": "HR-0", "PartError": "HR-1", "LogError": "HR-2", "RunError": "HR-3"}
RANGES["FollowError"] = "HR-4"
RANGES["ServeError"] = "HR-5"
RANGES["CaptureError"] = "HR-6"


def used() -> dict[str, str]:
    """Each code that stands as a literal in the source, with a file that has it."""
    return {
        code: str(file.relative_to(SOURCE))
        for suffix in ("py", "java")
        for file in sorted(SOURCE.rglob(f"*.{suffix}"))
        for code in re.findall(r'"(HR-\d\d\d)"', file.read_text(encoding="utf-8"))
    }


def test_every_code_has_a_page():
    assert {code: file for code, file in used().items() if errors.explanation(code) is None} == {}


def test_every_page_has_a_code():
    assert set(errors.codes()) - set(used()) == set()


@pytest.mark.parametrize("code", errors.codes())
def test_a_page_begins_with_its_title_and_has_a_fix(code: str):
    page = errors.explanation(code)
    assert page is not None
    assert re.match(rf"# {code}: \S.*\n\n", page)
    assert "**Fix.**" in page
    assert errors.title(code)


def test_each_class_keeps_to_its_range_of_codes():
    strays = [
        f"{file.relative_to(SOURCE)}:{call.lineno} {call.func.id}({call.args[0].value!r})"
        for file in sorted(SOURCE.rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in RANGES
        if call.args and isinstance(call.args[0], ast.Constant)
        if not str(call.args[0].value).startswith(RANGES[call.func.id])
    ]
    assert strays == []


def test_an_unknown_code_has_no_page():
    assert errors.explanation("HR-999") is None
    assert errors.title("HR-999") == ""


def test_the_whole_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text("first = 1\nsecond = two\n")
    error = DeclarationError(
        "HR-014",
        "Something is wrong.",
        where=Location(str(tmp_path / "app.py"), 2),
        found="two",
        fix="write 2",
    )
    assert str(error) == (
        "HR-014  an input is not declared\n\n"
        "  Something is wrong.\n\n"
        "  at app.py:2\n"
        "      2 | second = two\n\n"
        "  found: two\n\n"
        "  fix: write 2\n"
        "  more: headrace explain HR-014"
    )
    assert error.as_dict() == {
        "code": "HR-014",
        "title": "an input is not declared",
        "what": "Something is wrong.",
        "where": "app.py:2",
        "found": "two",
        "fix": "write 2",
    }


def test_what_is_not_known_is_left_out():
    assert str(DeclarationError("HR-014", "What.", fix="how")) == (
        "HR-014  an input is not declared\n\n  What.\n\n  fix: how\n  more: headrace explain HR-014"
    )


def test_several_errors_are_shown_one_after_the_other():
    one = DeclarationError("HR-014", "One.", fix="a")
    two = DeclarationError("HR-015", "Two.", fix="b")
    both = DeclarationErrors([one, two])
    assert str(both) == f"{one}\n\n{two}"
    assert both.code == "HR-014"
    assert isinstance(both, DeclarationError)
