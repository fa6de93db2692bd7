"""Keeping the stores at what the log says: `follow` runs the followers of an app's views, and its webhooks.

Every view has a PostgreSQL table; declared webhooks are told of every change. It needs no Spark, and may run on another
machine than the queries. PostgreSQL is the one of the settings, or the embedded one; when the one of the settings is
away, the followers wait for it. SIGTERM and Ctrl-C end it in order with exit code 0; a second signal ends it at once,
which loses nothing. A follower that cannot go on is told of, the others go on, and the exit code is then 1.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated, cast

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict

from headrace import names
from headrace.cli import terminal
from headrace.cli.ending import seconds, signals
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.cli.status import line
from headrace.engine import orders, progress
from headrace.engine.progress import Progress
from headrace.errors import FollowError, PartError
from headrace.followers.crew import Crew, Task
from headrace.followers.follower import Follower, Status
from headrace.followers.store import Positions
from headrace.followers.view_follower import ViewFollower
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.graph.follow import Webhook
from headrace.graph.graph import Graph
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.parts import address
from headrace.parts.embedded import Parts
from headrace.settings import Settings

LINE_S = 5.0
PROGRESS_S = 1.0
MODE = "follow"


Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Follow this view or stream and no other; can be given again.", show_default=False
    ),
]
Rebuild = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Empty the table of this view and fill it again from its topic; for a webhook, send everything again.",
        show_default=False,
    ),
]
For = Annotated[
    str | None, typer.Option("--for", metavar="DURATION", help="End after this time, such as 60s.", show_default=False)
]


def follow(
    app: AppFile,
    *,
    only: Only = None,
    rebuild: Rebuild = None,
    bootstrap: Bootstrap = None,
    lasting: For = None,
    as_json: AsJson = False,
) -> None:
    """Keep the tables of an app's views, and its webhooks, at what the log says."""
    settings = settings_at(app, bootstrap=bootstrap)
    lasting_s = seconds(lasting)
    until = math.inf if lasting_s is None else time.monotonic() + lasting_s
    graph = load_app(app).graph()
    planned = _chosen(graph, only or (), rebuild or ())
    targets = {one.name: _target(one.name, one.webhook) for one in planned if one.webhook is not None}
    stopped, ready = threading.Event(), threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if not ready.is_set() or stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    try:
        with signals(stop), _stores(settings, planned) as (parts, url):
            # Options for another broker are not for the embedded one.
            settings = settings.model_copy(update={"kafka": parts.kafka_options})
            connection = Connection.of(settings, parts.bootstrap)
            tasks = [one.task(graph.app, url, targets.get(one.name), connection) for one in planned]
            with Crew(graph.app, connection, tasks) as crew:
                ready.set()
                telling = _Telling(graph.app, settings, as_json=as_json)
                terminal.note(f"following {', '.join(one.name for one in planned)}")
                while not stopped.wait(PROGRESS_S / 5) and time.monotonic() < until and not crew.all_failed:
                    for one in planned:
                        wanted = orders.wanted(settings, graph.app, one.name, telling.started_at)
                        crew.hold(one.name, wanted == "stopped")
                    crew.look_after()
                    telling.tell(crew)
                terminal.note("stopping")
            telling.tell(crew, last=True)
    except KeyboardInterrupt:
        if ready.is_set():
            raise
        terminal.note("stopped before anything was followed")
        return
    if crew.failures:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Planned:
    """A follower of the app: a view's table, or a declared webhook."""

    node: str
    topic: str
    is_view: bool
    webhook: Webhook | None
    rebuild: bool = False

    @property
    def name(self) -> str:
        return f"{self.node}.{self.webhook.name if self.webhook else names.TABLE_FOLLOWER}"

    def task(self, app: str, url: str | None, target: Target | None, connection: Connection) -> Task:
        """How to begin it."""
        again = [self.rebuild]

        def make(view: View | None, since: Positions) -> Follower:
            topic = self.topic if view is None else view.topic
            # A rebuild is asked for once, and not each time that the view changes.
            rebuild, again[0] = again[0], False
            if target is not None:
                name = f"{app}.{self.name}"
                # Who asks for everything again gets what is current, from its beginning.
                receiver = WebhookReceiver(target, name, topic, connection, since={} if rebuild else since)
                return Follower(name, topic, receiver, connection, rebuild=rebuild)
            if view is None or url is None:
                raise RuntimeError("a table is of a view, and in a PostgreSQL")
            return ViewFollower(url, view, connection, rebuild=rebuild)

        return Task(self.name, self.node, self.is_view, make)


def _chosen(graph: Graph, only: Sequence[str], rebuild: Sequence[str]) -> list[_Planned]:
    every = [_Planned(node.name, node.topic, True, None) for node in graph.derived if node.kind == "view"]
    for declared in graph.follows:
        node = graph.node(declared.of)
        every.append(_Planned(node.name, node.topic, node.kind == "view", declared.to))
    known = ", ".join(one.name for one in every) or "none"
    if not every:
        raise FollowError(
            "HR-413",
            f"The app `{graph.app}` has nothing to follow.",
            found="no view, and no `app.follow`",
            fix="declare a view with `@app.view(key=…)`, or a webhook with `app.follow(…, hr.webhook(…))`",
        )
    for name in (*only, *rebuild):
        if not any(name in (one.node, one.name) for one in every):
            raise FollowError(
                "HR-413",
                f"There is nothing to follow that is called `{name}`.",
                found=f"followers: {known}",
                fix="name one of them, or its view or stream; `headrace graph` shows what is declared",
            )
    planned = [one for one in every if not only or {one.node, one.name} & set(only)]
    # The name of a view means its table: a webhook is told everything again only when it is named itself.
    again = {one.name for one in every if one.name in rebuild or (one.node in rebuild and one.webhook is None)}
    return [replace(one, rebuild=one.name in again) for one in planned]


def _target(name: str, webhook: Webhook) -> Target:
    secret = None if webhook.secret_env is None else os.environ.get(webhook.secret_env)
    if webhook.secret_env is not None and not secret:
        raise FollowError(
            "HR-412",
            f"The secret of `{name}` is not there: the variable {webhook.secret_env} is not set.",
            found=f"{webhook.secret_env} is {'not set' if secret is None else 'empty'}",
            fix=f"set it before the start: `export {webhook.secret_env}=…`; the receiver has the same secret",
        )
    return Target(webhook.url, secret, webhook.allow_private)


@contextmanager
def _stores(settings: Settings, planned: Sequence[_Planned]) -> Iterator[tuple[Parts, str | None]]:
    """Kafka, and the address of PostgreSQL where there are tables to keep."""
    tables = any(one.webhook is None for one in planned)
    with Parts.start(settings, postgres=tables and not settings.postgres, report=terminal.note) as parts:
        if not tables:
            yield parts, None
        elif settings.postgres:
            _check(settings.postgres)
            yield parts, settings.postgres
        else:
            yield parts, parts.postgres_url


def _check(url: str) -> None:
    """An address that cannot be read is an error; a server that is away is waited for."""
    try:
        address.require_postgres(url, seconds=3)
    except PartError as error:
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            raise error from None
        terminal.note(f"{error.what} The tables wait for it.")


class _Telling:
    """Writes the progress of the followers beside that of the queries, and says how they do."""

    def __init__(self, app: str, settings: Settings, *, as_json: bool) -> None:
        self._app = app
        self._settings = settings
        self._as_json = as_json
        self.started_at = _now()
        self._written = self._told = 0.0
        self._rates: dict[str, tuple[float, int]] = {}
        self._failed: set[str] = set()

    def tell(self, crew: Crew, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._written < PROGRESS_S:
            return
        self._written = now
        events = [self._event(name, topic, status) for name, (topic, status) in crew.statuses.items()]
        for event in events:
            progress.write(self._settings, event)
            if self._as_json:
                terminal.out_json(asdict(event))
        for name, (_, status) in crew.statuses.items():
            if status.error is not None and name not in self._failed:
                self._failed.add(name)
                terminal.fail(status.error)
        if not self._as_json and not last and now - self._told >= LINE_S:
            self._told = now
            terminal.note(line(events))

    def _event(self, name: str, topic: str, status: Status) -> Progress:
        now = time.monotonic()
        then, before = self._rates.get(name, (now, status.applied))
        self._rates[name] = (now, status.applied)
        states: dict[str, progress.State] = {"waiting": "running"}
        error = str(status.error) if status.error else status.waiting
        return Progress(
            app=self._app,
            query=name,
            mode=MODE,
            state=states.get(status.state, cast(progress.State, status.state)),
            at=_now(),
            started_at=self.started_at,
            pid=os.getpid(),
            rows_in=status.applied,
            rows_per_second=round(max(0.0, (status.applied - before) / (now - then)), 1) if now > then else 0.0,
            event_time=status.last,
            lag={f"{topic}[{partition}]": count for partition, count in sorted(status.lag.items())},
            dead=status.dead,
            error=error,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
