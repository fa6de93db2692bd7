"""`promote`: a version becomes the current one, for runs, followers, servers and tables; and back."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import table, terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, connection_at, load_app, settings_at
from headrace.cli.replay import Name
from headrace.cli.run import Checkpoints
from headrace.engine import version as versions_of
from headrace.engine.version import Versions
from headrace.graph.plan import plan
from headrace.log import consumer
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.names import FIRST_VERSION, follow_group, versioned


def promote(
    app: AppFile,
    name: Name,
    *,
    version: Annotated[
        str,
        typer.Option(
            metavar="VERSION", help="The version that is to be current; `first` is the first.", show_default=False
        ),
    ],
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    as_json: AsJson = False,
) -> None:
    """Make a version of a view or stream the current one, at once for all who read it."""
    settings = settings_at(app, bootstrap=bootstrap, checkpoints=checkpoints)
    graph = load_app(app).graph()
    connection = connection_at(app, bootstrap)
    versions = Versions.of(graph, name, connection)
    before = versions.current
    chosen = versions.find(version)
    is_view = chosen.of.kind == "view"
    if is_view and chosen.built:
        table.check(settings, chosen.of)
        table.fill(settings, chosen.of, connection)
    chosen = versions_of.promote(versions, version, connection, settings)
    switched = table.switch(settings, chosen.of, connection) if is_view else None
    if as_json:
        told = {"app": graph.app, "query": name, "version": version, "before": before, "topic": chosen.of.topic}
        terminal.out_json(told | {"table": switched})
        return
    terminal.out(f"{name} is {version}" + (" already" if before == version else f", and was {before}"))
    _, query = Versions.of(graph, name, connection).query(version)
    if chosen.code not in (None, versions_of.code(query)) or (version == FIRST_VERSION and before != version):
        terminal.note(f"`headrace run` goes on with {version} and the function as it is in the app: see that it fits")
    for hook in graph.followers(name) if before != version else ():
        left = _unsent(connection, f"{graph.app}.{name}.{hook.to.name}", versioned(versions.node.topic, before))
        if left:
            told = (
                f"{hook.to.name} has yet to send {left:,} changes of {before}, and does not while {version} is current"
            )
            terminal.note(told)
    readers = [one.node.name for one in plan(graph) if name in one.reads]
    if readers and before != version:
        terminal.note(f"replay and promote what reads it, too, before the next run: {', '.join(readers)}")


def _unsent(connection: Connection, follower: str, topic: str) -> int:
    """How many records of the topic a webhook has yet to send; none of one that has never begun."""
    sent = consumer.committed(connection, follow_group(follower), [topic])
    ends = topics.ends(connection, topic)
    return sum(max(0, end - sent[topic, i]) for i, end in ends.items() if (topic, i) in sent)
