"""App: what a user declares, as frozen definitions in the order they were made.

    app = hr.App("payments")
    transactions = app.source("transactions", schema="id string, at timestamp", event_time="at", id="id")

    @app.stream
    def alerts(transactions): ...

Declaring starts nothing and knows nothing of Spark. A mistake that is visible at a declaration raises there when it is
made from plain Python; `load` (which the commands use) gathers those of a whole file, and `App.graph()` raises them
together with what the rules find. A declared function stays callable: with static DataFrames it gives the batch answer.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, overload

from headrace import names
from headrace.call import Call, calling, definition
from headrace.errors import DeclarationError, DeclarationErrors, HeadraceError, Location
from headrace.graph import options, rules
from headrace.graph.adaptive import Adaptive
from headrace.graph.clock_correction import ClockCorrection
from headrace.graph.connector import Debezium, Outbox, Postgres
from headrace.graph.dashboard import Board, Dashboard
from headrace.graph.declared import AnyDeclared, Declared, Decorator, P, R
from headrace.graph.follow import Follow, Webhook
from headrace.graph.graph import Graph
from headrace.graph.mistakes import gathering
from headrace.graph.node import DEFAULT_FUTURE_MS, DEFAULT_IDLE_MS, Derived, Node, Source
from headrace.graph.options import Element
from headrace.log.schema import Schema

Duration = str | timedelta
Columns = str | Sequence[str]
Epoch = Literal["seconds", "milliseconds", "microseconds"]

_M = TypeVar("_M", bound=Callable[..., Any])
_N = TypeVar("_N", Source, Derived)
_NO_DELAY = "0 seconds"
_made: ContextVar[list[App] | None] = ContextVar("made", default=None)


def _reported_when_missing(option: str) -> Callable[[_M], _M]:
    """To a type checker the option is required. When it runs without, it is None, and a mistake that has a code."""

    def relaxed(method: _M) -> _M:
        method.__kwdefaults__ = {**(method.__kwdefaults__ or {}), option: None}
        return method

    return relaxed


class App:
    """A named set of declarations; one file declares one."""

    def __init__(self, name: str) -> None:
        call = calling()
        self.name = options.name("app", name, call)
        self.where = call.where
        self._definitions: list[Node] = []
        self._follows: list[Follow] = []
        self._boards: list[Board] = []
        self._mistakes: tuple[DeclarationError, ...] = ()
        made = _made.get()
        if made is not None:
            made.append(self)

    def __repr__(self) -> str:
        return f"<App {self.name}: {', '.join(node.name for node in self._definitions)}>"

    @property
    def definitions(self) -> tuple[Node, ...]:
        """Everything declared so far, in order."""
        return tuple(self._definitions)

    @property
    def follows(self) -> tuple[Follow, ...]:
        """The followers declared so far, in order."""
        return tuple(self._follows)

    @property
    def dashboards(self) -> tuple[Dashboard, ...]:
        """The dashboards declared so far, in order."""
        return tuple(board.definition for board in self._boards)

    def graph(self) -> Graph:
        """The graph, when no rule objects; else DeclarationErrors with everything that is wrong."""
        graph = Graph.of(self)
        rules.validate(graph, self._mistakes)
        return graph

    @_reported_when_missing("schema")
    def source(
        self,
        name: str,
        connector: Outbox | None = None,
        *,
        schema: str | Schema,
        topic: str | None = None,
        event_time: str | ClockCorrection | None = None,
        delay: Duration | Adaptive = _NO_DELAY,
        idle: Duration | None = None,
        future: Duration | None = None,
        epoch: Epoch | None = None,
        id: str | None = None,  # noqa: A002 - the word for it in a declaration
        key: Columns | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> Source:
        """Declare a stream that others write: `app.source("transactions", schema=…)`.

        `topic` is the name unless given. `hr.outbox(…)` captures the stream from a database: it gets the rows that name
        it. `event_time` is a timestamp column, or `hr.correct_clock(…)` of a device, and `delay` how much later than
        others an event may come (or `hr.adaptive(…)`); a partition that brings nothing for `idle` (30 seconds) is not
        waited for, and an event that is more than `future` (1 day) ahead of its record's own time is a dead letter.
        With `epoch`, such as "milliseconds", timestamps may be numbers, counted from 1970. `id` is the column that
        makes an event unique, and `key` the Kafka key. The console does not show the values of the columns in `secret`,
        nor those of the same name in what is made of them.
        """
        call = calling()
        name = options.name("stream", name, call)
        element = Element(f"stream `{name}`", call)
        if schema is None:
            element.mistake(
                "HR-003",
                f"Stream `{name}` has no schema, so its records cannot be read.",
                fix='add the columns, such as `schema="id string, amount double, at timestamp"`; '
                "to declare a function instead, write `@app.stream` without a name",
            )
        if connector is not None and not isinstance(connector, Outbox):
            element.mistake(
                "HR-012",
                f"The second argument of {element.label} must be an outbox that it is captured from.",
                found=repr(connector),
                fix=f'write `app.source("{name}", hr.outbox("public.outbox"), …)`; or leave it out, to read the '
                "stream from its topic",
            )
        columns = None if schema is None else options.schema(element, schema)
        options.refuse_sign(element, columns, of="string")
        named_time = options.event_time(element, event_time, columns)
        sent, received = options.correction(element, event_time, columns)
        named_id = options.column(element, "id", id, columns)
        delay_ms, delay_share, delay_least_ms = options.delay(element, delay)
        return self._register(
            Source(
                name=name,
                kind="stream",
                topic=options.topic(element, topic, name),
                schema=options.required(columns, named_time, named_id),
                event_time=named_time,
                sent=sent,
                received=received,
                delay_ms=delay_ms,
                delay_share=delay_share,
                delay_least_ms=delay_least_ms,
                idle_ms=options.milliseconds(element, "idle", idle, least=1, default=DEFAULT_IDLE_MS),
                future_ms=options.milliseconds(element, "future", future, default=DEFAULT_FUTURE_MS),
                epoch_us=options.epoch(element, epoch),
                id=named_id,
                key=options.key(element, key, columns),
                partitions=options.partitions(element, partitions),
                retention_ms=options.retention(element, retention),
                connector=connector if isinstance(connector, Outbox) else None,
                where=call.where,
                secret=options.secret(element, secret, columns),
            )
        )

    @overload
    def stream(
        self,
        name_or_function: Callable[P, R],
        *,
        topic: str | None = None,
        key: Columns | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> Declared[P, R]: ...
    @overload
    def stream(
        self,
        *,
        topic: str | None = None,
        key: Columns | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> Decorator: ...
    @overload
    def stream(
        self,
        name_or_function: str,
        connector: Outbox | None = None,
        *,
        schema: str | Schema,
        topic: str | None = None,
        event_time: str | ClockCorrection | None = None,
        delay: Duration | Adaptive = _NO_DELAY,
        idle: Duration | None = None,
        future: Duration | None = None,
        epoch: Epoch | None = None,
        id: str | None = None,
        key: Columns | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> Source: ...
    def stream(
        self,
        name_or_function: str | Callable[..., Any] | None = None,
        connector: Outbox | None = None,
        *,
        schema: str | Schema | None = None,
        topic: str | None = None,
        event_time: str | ClockCorrection | None = None,
        delay: Duration | Adaptive = _NO_DELAY,
        idle: Duration | None = None,
        future: Duration | None = None,
        epoch: Epoch | None = None,
        id: str | None = None,  # noqa: A002 - the word for it in a declaration
        key: Columns | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> Source | AnyDeclared | Decorator:
        """Declare a function whose rows are a stream: `@app.stream`, or with options `@app.stream(key="card")`.

        Results with the same `key`, the Kafka key, stay in order. `topic`, `partitions` or `retention` ask for a topic
        of its own. The console does not show the values of the columns in `secret`, nor those of the same name in what
        is made of them. With a name it is `app.source`.
        """
        input_only: dict[str, Any] = {"schema": schema, "event_time": event_time, "id": id, "idle": idle}
        input_only |= {"future": future, "epoch": epoch}
        function_too: dict[str, Any] = {"topic": topic, "key": key, "partitions": partitions}
        function_too |= {"retention": retention, "secret": secret}
        if name_or_function is not None and not callable(name_or_function):
            return self.source(name_or_function, connector, delay=delay, **input_only, **function_too)
        input_only |= {"connector": connector, "delay": None if delay == _NO_DELAY else delay}
        for option, value in input_only.items():
            if value is not None:
                Element("stream", calling()).mistake(
                    "HR-011",
                    f"`{option}` describes an input, and this stream has no name, which makes it a function.",
                    found=f"{option}={value!r}",
                    fix=f'for an input, write `app.source("transactions", {option}=…)`; '
                    f"for a function, leave `{option}` out: its columns are those of the DataFrame it returns",
                    option=option,
                )
        return self._function("stream", name_or_function, **function_too)

    @_reported_when_missing("key")
    def table(
        self,
        name: str,
        connector: Postgres | Debezium | None = None,
        *,
        key: Columns,
        schema: str | Schema | None = None,
        topic: str | None = None,
        partitions: int | None = None,
        secret: Columns | None = None,
    ) -> Source:
        """Declare a table: captured from a database by its connector, or any topic whose records have this `key`.

        A captured table may leave the schema to the database. Its topic is `<app>.<schema>.<table>` unless given.
        """
        call = calling()
        name = options.name("table", name, call)
        element = Element(f"table `{name}`", call)
        if connector is not None and not isinstance(connector, Postgres | Debezium):
            guess = f'hr.postgres("{connector}")' if isinstance(connector, str) else 'hr.postgres("public.cards")'
            element.mistake(
                "HR-012",
                f"The second argument of {element.label} must say where the table is captured from.",
                found=repr(connector),
                fix=f'write `app.table("{name}", {guess}, …)`; or leave it out and give a `schema`, '
                "to read the table from its topic",
            )
            connector = None
        elif not isinstance(connector, Postgres) and schema is None:
            element.mistake(
                "HR-003",
                f"Table `{name}` has no schema and no database to take it from.",
                fix='add the columns, such as `schema="card string, owner string"`; '
                'or capture it: `app.table("cards", hr.postgres("public.cards"), key="card")`',
            )
        columns = None if schema is None else options.schema(element, schema)
        options.refuse_sign(element, columns)
        keyed = options.row_key(element, key, columns)
        usual = name
        if isinstance(connector, Postgres):
            usual = names.captured_topic(self.name, connector.table)
        elif isinstance(connector, Debezium):
            usual = connector.topic
        return self._register(
            Source(
                name=name,
                kind="table",
                topic=options.topic(element, topic, usual),
                schema=options.required(columns, *keyed),
                event_time=None,
                sent=None,
                received=None,
                delay_ms=0,
                delay_share=0.0,
                delay_least_ms=0,
                idle_ms=DEFAULT_IDLE_MS,
                future_ms=DEFAULT_FUTURE_MS,
                epoch_us=0,
                id=None,
                key=keyed,
                partitions=options.partitions(element, partitions),
                retention_ms=None,
                connector=connector,
                where=call.where,
                secret=options.secret(element, secret, columns),
            )
        )

    @overload
    def view(
        self,
        name_or_function: Callable[P, R],
        *,
        key: Columns,
        topic: str | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> Declared[P, R]: ...
    @overload
    def view(
        self,
        *,
        key: Columns,
        topic: str | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> Decorator: ...
    @overload
    def view(
        self,
        name_or_function: str,
        *,
        key: Columns,
        sql: str,
        topic: str | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> AnyDeclared: ...
    def view(
        self,
        name_or_function: str | Callable[..., Any] | None = None,
        *,
        key: Columns | None = None,
        sql: str | None = None,
        topic: str | None = None,
        partitions: int | None = None,
        retention: Duration | None = None,
        secret: Columns | None = None,
    ) -> AnyDeclared | Decorator:
        """Declare a served table: `@app.view(key="card")`, or `app.view("totals", key="card", sql="SELECT …")`.

        `key` names the columns that make a row unique. `sql` is a query, or a file beside the app that ends in `.sql`;
        what it reads stands in its `FROM`.
        """
        given: dict[str, Any] = {"topic": topic, "key": key, "partitions": partitions, "retention": retention}
        given["secret"] = secret
        if isinstance(name_or_function, str):
            return self._statement(name_or_function, sql, calling(), **given)
        if sql is not None:
            Element("view", calling()).mistake(
                "HR-062",
                "`sql` is the query of a view that has a name, and this one is a function.",
                found=f"sql={sql.strip().splitlines()[0]!r}" if sql.strip() else "sql=''",
                fix='write `app.view("totals", key="card", sql="SELECT …")`; a function returns `hr.sql(…)`',
                option="sql",
            )
        return self._function("view", name_or_function, **given)

    def sql(self, folder: str | Path) -> tuple[AnyDeclared, ...]:
        """Declare a view for every `.sql` file of a folder beside the app, in the order of their names.

        A view has the name of its file. Its options stand in comments at the top: `-- key: country, day`, and also
        `topic`, `partitions`, `retention` and `secret`.
        """
        call = calling()
        element = Element("sql", call)
        place = Path(call.file).parent / folder
        files = sorted(place.glob("*.sql"))
        if not files:
            element.mistake(
                "HR-062",
                "There is no `.sql` file in the folder.",
                found=str(place),
                fix="correct the folder, which is looked for beside the app; each file in it is a view",
            )
        return tuple(self._statement(file.stem, str(file), call) for file in files)

    def follow(self, followed: AnyDeclared | Source, follower: Webhook) -> None:
        """Send every change of a stream or view on: `app.follow(alerts, hr.webhook("https://…"))`.

        `headrace follow` does it; views have their PostgreSQL table there in any case. A followed function is a topic.
        """
        call = calling()
        element = Element("follow", call)
        if not isinstance(follower, Webhook):
            element.mistake(
                "HR-045",
                "The second argument of `app.follow` says who is told of the changes.",
                found=repr(follower),
                fix='write `app.follow(alerts, hr.webhook("https://example.com/alerts"))`; '
                "a view has its PostgreSQL table without being followed",
            )
            return
        node = followed.definition if isinstance(followed, Declared) else followed
        if not isinstance(node, Source | Derived):
            element.mistake(
                "HR-043",
                "The first argument of `app.follow` is a declared stream or view.",
                found=repr(followed),
                fix="pass the stream or the decorated function itself, such as `app.follow(alerts, …)` below "
                "`def alerts(…)`",
            )
            return
        self._follows.append(Follow(node.name, follower, call.where))

    def dashboard(self, name: str, *, title: str | None = None) -> Board:
        """Declare a dashboard, and its charts on what this returns: `board.line(views, x="minute", y="views")`.

        The console draws it. `title` is its heading, the name unless given.
        """
        call = calling()
        named = options.name("dashboard", name, call)
        element = Element(f"dashboard `{named}`", call)
        if any(board.definition.name == named for board in self._boards):
            element.mistake(
                "HR-546",
                f"There are two dashboards with the name `{named}`.",
                found=f"`{named}`",
                fix="give this one another name, or declare its charts on the first",
            )
        board = Board(named, title or named, call.where, self._charted)
        self._boards.append(board)
        return board

    def _charted(self, view: object, element: Element) -> str:
        """The name of the view that a chart is of."""
        node = view.definition if isinstance(view, Declared) else view
        if isinstance(node, Derived) and node.kind == "view" and node in self._definitions:
            return node.name
        views = [one.name for one in self._definitions if one.kind == "view"]
        element.mistake(
            "HR-545",
            f"{element.label.capitalize()} is not of a view of this app.",
            found=repr(view),
            fix=f"pass the decorated function of a view; there {'are ' + ', '.join(views) if views else 'is none yet'}",
        )
        return node.name if isinstance(node, Source | Derived) else str(view)

    def _function(
        self,
        kind: Literal["stream", "view"],
        function: Callable[..., Any] | None,
        *,
        topic: str | None,
        key: Columns | None,
        partitions: int | None,
        retention: Duration | None,
        secret: Columns | None,
    ) -> AnyDeclared | Decorator:
        call = calling()

        def declare(function: Callable[P, R], /) -> Declared[P, R]:
            name = options.name(kind, getattr(function, "__name__", repr(function)), call)
            where = definition(function) or call.where
            element = Element(f"{kind} `{name}`", call)
            named_key = options.row_key if kind == "view" else options.key
            return Declared(
                self._register(
                    Derived(
                        name=name,
                        kind=kind,
                        function=function,
                        inputs=options.inputs(element, function, name, where),
                        key=named_key(element, key, None),
                        topic=options.topic(element, topic, name),
                        pinned=any(option is not None for option in (topic, partitions, retention)),
                        partitions=options.partitions(element, partitions),
                        retention_ms=options.retention(element, retention),
                        where=where,
                        secret=options.secret(element, secret, None),
                    )
                )
            )

        return declare if function is None else declare(function)

    def _statement(self, given: str, sql: str | None, call: Call, **options_given: Any) -> AnyDeclared:
        """A view whose rows a SQL query gives; what is given here counts before what its file begins with."""
        name = options.name("view", given, call)
        element = Element(f"view `{name}`", call)
        statement, described = options.statement(element, sql)
        told = described | {option: value for option, value in options_given.items() if value is not None}
        pinned = any(option in told for option in ("topic", "partitions", "retention"))
        return Declared(
            self._register(
                Derived(
                    name=name,
                    kind="view",
                    function=statement,
                    inputs=statement.inputs,
                    key=options.row_key(element, told.get("key"), None),
                    topic=options.topic(element, told.get("topic"), name),
                    pinned=pinned,
                    partitions=options.partitions(element, told.get("partitions")),
                    retention_ms=options.retention(element, told.get("retention")),
                    where=statement.where,
                    secret=options.secret(element, told.get("secret"), None),
                )
            )
        )

    def _register(self, node: _N) -> _N:
        self._definitions.append(node)
        return node


def load(path: Path) -> App:
    """Run the user's file and give the one App in it; what cannot be loaded is a DeclarationErrors.

    The file runs under a module name of its own, so `if __name__ == "__main__"` does not, with its directory first on
    `sys.path` while it loads. The module is forgotten afterwards, so that Spark ships its functions by value. Mistakes
    in its declarations are kept in the App and come out of `App.graph()`.
    """
    file = path.resolve()
    linecache.checkcache(str(file))
    module = ModuleType(f"headrace_app_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}")
    module.__file__ = str(file)
    made: list[App] = []
    token = _made.set(made)
    try:
        with gathering() as mistakes, _importable(module, file.parent):
            failure = _run(path, file, module)
    finally:
        _made.reset(token)
    if failure is not None:
        raise DeclarationErrors([*mistakes, *getattr(failure, "errors", [failure])])
    bound = [value for value in vars(module).values() if isinstance(value, App)]
    apps = list(dict.fromkeys([*(app for app in made if app.where.file == str(file)), *bound]))
    if len(apps) != 1:
        raise DeclarationErrors([*mistakes, _not_one(path, apps)])
    app = apps[0]
    app._mistakes = tuple(mistakes)
    return app


@contextmanager
def _importable(module: ModuleType, directory: Path) -> Iterator[None]:
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(directory))
    try:
        yield
    finally:
        sys.modules.pop(module.__name__, None)
        if str(directory) in sys.path:
            sys.path.remove(str(directory))


def _run(path: Path, file: Path, module: ModuleType) -> DeclarationError | None:
    """Run the file in the module; what went wrong, if anything did."""
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), vars(module))  # noqa: S102 - running it is the point
    except DeclarationError as error:
        return error
    except HeadraceError:
        raise
    except SyntaxError as error:
        return _unreadable(file, error) if _is_text_of(error.filename) else _raised(file, error)
    except OSError as error:
        return _missing(path, file, error) if error.filename == str(file) else _raised(file, error)
    except (Exception, SystemExit) as error:
        return _raised(file, error)
    return None


def _missing(path: Path, file: Path, error: OSError) -> DeclarationError:
    inside = sorted(file.glob("app.py")) if file.is_dir() else []
    near = sorted(file.parent.glob("*.py"))[:5] if file.parent.is_dir() else []
    if inside:
        fix = f"name the file in it: `{path / 'app.py'}`"
    elif near:
        fix = f"correct the path; beside it there are {', '.join(f'`{path.parent / one.name}`' for one in near)}"
    else:
        fix = f"correct the path; it was looked for from {Path.cwd()}"
    return DeclarationError(
        "HR-020",
        f"The app `{path}` cannot be read: {(error.strerror or 'no such file').lower()}.",
        found=path,
        fix=fix,
    )


def _unreadable(file: Path, error: SyntaxError) -> DeclarationError:
    return DeclarationError(
        "HR-021",
        f"Python cannot read this line: {error.msg}.",
        where=Location(error.filename or str(file), error.lineno or 1),
        fix="correct the marked line or the one before it; an editor with Python support shows the place",
    )


def _raised(file: Path, error: BaseException) -> DeclarationError:
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if _is_beside(Path(frame.filename), file)]
    where = Location(theirs[-1].filename, theirs[-1].lineno or 1) if theirs else Location(str(file), 1)
    if _needs_spark(error, frames):
        return DeclarationError(
            "HR-027",
            f"`{file.name}` needs Spark while it is loaded, which starts only when the app runs; nothing was started.",
            where=where,
            found=where.source.strip() or f"{type(error).__name__}: {error}",
            fix="move it into the function that uses it: expressions such as `F.col(…)` and `F.lit(…)` are made there;"
            ' only Python functions, such as `@F.udf("int")`, can be declared at the top',
        )
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        fix = (
            f"install `{package}` into the environment that runs headrace, or correct the name; "
            f"a file of your own, `{package}.py`, must stand beside the app"
        )
    elif isinstance(error, SystemExit):
        fix = 'let the file only declare; put what runs a program under `if __name__ == "__main__":`'
    else:
        fix = "correct the marked line; Headrace runs the file to see what it declares, so it must run to its end"
    return DeclarationError(
        "HR-022",
        f"`{file.name}` stopped with {type(error).__name__} while it was loaded; nothing was started.",
        where=where,
        found=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
        fix=fix,
    )


def _needs_spark(error: BaseException, frames: traceback.StackSummary) -> bool:
    """Whether PySpark has missed its session: it says so, or asserts that there is one."""
    if getattr(error, "getCondition", lambda: None)() == "SESSION_OR_CONTEXT_NOT_EXISTS":
        return True
    return isinstance(error, AssertionError) and not str(error) and "pyspark" in Path(frames[-1].filename).parts


def _not_one(path: Path, apps: list[App]) -> DeclarationError:
    if not apps:
        return DeclarationError(
            "HR-023",
            f"`{path}` was loaded, and there is no App in it.",
            found=path,
            fix='make one at the top, outside of functions: `app = hr.App("payments")`; or name the file that has it',
        )
    first, second = apps[0], apps[1]
    what = f"The file makes {len(apps)} Apps, and it is not clear which one to run"
    fix = "keep one App in a file; move the other with its declarations to a file of its own"
    if first.name == second.name:
        what = f"The file makes the App `{first.name}` twice, and each knows only what was declared on it"
        fix = "remove the second one, and declare everything on the first"
    return DeclarationError(
        "HR-024",
        f"{what}; the first is made at {first.where}.",
        where=second.where,
        found=" and ".join(f"`{app.name}` (line {app.where.line})" for app in apps),
        fix=fix,
    )


def _is_text_of(filename: str | None) -> bool:
    return filename is not None and Path(filename).is_file()


def _is_beside(frame: Path, file: Path) -> bool:
    """Whether the frame is the app or one of its neighbours, not an installed package that happens to be below."""
    installed = (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parent)
    return frame == file or (
        frame.is_relative_to(file.parent) and not any(frame.is_relative_to(place) for place in installed)
    )
