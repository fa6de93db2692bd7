"""Serving views over HTTP: `serve`, with the console beside them."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import logs, terminal
from headrace.cli.console import AllowHost, AllowOrigin, Host, Port
from headrace.cli.place import AppFile, Bootstrap, load_app, settings_at
from headrace.serve import token
from headrace.serve.beside import HOST, PORT
from headrace.services import site
from headrace.services.site import Addresses, Listening

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
    logs.configure()
    graph = load_app(app).graph()
    settings = settings_at(app, bootstrap=bootstrap)
    secret = "$HEADRACE_TOKEN" if settings.token else f"$(cat {token.place(settings)})"

    def tell(at: Addresses) -> None:
        terminal.out(f"the views of {graph.app}: {at.views}")
        if at.console is not None:
            terminal.out(f"the console of {graph.app}: {at.console}")
        terminal.note(f'curl -H "Authorization: Bearer {secret}" {at.views}')

    listening = Listening(host, port, allow_host or (), allow_origin or ())
    site.serve(graph, app, settings, at=listening, console=not no_console, ready=tell)
