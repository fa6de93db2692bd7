"""Which saved files are heeded."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.app import load
from headrace.services.saved import SavedFiles, loaded


def taken(files: SavedFiles, seconds: float = 10) -> list[str]:
    until = time.monotonic() + seconds
    while not (found := files.take()) and time.monotonic() < until:
        time.sleep(0.05)
    return [one.name for one in found]


def test_the_app_and_its_modules_are_heeded_and_nothing_else(tmp_path: Path):
    app, beside, package = tmp_path / "app.py", tmp_path / "shared.py", tmp_path / "rules"
    package.mkdir()
    for one in (app, beside, package / "__init__.py", tmp_path / "generate.py"):
        one.write_text("")
    state = tmp_path / ".headrace"
    state.mkdir()
    with SavedFiles(app) as files:
        files.know([beside.resolve()])
        time.sleep(0.5)
        (state / "odd.py").write_text("x = 1")
        (tmp_path / "generate.py").write_text("x = 1")
        (tmp_path / "notes.txt").write_text("x")
        assert taken(files, seconds=1.5) == []
        app.write_text("x = 1")
        assert taken(files) == ["app.py"]
        # As editors save: a new file takes the place of the old one.
        (tmp_path / "shared.tmp").write_text("x = 2")
        (tmp_path / "shared.tmp").replace(beside)
        assert taken(files) == ["shared.py"]
        files.know([beside.resolve(), (package / "__init__.py").resolve()])
        time.sleep(0.5)
        (package / "__init__.py").write_text("x = 3")
        assert taken(files) == ["__init__.py"]


def test_after_a_failure_any_python_file_counts(tmp_path: Path):
    app = tmp_path / "app.py"
    app.write_text("import missing")
    with SavedFiles(app) as files:
        files.know([], any_file=True)
        time.sleep(0.5)
        (tmp_path / "missing.py").write_text("")
        assert taken(files) == ["missing.py"]


def test_files_of_sql_are_heeded_also_new_ones_beside_them(tmp_path: Path):
    (tmp_path / "views").mkdir()
    app, spent = tmp_path / "app.py", tmp_path / "views" / "spent.sql"
    spent.write_text("-- key: customer\nSELECT customer FROM orders")
    app.write_text(
        "import headrace as hr\napp = hr.App('shop')\n"
        "app.table('orders', schema='id int, customer string', key='id')\napp.sql('views')\n"
    )
    with SavedFiles(app) as files:
        files.know(loaded(app, load(app)))
        time.sleep(0.5)
        (tmp_path / "notes.sql").write_text("SELECT 1")
        assert taken(files, seconds=1.5) == []
        spent.write_text("-- key: customer\nSELECT DISTINCT customer FROM orders")
        assert taken(files) == ["spent.sql"]
        (tmp_path / "views" / "new.sql").write_text("-- key: id\nSELECT id FROM orders")
        assert taken(files) == ["new.sql"]
