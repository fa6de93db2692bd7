"""The console of an app: `console`, wherever its queries run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import logs, terminal
from headrace.cli.place import AppFile, Bootstrap, load_app, settings_at
from headrace.serve.beside import HOST, PORT
from headrace.services import site
from headrace.services.site import Addresses, Listening

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="A web page's origin, such as https://shop.example.com, that may read; can be given again.",
        show_default=False,
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Another name of this server in requests; can be given again.", show_default=False
    ),
]


def console(
    app: AppFile,
    *,
    host: Host = HOST,
    port: Port = PORT,
    allow_origin: AllowOrigin = None,
    allow_host: AllowHost = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory", "-C", exists=True, help="Where the app runs, if not beside its file.", show_default=False
        ),
    ] = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Show an app in the browser, wherever its queries run, until it is stopped."""
    logs.configure()
    graph = load_app(app).graph()
    settings = settings_at(directory or app, bootstrap=bootstrap)

    def tell(at: Addresses) -> None:
        terminal.out(f"the console of {graph.app}: {at.console}")

    listening = Listening(host, port, allow_host or (), allow_origin or ())
    site.serve(graph, app, settings, at=listening, views=False, ready=tell)
