"""All of an app on one machine: capture, queries, followers, webhooks, the views over HTTP and the console.

    with dev(Path("app.py")) as running:
        running.wait(60)

The queries run live. Servers without an address in the settings are embedded ones: Kafka always, PostgreSQL where the
app captures tables or has views. A capture that cannot go on ends it with its error, and so does a query; a follower
that cannot is told of. A webhook whose secret is not there is told of and left out.

When a file of the app is saved it is checked (`headrace check`), loaded, and what has changed is started again: the
capture, the queries together, the followers, the server of views and console. Spark and the servers go on. Queries go
on from their checkpoints. Whatever is wrong with the saved app is told, and the one that ran goes on: also when the
state of a query does not fit any more (HR-307). An app that is given as an object has no file: then nothing is watched,
and there are neither views over HTTP nor a console, which load the app in a process of their own.

The end comes in order: server, followers, queries, Spark, capture, and the servers that were started here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypedDict, Unpack
from urllib.parse import urlsplit

import structlog

from headrace.app import App
from headrace.capture.table import Captured
from headrace.engine import captured, checker, version
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress
from headrace.errors import FollowError, HeadraceError, together
from headrace.followers.webhook import Target
from headrace.graph.graph import Graph
from headrace.graph.plan import plan
from headrace.log.connection import Connection
from headrace.log.patience import begun
from headrace.parts import address
from headrace.parts.embedded import Parts
from headrace.serve.beside import Beside
from headrace.services import fresh as fresh_start
from headrace.services import queries
from headrace.services.background import STEP_S, BackgroundService
from headrace.services.capture import CaptureService, ordered
from headrace.services.fingerprint import fingerprint
from headrace.services.followers import FollowerService, Planned, planned, target
from headrace.services.loading import load_app
from headrace.services.saved import SavedFiles, forget, loaded
from headrace.services.servers import needs_postgres, serving
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.engine.run import Run

_HANDED_ON = ("postgres", "source", "checkpoints")

log = structlog.get_logger()


class Options(TypedDict, total=False):
    """Those of Development, which says what they mean."""

    only: Sequence[str]
    webhooks: bool
    serve: bool
    console: bool
    port: int | None
    fresh: bool
    watch: bool


def dev(app: App | Path | str, settings: Settings | None = None, **options: Unpack[Options]) -> Development:
    """All of an app, given as its file or as an object, to be used with `with`; options are those of Development."""
    given = app if isinstance(app, App) else Path(app)
    place = Path(given.where.file).parent if isinstance(given, App) else given.parent
    return Development(given, settings or Settings.load(place), **options)


class Development:
    """Runs inside its `with` block; call `step` or `wait` meanwhile, which look after it and raise what ends it.

    Only the queries in `only` run, if any are named. Without `webhooks` none is called, without `serve` nothing is
    served, and without `console` no console. `fresh` removes first what an earlier start has left (fresh.py). With
    `watch` saved files are heeded.
    """

    def __init__(
        self,
        app: App | Path,
        settings: Settings,
        *,
        only: Sequence[str] = (),
        webhooks: bool = True,
        serve: bool = True,
        console: bool = True,
        port: int | None = None,
        fresh: bool = False,
        watch: bool = True,
    ) -> None:
        self._file = None if isinstance(app, App) else app
        self._app = app if isinstance(app, App) else load_app(app)
        self._beside = Path(self._app.where.file).parent
        self._given = self._settings = settings
        self._only, self._webhooks, self._fresh = only, webhooks, fresh
        self._serve, self._console, self._port = serve, console, port
        self._saved = SavedFiles(self._file) if self._file is not None and watch else None
        self._undo, self._servers = ExitStack(), ExitStack()
        self._spark: queries.Spark = None
        self._bootstrap = ""
        self._is_up = False
        self._runs: dict[str, object] = {}
        self._troubles: dict[str, bool] = {}
        self._checking: Future[Sequence[HeadraceError]] | None = None
        self._capture: CaptureService | None = None
        self._run: Run | None = None
        self._followers: FollowerService | None = None
        self._site: Beside | None = None

    @property
    def events(self) -> list[Progress]:
        """How the queries, the tables that are captured and the followers do."""
        beside = [one.events for one in (self._capture, self._followers) if one is not None]
        return [*(self._run.progress() if self._run else ()), *(event for events in beside for event in events)]

    @property
    def is_in_trouble(self) -> bool:
        """Whether a captured table or a follower cannot go on."""
        running = (self._capture, self._followers)
        return any(self._troubles.values()) or any(one.is_in_trouble for one in running if one is not None)

    @property
    def graph(self) -> Graph:
        """The app in the versions that are current."""
        return version.current(self._app.graph(), self.connection)

    @property
    def connection(self) -> Connection:
        """How to reach its Kafka."""
        return Connection.of(self._settings, self._bootstrap)

    @property
    def settings(self) -> Settings:
        """Those that it was given, with the servers that it uses."""
        return self._settings

    @property
    def link(self) -> str | None:
        """What opens the console, once."""
        return self._site.link if self._site else None

    @property
    def places(self) -> list[tuple[str, str]]:
        """Where everything is, for a person: what it is, and its address or name."""
        graph, rows = self.graph, list[tuple[str, str]]()
        if self._site is not None:
            served = self._serve and _has_views(graph)
            found = (("console", self._console, self._site.link), ("views", served, self._site.views))
            rows += [(name, at or f"did not start: {self._site.failure}") for name, wanted, at in found if wanted]
        rows.append(("Kafka", self._bootstrap))
        if self._settings.postgres:
            rows.append(("PostgreSQL", address.describe_postgres(self._settings.postgres)))
        rows.append(("state", str(self._settings.state)))
        written = plan(graph)
        inputs = {name for query in written for name in query.reads} - {query.node.name for query in written}
        rows += [("input", graph.node(name).topic) for name in sorted(inputs)]
        rows += [("result", query.node.topic) for query in written]
        return rows

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            graph, only = self._app.graph(), self._only
            leftovers = fresh_start.held(self._given) if self._fresh else []
            if self._saved is not None:
                self._saved.know(loaded(self._saved.app, self._app))
                undo.enter_context(self._saved)
            self._spark = undo.enter_context(queries.checked(graph, self._given, mode=Mode.LIVE, only=only))
            for line in leftovers:
                log.info(f"removing {line}")
            if self._fresh:
                fresh_start.remove(self._given)
            undo.enter_context(self._servers)
            undo.callback(self._end_capture)
            undo.callback(queries.end, self._spark)
            undo.push(self._exit_run)
            undo.callback(self._end_followers)
            undo.callback(self._end_site)
            self._begin(self._app)
            self._is_up = True
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.__exit__(kind, error, trace)

    def wait(self, seconds: float | None = None) -> None:
        """Look after it until the time is over; raises what ends it before."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.step(min(STEP_S, left))

    def step(self, seconds: float = STEP_S) -> None:
        """Look after it, for about so long; raises what ends it."""
        if self._run is not None:
            self._run.wait(seconds)
        for one in (self._capture, self._followers):
            if one is not None:
                one.step()
        if self._capture is not None:
            self._capture.check()
        if self._saved is not None:
            self._heed(self._saved)

    def _heed(self, files: SavedFiles) -> None:
        """Check what was saved, while everything runs, and take it when it was not saved again meanwhile."""
        if saved := files.take():
            log.info(f"{', '.join(one.name for one in saved)} saved, checking the app")
            self._checking = begun(lambda: _mistakes(files.app, self._spark), "check")
        if self._checking is not None and self._checking.done():
            checked, self._checking = self._checking, None
            if (app := self._right(files.app, checked.result())) is not None:
                self._take(files, app)
            else:
                log.warning("what was saved is not run; the app goes on as it was")
                files.know(loaded(files.app, self._app), any_file=True)

    def _take(self, files: SavedFiles, app: App) -> None:
        """Go on with what was saved, or with what there was."""
        files.know(loaded(files.app, app))
        before = self._app
        try:
            if not self._begin(app):
                log.info("nothing that runs has changed")
        except HeadraceError as error:
            _tell(error)
            if error.code == "HR-307":
                log.info(
                    "a function with a new name can be saved while this runs; for the other ways stop it first, or"
                    f" remove everything with `headrace dev {files.app.name} --fresh`"
                )
            log.warning("what was saved is not run; the app is started as it was")
            self._begin(before)

    def _right(self, file: Path, mistakes: Sequence[HeadraceError]) -> App | None:
        """The app in a file, or None when something is wrong with it, which is told."""
        if mistakes:
            _tell(together(mistakes))
            return None
        forget(file)
        try:
            app = load_app(file)
            app.graph()
        except HeadraceError as error:  # it was saved once more
            _tell(error)
            return None
        if app.name != self._app.name:
            log.warning(f"the app is called {app.name} now: what {self._app.name} has in the log stays where it is")
        return app

    def _begin(self, app: App) -> bool:
        """Start what does not run as it is declared; whether there was anything."""
        graph = app.graph()
        tables = captured.captured(graph)
        self._find_servers(graph)
        followers = [one for one in planned(graph) if self._webhooks or one.webhook is None]
        started = [
            self._changes(
                "capture", (graph.app, tables), self._end_capture, lambda: self._start_capture(graph, tables)
            ),
            self._changes("queries", (graph.app, graph.nodes), self._end_run, lambda: self._start_run(app)),
            self._changes(
                "followers",
                (graph.app, followers),
                self._end_followers,
                lambda: self._start_followers(graph, followers),
            ),
            self._changes("site", graph, self._end_site, lambda: self._start_site(graph)),
        ]
        self._app = app
        return any(started)

    def _changes(self, name: str, declared: object, end: Callable[[], None], start: Callable[[], None]) -> bool:
        """Start one of the four anew, unless it runs with this declaration."""
        wanted = fingerprint(declared, self._beside)
        if self._runs.get(name) == wanted:
            return False
        again = name in self._runs
        self._runs.pop(name, None)
        end()
        if again:
            log.info(f"starting again: {name}")
        start()
        self._runs[name] = wanted
        return True

    def _find_servers(self, graph: Graph) -> None:
        """Find or start what the app needs and what does not run for it yet."""
        source = bool(captured.captured(graph) or captured.asks(graph))
        tables = _has_views(graph)
        if not self._bootstrap:
            parts, self._settings = self._servers.enter_context(serving(self._given, source=source, tables=tables))
            self._bootstrap = parts.bootstrap
        elif needs_postgres(self._settings, source=source, tables=tables):
            parts = self._servers.enter_context(Parts.start(self._given, kafka=False, postgres=True, report=log.info))
            self._settings = self._settings.model_copy(update={"postgres": parts.postgres_url})

    def _start_capture(self, graph: Graph, tables: tuple[Captured, ...]) -> None:
        if tables:
            order = ordered(graph, tables, self._settings, self._bootstrap)
            self._capture = CaptureService(order, self._settings).__enter__()
            self._capture.settle()

    def _start_run(self, app: App) -> None:
        from headrace.engine.run import Run

        self._run = Run.start(
            app,
            mode=Mode.LIVE,
            settings=self._settings,
            bootstrap=self._bootstrap,
            only=self._only,
            spark=self._spark,
            report=log.info,
        )

    def _start_followers(self, graph: Graph, followers: Sequence[Planned]) -> None:
        targets: dict[str, Target | None] = {}
        for one in followers:
            try:
                targets[one.name] = None if one.webhook is None else target(one.name, one.webhook)
            except FollowError as error:
                _tell(error)
        tasks = [
            one.task(graph.app, self._settings.postgres, targets[one.name], self.connection)
            for one in followers
            if one.name in targets
        ]
        if tasks:
            self._followers = FollowerService(graph.app, self._settings, self.connection, tasks).__enter__()

    def _start_site(self, graph: Graph) -> None:
        views = self._serve and _has_views(graph)
        if self._file is None or not (views or self._console):
            return
        self._site = Beside(
            self._file,
            port=self._port,
            bootstrap=self._given.bootstrap,
            views=views,
            console=self._console,
            environment={f"HEADRACE_{one.upper()}": str(at) for one in _HANDED_ON if (at := getattr(self._given, one))},
        )
        if (at := self._site.wait()) is None:
            log.error(f"the server of views and console did not start: {self._site.failure}")
            return
        if self._is_up:
            log.info(f"the console: {at}" if self._console else f"the views: {at}")
        self._port = urlsplit(at).port  # a browser that has entered finds it again

    def _end_capture(self) -> None:
        ended, self._capture = self._capture, None
        self._end("capture", ended)

    def _end_followers(self) -> None:
        ended, self._followers = self._followers, None
        self._end("followers", ended)

    def _end(self, name: str, service: BackgroundService | None) -> None:
        self._troubles.pop(name, None)
        if service is not None:
            service.stop()
            self._troubles[name] = service.is_in_trouble

    def _end_run(self) -> None:
        ended, self._run = self._run, None
        if ended is not None:
            ended.stop()

    def _exit_run(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """When nothing else has failed, a query that is down is the error."""
        ended, self._run = self._run, None
        if ended is None:
            return
        try:
            if error is None:
                ended.check(last=True)
        except HeadraceError as down:
            ended.__exit__(type(down), down, None)
            raise
        ended.__exit__(kind, error, trace)

    def _end_site(self) -> None:
        if self._site is not None:
            ended, self._site = self._site, None
            ended.stop()


def _mistakes(file: Path, spark: queries.Spark) -> Sequence[HeadraceError]:
    """What `headrace check` finds wrong with the app in a file."""
    answer = checker.ask(file, [Mode.LIVE], checker.WITHIN_S)
    if answer is not None:
        return checker.heard(answer)[0]
    from headrace.engine.check import look

    return look(file, [Mode.LIVE], checker.WITHIN_S, spark=spark).errors


def _has_views(graph: Graph) -> bool:
    return any(node.kind == "view" for node in graph.derived)


def _tell(error: HeadraceError) -> None:
    log.error(error.what, error=error)
