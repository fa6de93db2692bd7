"""A new app: its files, that its declarations are right, that nothing is overwritten, and that it answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.template import answer
from typer.testing import Result

from headrace.cli.new import TEMPLATES, Template

Call = Callable[..., Result]


@pytest.mark.parametrize("template", Template)
def test_a_new_app_is_right(template: Template, call: Call, tmp_path: Path):
    told = call("new", "my-shop", "--template", template).stdout
    place = tmp_path / "my-shop"
    written = {file.name: file.read_text(encoding="utf-8") for file in place.iterdir()}
    assert set(written) == {".gitignore", "README.md", "app.py", "generate.py", "requirements.txt"}
    assert written["requirements.txt"] == f"headrace=={version('headrace')}\n"
    assert [name for name, text in written.items() if any(word in text for word in ("APP_", "HEADRACE_VERSION"))] == []
    assert call("check", "my-shop/app.py").output == ""
    assert call("graph", "my-shop/app.py").stdout.startswith("app my_shop\n")
    first, _, commands = told.partition("next:\n")
    assert first == "made my-shop: README.md, app.py, generate.py, requirements.txt\n"
    assert "  headrace dev my-shop/app.py\n" in commands
    assert commands.replace("  ", "") in written["README.md"]


def test_every_template_can_be_asked_for():
    assert sorted(place.name for place in TEMPLATES.iterdir()) == sorted(Template)


def test_events_are_what_is_made_unless_asked(call: Call, tmp_path: Path):
    call("new", "deep/er/shop")
    made = (tmp_path / "deep/er/shop/generate.py").read_bytes()
    assert made == (TEMPLATES / "events" / "generate.py").read_bytes()


@pytest.mark.parametrize("there", ["file", "directory", "broken link"])
def test_nothing_is_overwritten(there: str, call: Call, tmp_path: Path):
    place = tmp_path / "shop"
    if there == "file":
        place.write_text("mine")
    elif there == "directory":
        place.mkdir()
    else:
        place.symlink_to("nowhere")
    before = place.lstat()
    result = call("new", "shop")
    assert result.exit_code == 1
    assert "HR-049" in result.stderr
    assert "it is there already" in result.stderr
    assert place.lstat() == before
    assert list(tmp_path.iterdir()) == [place]


def test_a_place_that_cannot_be_written_is_told(call: Call, tmp_path: Path):
    (tmp_path / "file").touch()
    result = call("new", "file/shop")
    assert result.exit_code == 1
    assert "HR-049" in result.stderr


@pytest.mark.parametrize("name", ["2shops", "my shop", "..", "ü"])
def test_a_name_that_no_app_can_have_is_refused(name: str, call: Call, tmp_path: Path):
    result = call("new", name)
    assert result.exit_code == 1
    assert "HR-048" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
@pytest.mark.parametrize("template", Template)
def test_a_new_app_answers(template: Template, tmp_path: Path):
    tmp_path.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_") or k == "HEADRACE_CACHE"}
    environment = kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    assert answer(template, tmp_path, environment).startswith("[")
