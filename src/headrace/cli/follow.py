"""Keeping the stores at what the log says: `follow` runs the followers of an app's views, and its webhooks.

Every view has a PostgreSQL table; declared webhooks are told of every change. It needs no Spark, and may run on another
machine than the queries. PostgreSQL is the one of the settings, or the embedded one; when the one of the settings is
away, the followers wait for it. SIGTERM and Ctrl-C end it in order with exit code 0; a second signal ends it at once,
which loses nothing. A follower that cannot go on is told of, the others go on, and the exit code is then 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, cast

import typer

from headrace import names
from headrace.cli import companion, terminal
from headrace.cli.companion import Companion, Stop
from headrace.cli.ending import For, ending_at
from headrace.cli.place import AppFile, AsJson, Bootstrap, load_app, settings_at
from headrace.engine import orders
from headrace.engine.progress import Progress, State
from headrace.errors import FollowError
from headrace.followers.crew import Crew, Task
from headrace.followers.follower import Follower, Status
from headrace.followers.store import Positions
from headrace.followers.view_follower import ViewFollower
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.graph.follow import Webhook
from headrace.graph.graph import Graph
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.parts.embedded import Parts
from headrace.settings import Settings

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
    until = ending_at(lasting)
    graph = load_app(app).graph()
    planned = _chosen(graph, only or (), rebuild or ())
    targets = {one.name: _target(one.name, one.webhook) for one in planned if one.webhook is not None}
    stop = Stop()
    running: Following | None = None
    with stop.heeded(), _stores(settings, planned) as (parts, url):
        # Options for another broker are not for the embedded one.
        settings = settings.model_copy(update={"kafka": parts.kafka_options})
        connection = Connection.of(settings, parts.bootstrap)
        tasks = [one.task(graph.app, url, targets.get(one.name), connection) for one in planned]
        with Following(graph.app, settings, connection, tasks) as running:
            stop.ready.set()
            companion.attend(running, stop, until, as_json=as_json)
            terminal.note("stopping")
        if as_json:
            companion.show(running, 0.0, as_json=True)
    if running is not None and running.is_in_trouble:
        raise typer.Exit(1)


class Following(Companion):
    """The followers of an app; one that cannot go on is told of, and the others go on."""

    def __init__(self, app: str, settings: Settings, connection: Connection, tasks: Sequence[Task]) -> None:
        super().__init__(app, MODE, settings)
        self._crew = Crew(app, connection, tasks)
        self._names = [task.name for task in tasks]
        self._failed: set[str] = set()

    @property
    def is_over(self) -> bool:
        return self._crew.all_failed

    @property
    def is_in_trouble(self) -> bool:
        return bool(self._crew.failures)

    def step(self) -> bool:
        for name in self._names:
            wanted = orders.wanted(self._settings, self._app, name, self._started_at)
            self._crew.hold(name, wanted == "stopped")
        self._crew.look_after()
        return super().step()

    def _begin(self) -> None:
        terminal.note(f"following {', '.join(self._names)}")

    def _end(self) -> None:
        self._crew.stop()

    def _look(self) -> list[Progress]:
        statuses = self._crew.statuses
        for name, (_, status) in statuses.items():
            if status.error is not None and name not in self._failed:
                self._failed.add(name)
                terminal.fail(status.error)
        return [self._told_of(name, topic, status) for name, (topic, status) in statuses.items()]

    def _told_of(self, name: str, topic: str, status: Status) -> Progress:
        return self._event(
            name,
            "running" if status.state == "waiting" else cast(State, status.state),
            status.applied,
            event_time=status.last,
            lag={f"{topic}[{partition}]": count for partition, count in sorted(status.lag.items())},
            dead=status.dead,
            error=str(status.error) if status.error else status.waiting,
        )


def tables(graph: Graph, url: str, connection: Connection) -> list[Task]:
    """The followers that keep the tables of an app's views."""
    return [one.task(graph.app, url, None, connection) for one in _views(graph)]


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


def _views(graph: Graph) -> list[_Planned]:
    return [_Planned(node.name, node.topic, True, None) for node in graph.derived if node.kind == "view"]


def _chosen(graph: Graph, only: Sequence[str], rebuild: Sequence[str]) -> list[_Planned]:
    every = _views(graph)
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
            companion.check(settings.postgres, "The tables wait")
            yield parts, settings.postgres
        else:
            yield parts, parts.postgres_url
