"""Declaring, from plain Python and from a file. What a broken file says is asserted word by word in broken_apps/."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from headrace.app import App, Epoch, load
from headrace.errors import DeclarationError, DeclarationErrors, Location, RunError
from headrace.graph.connector import Postgres, outbox, postgres
from headrace.graph.declared import Declared
from headrace.graph.node import Derived, Source

BROKEN = Path(__file__).parent / "broken_apps"


def here() -> int:
    return sys._getframe(1).f_lineno


class TestInputs:
    def test_a_stream_with_everything(self):
        app = App("payments")
        line = here() + 1
        source = app.source(
            "transactions",
            schema="id string, card string, at timestamp",
            topic="payments.transactions",
            event_time="at",
            delay="5 seconds",
            id="id",
            key="card",
            partitions=8,
            retention=timedelta(days=7),
        )
        assert app.definitions == (source,)
        assert source.name == "transactions"
        assert source.kind == "stream"
        assert source.topic == "payments.transactions"
        assert source.schema is not None
        assert source.schema.ddl == "id string NOT NULL, card string, at timestamp NOT NULL"
        assert (source.event_time, source.delay_ms, source.id, source.key) == ("at", 5000, "id", ("card",))
        assert (source.partitions, source.retention_ms, source.connector) == (8, 604_800_000, None)
        assert (source.where.file, source.where.line) == (__file__, line)

    def test_a_stream_with_nothing_but_a_schema(self):
        source = App("payments").source("transactions", schema="id string")
        assert (source.topic, source.partitions, source.retention_ms) == ("transactions", 2, None)
        assert (source.event_time, source.delay_ms, source.id, source.key) == (None, 0, None, ())

    def test_a_stream_with_a_name_is_a_source(self):
        options: dict[str, Any] = {"schema": "id string, at timestamp", "event_time": "at", "delay": "5 seconds"}
        options |= {"idle": "1 minute", "future": "1 hour", "epoch": "seconds", "id": "id", "key": "id"}
        options |= {"topic": "shop.clicks", "partitions": 8, "retention": "1 day", "secret": "id"}
        assert options.keys() | {"name", "connector", "self"} == inspect.signature(App.source).parameters.keys()
        app = App("shop")
        line = here() + 1
        other = app.stream("clicks", outbox("public.outbox"), **options)
        assert other.where == Location(__file__, line)
        source = app.source("clicks", outbox("public.outbox"), **options)
        assert dataclasses.replace(other, where=source.where) == source

    @pytest.mark.parametrize("unit", get_args(Epoch))
    def test_every_unit_of_an_epoch_is_taken(self, unit: Epoch):
        assert App("shop").source("clicks", schema="at timestamp", event_time="at", epoch=unit).epoch_us > 0

    def test_a_captured_table_leaves_its_columns_to_the_database(self):
        source = App("payments").table("cards", postgres("public.cards"), key="card")
        assert (source.kind, source.connector, source.schema) == ("table", Postgres("public.cards"), None)
        assert source.key == ("card",)

    def test_the_key_of_a_table_is_never_null(self):
        source = App("payments").table("cards", key=["bank", "card"], schema="bank string, card string, owner string")
        assert source.schema is not None
        assert source.schema.ddl == "bank string NOT NULL, card string NOT NULL, owner string"

    def test_a_column_that_is_not_taken_for_a_sign(self):
        source = App("shop").source("quotes", schema="symbol string, change double")
        assert source.schema is not None
        assert source.schema.names == ("symbol", "change")

    def test_a_key_of_exact_types(self):
        schema = "a string, b bigint, c decimal(10,2), d date, e timestamp, f boolean, g binary"
        source = App("shop").table("t", schema=schema, key=["a", "b", "c", "d", "e", "f", "g"])
        assert source.key == ("a", "b", "c", "d", "e", "f", "g")

    def test_definitions_are_frozen(self):
        source = App("payments").source("transactions", schema="id string")
        with pytest.raises(dataclasses.FrozenInstanceError):
            source.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


class TestFunctions:
    def test_a_declared_function_is_still_the_function(self):
        app = App("payments")

        @app.stream
        def doubled(numbers: list[int], others: list[int] | None = None) -> Any:
            """Twice."""
            return [2 * number for number in numbers] + (others or [])

        assert isinstance(doubled, Declared)
        assert doubled([1, 2]) == [2, 4]
        assert doubled(numbers=[1], others=[5]) == [2, 5]
        assert (doubled.__name__, doubled.__doc__) == ("doubled", "Twice.")
        definition = doubled.definition
        assert app.definitions == (definition,)
        assert (definition.name, definition.kind, definition.inputs) == ("doubled", "stream", ("numbers", "others"))
        assert (definition.topic, definition.pinned, definition.partitions, definition.key) == ("doubled", False, 2, ())

    def test_options_of_a_function(self):
        app = App("payments")

        @app.stream(key="card", topic="payments.alerts", partitions=3, retention="1 day")
        def alerts(transactions) -> Any: ...

        definition = alerts.definition
        assert (definition.key, definition.topic, definition.pinned) == (("card",), "payments.alerts", True)
        assert (definition.partitions, definition.retention_ms) == (3, 86_400_000)

    def test_a_view(self):
        app = App("shop")

        @app.view(key=["url", "window_start"])
        def views(pageviews) -> Any: ...

        assert (views.definition.kind, views.definition.key) == ("view", ("url", "window_start"))

    def test_the_place_of_a_function_is_its_def(self):
        app = App("payments")
        line = here() + 4

        @app.stream(key="card")
        @_transparent
        def alerts(transactions): ...

        assert (alerts.definition.where.file, alerts.definition.where.line) == (__file__, line)

    def test_order_of_declaration_is_kept(self):
        app = App("payments")

        @app.stream
        def last(first) -> Any: ...

        app.source("first", schema="id string")
        assert [(type(node), node.name) for node in app.definitions] == [(Derived, "last"), (Source, "first")]


def plain(transactions): ...


def _transparent(function: Any) -> Any:
    return function


def _coroutine(app: App) -> None:
    @app.stream  # pyright: ignore[reportArgumentType]
    async def f(a): ...


def _generator(app: App) -> None:
    @app.stream  # pyright: ignore[reportArgumentType]
    def f(a):
        yield a


def _nothing(app: App) -> None:
    @app.stream
    def f() -> Any: ...


def _keyword_only(app: App) -> None:
    @app.stream
    def f(a, *, b) -> Any: ...


SCHEMA = "id string, n int, at timestamp"
MISTAKES = [
    ("HR-001", lambda app: App("pay ments")),
    ("HR-001", lambda app: App("")),
    ("HR-001", lambda app: app.source("1st", schema=SCHEMA)),
    ("HR-001", lambda app: app.source("x" * 101, schema=SCHEMA)),
    ("HR-001", lambda app: app.source(5, schema=SCHEMA)),
    ("HR-001", lambda app: app.stream(lambda a: a)),
    ("HR-001", lambda app: app.table("", schema=SCHEMA, key="id")),
    ("HR-002", lambda app: app.source("s", schema="")),
    ("HR-002", lambda app: app.source("s", schema={"id": "string"})),
    ("HR-001", lambda app: app.source(plain, schema=SCHEMA)),
    ("HR-003", lambda app: app.source("s")),
    ("HR-003", lambda app: app.stream("s")),
    ("HR-003", lambda app: app.table("t", key="id")),
    ("HR-004", lambda app: app.source("s", schema="__HR_x int")),
    ("HR-004", lambda app: app.source("s", schema="symbol string, change string")),
    ("HR-004", lambda app: app.source("s", schema="symbol string, Change string")),
    ("HR-004", lambda app: app.table("t", schema="id string, change int", key="id")),
    ("HR-005", lambda app: app.source("s", schema=SCHEMA, event_time="at", delay=5)),
    ("HR-005", lambda app: app.source("s", schema=SCHEMA, event_time="at", delay="1 month")),
    ("HR-005", lambda app: app.source("s", schema=SCHEMA, event_time="at", delay=timedelta(seconds=-1))),
    ("HR-005", lambda app: app.source("s", schema=SCHEMA, retention="0 seconds")),
    ("HR-006", lambda app: app.source("s", schema=SCHEMA, event_time="time")),
    ("HR-006", lambda app: app.source("s", schema=SCHEMA, id="ID")),
    ("HR-006", lambda app: app.source("s", schema=SCHEMA, id=["id"])),
    ("HR-006", lambda app: app.source("s", schema=SCHEMA, key=["id", "m"])),
    ("HR-006", lambda app: app.table("t", schema=SCHEMA, key="key")),
    ("HR-007", lambda app: app.source("s", schema="at timestamp_ntz", event_time="at")),
    ("HR-008", lambda app: app.source("s", schema=SCHEMA, partitions="2")),
    ("HR-008", lambda app: app.source("s", schema=SCHEMA, partitions=True)),
    ("HR-008", lambda app: app.source("s", schema=SCHEMA, partitions=-1)),
    ("HR-009", lambda app: app.source("s", schema=SCHEMA, topic="")),
    ("HR-009", lambda app: app.source("s", schema=SCHEMA, topic="..")),
    ("HR-009", lambda app: app.source("s", schema=SCHEMA, topic="x" * 245)),
    ("HR-010", _coroutine),
    ("HR-010", _generator),
    ("HR-010", _nothing),
    ("HR-010", _keyword_only),
    ("HR-011", lambda app: app.stream(schema=SCHEMA)),
    ("HR-011", lambda app: app.stream(event_time="at")),
    ("HR-011", lambda app: app.stream(delay="5 seconds")),
    ("HR-012", lambda app: app.table("t", postgres("public.cards; drop table cards"), key="id")),
    ("HR-012", lambda app: app.table("t", postgres(None), key="id")),  # pyright: ignore[reportArgumentType]
    ("HR-012", lambda app: app.table("t", object(), key="id")),
    ("HR-013", lambda app: app.stream(key=5)(plain)),
    ("HR-013", lambda app: app.view(key=[])(plain)),
    ("HR-013", lambda app: app.view(key=["id", "id"])(plain)),
    ("HR-013", lambda app: app.view(key={"id", "at"})(plain)),
    ("HR-013", lambda app: app.view(key={"id": "at"})(plain)),
    ("HR-013", lambda app: app.view(key="change")(plain)),
    ("HR-013", lambda app: app.table("t", postgres("public.t"), key="change")),
    ("HR-013", lambda app: app.table("t", schema="x double, y string", key="x")),
    ("HR-013", lambda app: app.table("t", schema="x float, y string", key=["y", "x"])),
    ("HR-013", lambda app: app.table("t", schema="x array<int>, y string", key="x")),
    ("HR-013", lambda app: app.table("t", schema="x map<string,int>, y string", key="x")),
    ("HR-013", lambda app: app.table("t", schema="x struct<a:int>, y string", key="x")),
    ("HR-013", lambda app: app.view(key=["id", None])(plain)),
]


@pytest.mark.parametrize(("code", "declare"), MISTAKES)
def test_a_mistake_in_plain_python_raises_at_once_and_declares_nothing(code: str, declare: Any):
    app = App("payments")
    with pytest.raises(DeclarationError) as caught:
        declare(app)
    assert caught.value.code == code
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
    assert app.definitions == ()


def test_a_mistake_points_at_the_line_of_the_option():
    app = App("payments")
    line = here() + 5
    with pytest.raises(DeclarationError) as caught:
        app.source(
            "transactions",
            schema="id string",
            id="identity",
        )
    assert caught.value.where is not None
    assert caught.value.where.line == line


@pytest.mark.parametrize("file", sorted(BROKEN.glob("*.py")), ids=lambda file: file.stem)
def test_a_broken_app_says_exactly_this(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(BROKEN)
    with pytest.raises(DeclarationErrors) as caught:
        load(Path(file.name)).graph()
    assert str(caught.value) + "\n" == file.with_suffix(".txt").read_text(encoding="utf-8")


class TestLoad:
    @pytest.fixture(autouse=True)
    def _in_a_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)

    def write(self, text: str, name: str = "app.py") -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from headrace.app import App\n" + text, encoding="utf-8")
        return path

    def error(self, path: Path) -> DeclarationErrors:
        with pytest.raises(DeclarationErrors) as caught:
            load(path).graph()
        return caught.value

    def test_the_app_and_its_neighbours(self):
        Path("headrace_test_neighbour.py").write_text("NAME = 'payments'\n")
        before = list(sys.path)
        modules = set(sys.modules)
        app = load(
            self.write("""
from headrace_test_neighbour import NAME
from dataclasses import dataclass

@dataclass
class Rule:
    limit: "int"

app = same = App(NAME)
app.source("transactions", schema="id string")

@app.stream
def alerts(transactions):
    return transactions + [Rule(5).limit]

if __name__ == "__main__":
    raise SystemExit("only as a program")
""")
        )
        assert app.name == "payments"
        assert [node.name for node in app.graph().topological()] == ["transactions", "alerts"]
        alerts = app.graph().derived[0]
        assert alerts.function([1]) == [1, 5]
        assert sys.path == before
        assert set(sys.modules) - modules == {"headrace_test_neighbour"}
        del sys.modules["headrace_test_neighbour"]

    def test_a_file_is_read_anew_each_time(self):
        path = self.write('app = App("one")\n')
        assert load(path).name == "one"
        self.write('app = App("another")\n')
        assert load(path).name == "another"

    def test_an_app_may_be_imported_from_a_neighbour(self):
        Path("headrace_test_shared.py").write_text('from headrace.app import App\napp = App("shared")\n')
        assert load(self.write("from headrace_test_shared import app as one\ntwo = one\n")).name == "shared"
        del sys.modules["headrace_test_shared"]

    def test_a_missing_file_names_its_neighbours(self):
        self.write("", "examples/app.py")
        error = self.error(Path("examples/ap.py"))
        assert error.code == "HR-020"
        assert error.what == "The app `examples/ap.py` cannot be read: no such file or directory."
        assert error.fix == "correct the path; beside it there are `examples/app.py`"

    def test_a_directory_names_the_app_in_it(self):
        self.write("", "examples/app.py")
        error = self.error(Path("examples"))
        assert (error.code, error.fix) == ("HR-020", "name the file in it: `examples/app.py`")

    def test_a_path_into_nowhere(self):
        assert self.error(Path("no/such/app.py")).code == "HR-020"

    def test_a_file_that_is_not_text(self):
        Path("app.py").write_bytes(b"x = '\xff'\n")
        error = self.error(Path("app.py"))
        assert error.code == "HR-021"
        assert "utf-8" in error.what

    def test_a_syntax_error_in_a_neighbour_points_there(self):
        Path("headrace_test_broken.py").write_text("x = 1\ny = = 2\n")
        error = self.error(self.write("import headrace_test_broken\n"))
        assert (error.code, str(error.where)) == ("HR-021", "headrace_test_broken.py:2")

    def test_an_exception_in_a_neighbour_points_there(self):
        Path("headrace_test_raising.py").write_text("\n\n1 / 0\n")
        error = self.error(self.write("import headrace_test_raising\n"))
        assert (error.code, str(error.where)) == ("HR-022", "headrace_test_raising.py:3")
        assert error.found == "ZeroDivisionError: division by zero"

    def test_an_exception_in_a_library_points_at_the_line_that_called_it(self):
        error = self.error(self.write("import json\njson.loads('{')\n"))
        assert (error.code, str(error.where)) == ("HR-022", "app.py:3")

    def test_a_missing_file_of_the_app_is_not_a_missing_app(self):
        error = self.error(self.write("open('limits.csv')\n"))
        assert error.code == "HR-022"
        assert "limits.csv" in str(error.found)

    def test_leaving_the_program_is_an_error(self):
        error = self.error(self.write("import sys\nsys.exit(3)\n"))
        assert (error.code, error.found) == ("HR-022", "SystemExit: 3")
        assert "__main__" in error.fix

    def test_a_wrong_keyword_is_an_error_at_its_line(self):
        error = self.error(self.write('app = App("a")\napp.source("s", shcema="id string")\n'))
        assert (error.code, str(error.where)) == ("HR-022", "app.py:3")
        assert "shcema" in str(error.found)

    def test_an_error_of_the_run_passes_through(self):
        path = self.write("from headrace.errors import RunError\nraise RunError('HR-022', 'x', fix='y')\n")
        with pytest.raises(RunError):
            load(path)

    def test_mistakes_of_declarations_and_of_the_graph_come_together(self):
        error = self.error(
            self.write("""
app = App("my shop")
app.source("clicks", schema="id strng", event_time="at", delay="soon", key="x")

@app.view
def latest(cliks): ...
""")
        )
        assert [(one.code, one.where.line if one.where else 0) for one in error.errors] == [
            ("HR-001", 3),
            ("HR-002", 4),
            ("HR-005", 4),
            ("HR-014", 7),
            ("HR-019", 7),
        ]

    def test_after_a_load_mistakes_raise_at_once_again(self):
        self.error(self.write('app = App("my shop")\n'))
        with pytest.raises(DeclarationError):
            App("my shop")
