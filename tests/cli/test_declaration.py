from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from headrace import errors

Call = Callable[..., Result]
BROKEN = Path(__file__).parents[1] / "broken_apps"
APP = """
import headrace as hr

print("the app says hello")
app = hr.App("shop")
orders = app.stream("orders", schema="id string, amount double")

@app.stream
def large(orders):
    return orders.where("amount > 100")
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


def test_graph_shows_the_plan(call: Call, app: Path):
    result = call("graph", app)
    assert result.exit_code == 0
    assert result.stdout.startswith("app shop\n")
    assert "large: orders → topic large" in result.stdout


def test_graph_as_json_and_as_mermaid(call: Call, app: Path):
    assert [query["name"] for query in json.loads(call("graph", app, "--json").stdout)["queries"]] == ["large"]
    assert call("graph", app, "--mermaid").stdout.startswith("flowchart LR\n")
    assert call("graph", app, "--mermaid", "--json").exit_code == 2


def test_graph_of_a_broken_app_is_an_error(call: Call):
    result = call("graph", BROKEN / "cycle.py")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "HR-015" in result.stderr


def test_explain_lists_every_code(call: Call):
    lines = call("explain").stdout.splitlines()
    assert [line.split()[0] for line in lines] == errors.codes()
    assert "HR-014  an input is not declared" in lines


@pytest.mark.parametrize("code", ["HR-014", "hr-014", "HR014", "14", "014"])
def test_explain_renders_the_page(call: Call, code: str):
    result = call("explain", code)
    assert result.exit_code == 0
    assert "HR-014: an input is not declared" in result.stdout
    assert "**Fix.**" not in result.stdout
    assert "Fix." in result.stdout


@pytest.mark.parametrize("code", ["HR-999", "nonsense", "../HR-014", "HR-0014"])
def test_explain_of_an_unknown_code_points_to_the_list(call: Call, code: str):
    result = call("explain", code)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "headrace explain" in result.stderr
