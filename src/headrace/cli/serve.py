"""Serving views over HTTP: `serve`, with the console beside them.

It needs Kafka and PostgreSQL, and no Spark: those of the settings, or the embedded ones, found or started. It serves
what the catalogue says of the app's views; the file is asked for the app's name, and for what the console shows.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import terminal
from headrace.cli.console import (
    AllowHost,
    AllowOrigin,
    Host,
    Port,
    check_host,
    console_of,
    rules_of,
)
from headrace.cli.place import AppFile, Bootstrap, load_app, settings_at
from headrace.log.connection import Connection
from headrace.parts.embedded import Parts
from headrace.serve import server, token
from headrace.serve.beside import HOST, PORT
from headrace.serve.console.scene import Scene
from headrace.serve.site import Service

NoConsole = Annotated[bool, typer.Option("--no-console", help="Leave the console out.")]


def serve(
    app: AppFile,
    *,
    host: Host = HOST,
    port: Port = PORT,
    allow_origin: AllowOrigin = None,
    allow_host: AllowHost = None,
    no_console: NoConsole = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Serve the views of an app over HTTP, and its console, until it is stopped."""
    graph = load_app(app).graph()
    settings = settings_at(app, bootstrap=bootstrap)
    if not no_console:
        check_host(host, settings)
    bound = server.bind(host, port)
    rules = rules_of(settings, host, allow_host, allow_origin)
    secret = "$HEADRACE_TOKEN" if settings.token else f"$(cat {token.place(settings)})"
    with bound, Parts.start(settings, postgres=True, report=terminal.note) as parts:
        connection = Connection(parts.bootstrap, parts.kafka_options)
        terminal.out(f"the views of {graph.app}: {server.address(bound)}/views")
        scene, console = Scene.of(graph, settings, connection, app), None
        if not no_console:
            console, link = console_of(scene, bound, rules)
            terminal.out(f"the console of {graph.app}: {link}")
        terminal.note(f'curl -H "Authorization: Bearer {secret}" {server.address(bound)}/views')
        server.serve(Service(graph.app, connection, parts.postgres_url, rules, scene, console), bound)
    terminal.note("stopped")
