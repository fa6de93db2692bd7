"""Keeping the stores at what the log says: the followers of an app's views, and its webhooks.

Every view has a PostgreSQL table; declared webhooks are told of every change. It needs no Spark, and may run on another
machine than the queries. PostgreSQL is the one of the settings, or the embedded one; when the one of the settings is
away, the followers wait for it. A follower that cannot go on, or does not end in time, is told of, and the others go
on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

import structlog

from headrace import names
from headrace.engine import commands
from headrace.engine.progress import Progress, State
from headrace.errors import FollowError
from headrace.followers.follower import Follower, Status
from headrace.followers.store import Positions
from headrace.followers.supervisor import Supervisor, Task
from headrace.followers.view_follower import ViewFollower
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.graph.follow import Webhook
from headrace.graph.graph import Graph
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.services.background import BackgroundService
from headrace.services.servers import look, serving
from headrace.settings import Settings

MODE = "follow"

log = structlog.get_logger()


@contextmanager
def following(
    graph: Graph, settings: Settings, *, only: Sequence[str] = (), rebuild: Sequence[str] = ()
) -> Iterator[FollowerService]:
    """The followers of an app, or those in `only`, with the servers that they need. Those in `rebuild` empty their
    table and fill it again, or send everything again."""
    planned = _chosen(graph, only, rebuild)
    targets = {one.name: target(one.name, one.webhook) for one in planned if one.webhook is not None}
    tables = any(one.webhook is None for one in planned)
    with serving(settings, tables=tables) as (parts, known):
        if tables and settings.postgres:
            look(settings.postgres, "The tables wait")
        connection = Connection.of(known, parts.bootstrap)
        tasks = [one.task(graph.app, known.postgres, targets.get(one.name), connection) for one in planned]
        with FollowerService(graph.app, known, connection, tasks) as running:
            yield running


class FollowerService(BackgroundService):
    """The followers of an app; one that cannot go on is told of, and the others go on."""

    def __init__(self, app: str, settings: Settings, connection: Connection, tasks: Sequence[Task]) -> None:
        super().__init__(app, MODE, settings)
        self._supervisor = Supervisor(app, connection, tasks)
        self._names = [task.name for task in tasks]
        self._failed: set[str] = set()
        self._late: list[FollowError] = []

    @property
    def is_over(self) -> bool:
        return self._supervisor.all_failed

    @property
    def is_in_trouble(self) -> bool:
        return bool(self._supervisor.failures or self._late)

    def step(self) -> bool:
        for name in self._names:
            wanted = commands.wanted(self._settings, self._app, name, self._started_at)
            self._supervisor.hold(name, wanted == "stopped")
        self._supervisor.supervise()
        return super().step()

    def _begin(self) -> None:
        log.info(f"following {', '.join(self._names)}")

    def _end(self) -> None:
        for late in self._supervisor.stop():
            self._late.append(late)
            log.error(late.what, error=late)

    def _look(self) -> list[Progress]:
        statuses = self._supervisor.statuses
        for name, (_, status) in statuses.items():
            if status.error is not None and name not in self._failed:
                self._failed.add(name)
                log.error(status.error.what, error=status.error)
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
            oldest=status.oldest,
            doing=status.doing,
            step=status.step,
        )


@dataclass(frozen=True)
class Planned:
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


def planned(graph: Graph) -> list[Planned]:
    """The followers of an app: the tables of its views, and its webhooks."""
    tables = [Planned(node.name, node.topic, True, None) for node in graph.derived if node.kind == "view"]
    hooks = [(graph.node(declared.of), declared.to) for declared in graph.follows]
    return tables + [Planned(node.name, node.topic, node.kind == "view", hook) for node, hook in hooks]


def target(name: str, webhook: Webhook) -> Target:
    """Where a webhook sends to, and with which secret; FollowError when that is not set."""
    secret = None if webhook.secret_env is None else os.environ.get(webhook.secret_env)
    if webhook.secret_env is not None and not secret:
        raise FollowError(
            "HR-412",
            f"The secret of `{name}` is not there: the variable {webhook.secret_env} is not set.",
            found=f"{webhook.secret_env} is {'not set' if secret is None else 'empty'}",
            fix=f"set it before the start: `export {webhook.secret_env}=…`; the receiver has the same secret",
        )
    return Target(webhook.url, secret, webhook.allow_private)


def _chosen(graph: Graph, only: Sequence[str], rebuild: Sequence[str]) -> list[Planned]:
    every = planned(graph)
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
    chosen = [one for one in every if not only or {one.node, one.name} & set(only)]
    # The name of a view means its table: a webhook is told everything again only when it is named itself.
    again = {one.name for one in every if one.name in rebuild or (one.node in rebuild and one.webhook is None)}
    return [replace(one, rebuild=one.name in again) for one in chosen]
