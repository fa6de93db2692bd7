"""Versions from the command line: which there are, and taking one away."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import table, terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, connection_at, load_app, settings_at
from headrace.cli.replay import Name
from headrace.cli.run import Checkpoints
from headrace.engine import checkpoint
from headrace.engine import version as versions_of
from headrace.engine.version import Versions
from headrace.graph.plan import plan
from headrace.names import versioned

commands = typer.Typer(help="List the versions of views and streams, and take one away.", no_args_is_help=True)


@commands.command("ls")
def list_versions(app: AppFile, *, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """List the versions of an app's views and streams."""
    graph = load_app(app).graph()
    connection = connection_at(app, bootstrap)
    rows = []
    for query in plan(graph):
        versions = Versions.of(graph, query.node.name, connection)
        for name, one in versions.there.items():
            state = "dropped" if one.dropped else "built" if one.built else "begun"
            state = "current" if name == versions.current else state
            rows.append((query.node.name, name, state, one.of.topic, one.start or None))
    header = ("query", "version", "state", "topic", "from")
    if as_json:
        terminal.out_json([dict(zip(header, row, strict=True)) for row in rows])
    elif rows:
        terminal.out(terminal.columns(rows, header))
    else:
        terminal.note("nothing has run yet")


@commands.command()
def drop(
    app: AppFile,
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", show_default=False, help="The version to take away.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
    checkpoints: Checkpoints = None,
    as_json: AsJson = False,
) -> None:
    """Take away a version that is not current: its topics, its checkpoint and its table."""
    settings = settings_at(app, bootstrap=bootstrap, checkpoints=checkpoints)
    graph = load_app(app).graph()
    connection = connection_at(app, bootstrap)
    versions = Versions.of(graph, name, connection)
    found = versions.find(version)
    if not yes:
        typer.confirm(
            f"Delete the version {version} of `{name}`, with the topic {found.of.topic}?", abort=True, err=True
        )
    versions_of.drop(versions, version, connection, settings, also=lambda view: table.drop(settings, view))
    place = checkpoint.location(settings, graph.app, versioned(name, version))
    if checkpoint.local(place) is None:
        terminal.note(f"the checkpoint is not on a file system, and stays: {place}")
    if as_json:
        terminal.out_json({"app": graph.app, "query": name, "version": version, "topic": found.of.topic})
    else:
        terminal.out(f"{version} of {name} is gone")
