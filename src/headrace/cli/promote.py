"""`promote`: a version becomes the current one, for runs, followers, servers and tables; and back."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace import names
from headrace.cli import table, terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, connection_at, load_app, settings_at
from headrace.cli.replay import Name
from headrace.cli.run import Checkpoints
from headrace.engine import version as versions_of
from headrace.engine.version import Versions
from headrace.graph.plan import plan


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
    if chosen.code not in (None, versions_of.code(query)) or (version == names.FIRST_VERSION and before != version):
        terminal.note(f"`headrace run` goes on with {version} and the function as it is in the app: see that it fits")
    readers = [one.node.name for one in plan(graph) if name in one.reads]
    if readers and before != version:
        terminal.note(f"replay and promote what reads it, too, before the next run: {', '.join(readers)}")
