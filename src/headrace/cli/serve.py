"""Serving views over HTTP: `serve`.

It needs Kafka and PostgreSQL, and no Spark: those of the settings, or the embedded ones, found or started. It serves
what the catalogue says of the app's views; the file is only asked for the app's name.
"""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import AppFile, Bootstrap, load_app, settings_at
from headrace.log.connection import Connection
from headrace.parts.embedded import Parts
from headrace.serve import server, token
from headrace.serve.guard import Rules

PORT = 8600
HOST = "127.0.0.1"


def serve(
    app: AppFile,
    *,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = PORT,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="A web page's origin, such as https://shop.example.com, that may read; can be given again.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Another name of this server in requests; can be given again.", show_default=False
        ),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Serve the views of an app over HTTP until it is stopped."""
    name = load_app(app).name
    settings = settings_at(app, bootstrap=bootstrap)
    bound = server.bind(host, port)
    rules = Rules(
        token.obtain(settings),
        frozenset({host.lower(), socket.gethostname().lower(), *(one.lower() for one in allow_host or ())}),
        frozenset(one.rstrip("/") for one in allow_origin or ()),
    )
    secret = "$HEADRACE_TOKEN" if settings.token else f"$(cat {token.place(settings)})"
    with bound, Parts.start(settings, postgres=True, report=terminal.note) as parts:
        connection = Connection(parts.bootstrap, parts.kafka_options)
        terminal.out(f"the views of {name}: {server.address(bound)}/views")
        terminal.note(f'curl -H "Authorization: Bearer {secret}" {server.address(bound)}/views')
        server.serve(server.Service(name, connection, parts.postgres_url, rules), bound)
    terminal.note("stopped")
