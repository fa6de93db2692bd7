"""Views that are declared by a SQL query: what they read, their options, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace as hr
from headrace.app import load
from headrace.errors import DeclarationError, DeclarationErrors
from headrace.graph.node import Derived
from headrace.graph.statement import Statement

BEGIN = """
import headrace as hr

app = hr.App("shop")
app.table("orders", schema="id int, customer string, amount double", key="id")
app.table("customers", schema="customer string, country string", key="customer")
"""


def shop() -> hr.App:
    app = hr.App("shop")
    app.table("orders", schema="id int, customer string, amount double", key="id")
    app.table("customers", schema="customer string, country string", key="customer")
    return app


def written(tmp_path: Path, declarations: str, **files: str) -> hr.App:
    for name, text in files.items():
        file = tmp_path / f"{name.replace('__', '/')}.sql"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (tmp_path / "app.py").write_text(BEGIN + declarations)
    return load(tmp_path / "app.py")


def view(app: hr.App, name: str) -> Derived:
    node = app.graph().node(name)
    assert isinstance(node, Derived)
    return node


def test_what_a_query_reads_are_its_inputs():
    app = shop()
    made = app.view("spent", key="customer", sql="SELECT customer, sum(amount) AS spent FROM orders GROUP BY customer")
    app.view(
        "countries",
        key="country",
        sql="SELECT country, sum(spent) AS spent FROM spent JOIN customers USING (customer) GROUP BY country",
    )
    assert view(app, "spent").inputs == ("orders",)
    assert view(app, "countries").inputs == ("spent", "customers")
    assert repr(made) == "<view spent of orders>"
    assert view(app, "spent").where.source.lstrip().startswith("made = app.view(")


def test_a_file_with_its_options(tmp_path: Path):
    text = "-- What customers have spent.\n-- key: customer\n-- partitions: 3\n\nSELECT customer FROM orders\n"
    app = written(tmp_path, 'app.view("spent", sql="spent.sql", partitions=2)\n', spent=text)
    node = view(app, "spent")
    assert (node.key, node.partitions, node.pinned) == (("customer",), 2, True)
    assert node.where.file == str(tmp_path / "spent.sql")
    assert node.where.source == "SELECT customer FROM orders"


def test_a_folder_of_files(tmp_path: Path):
    files = {
        "views__spent": "-- key: customer\nSELECT customer, sum(amount) AS spent FROM orders GROUP BY customer",
        "views__pairs": "-- key: customer, country\nSELECT * FROM spent JOIN customers USING (customer)",
    }
    app = written(tmp_path, 'app.sql("views")\n', **files)
    assert view(app, "pairs").key == ("customer", "country")
    assert view(app, "pairs").inputs == ("spent", "customers")
    assert view(app, "spent").topic == "spent"


def test_a_line_of_the_text_is_found_in_its_file(tmp_path: Path):
    app = written(tmp_path, 'app.view("spent", key="a", sql="spent.sql")\n', spent="--\nSELECT\n  wrong\nFROM orders")
    statement = view(app, "spent").function
    assert isinstance(statement, Statement)
    assert statement.at(2).source == "  wrong"
    assert statement.at(9) == statement.where


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        ('app.view("a", key="id")', "View `a` has no query"),
        ('app.view("a", key="id", sql=" ")', "View `a` has no query"),
        ('app.view("a", key="id", sql="SELECT 1 AS id")', "The query of view `a` reads nothing"),
        ('app.view("a", key="id", sql="gone.sql")', "The file of view `a` cannot be read: No such file or directory"),
        ('app.sql("nowhere")', "There is no `.sql` file in the folder"),
        ('app.view(lambda orders: orders, key="id", sql="SELECT id FROM orders")', "this one is a function"),
    ],
)
def test_what_cannot_be_a_view(tmp_path: Path, declaration: str, said: str):
    with pytest.raises(DeclarationErrors) as caught:
        written(tmp_path, declaration + "\n").graph()
    first = next(one for one in caught.value.errors if one.code == "HR-062")
    assert said in first.what
    assert first.where is not None
    assert first.where.line == BEGIN.count("\n") + 1


@pytest.mark.parametrize(
    ("sql", "code"),
    [("SELECT id FROM ordes", "HR-014"), ("SELECT id FROM a", "HR-015")],
    ids=["unknown input", "reads itself"],
)
def test_the_rules_of_functions_hold(sql: str, code: str):
    app = shop()
    app.view("a", key="id", sql=sql)
    with pytest.raises(DeclarationErrors) as caught:
        app.graph()
    assert [one.code for one in caught.value.errors] == [code]


def test_a_view_needs_a_key(tmp_path: Path):
    app = written(tmp_path, 'app.view("spent", sql="SELECT customer FROM orders")\n')
    with pytest.raises(DeclarationErrors) as caught:
        app.graph()
    assert all(isinstance(one, DeclarationError) for one in caught.value.errors)
    assert "key" in str(caught.value)
