"""The console of an app: `console`, and what `serve` and `dev` share with it.

`headrace console` shows an app that runs elsewhere: it reads the progress files beside the app, Kafka, and nothing of
the process that runs the queries. `headrace serve` has the console beside the views, and `headrace dev` starts one as
a process of its own.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import AppFile, Bootstrap, load_app, settings_at
from headrace.errors import ServeError
from headrace.log.connection import Connection
from headrace.parts.embedded import Parts
from headrace.serve import server, token
from headrace.serve.beside import HOST, LEASH_VARIABLE, PORT
from headrace.serve.console.scene import Scene
from headrace.serve.guard import CONSOLE, Rules
from headrace.serve.site import Console, Service
from headrace.settings import Settings

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
    graph = load_app(app).graph()
    settings = settings_at(directory or app, bootstrap=bootstrap)
    check_host(host, settings)
    bound = server.bind(host, port)
    rules = rules_of(settings, host, allow_host, allow_origin)
    if os.environ.get(LEASH_VARIABLE):
        threading.Thread(target=_end_with_standard_input, daemon=True).start()
    with bound, Parts.start(settings, report=terminal.note) as parts:
        connection = Connection(parts.bootstrap, parts.kafka_options)
        scene = Scene.of(graph, settings, connection, app)
        made, link = console_of(scene, bound, rules)
        terminal.out(f"the console of {graph.app}: {link}")
        server.serve(Service(graph.app, connection, None, rules, scene, made), bound)
    terminal.note("stopped")


def console_of(scene: Scene, bound: socket.socket, rules: Rules) -> tuple[Console, str]:
    """The console of an app, and the link that opens it once."""
    # Only the commands that show it load what draws it.
    from headrace.serve.console.door import Keys
    from headrace.serve.console.mount import Console as Pages

    keys, header = Keys(), scene.settings.proxy_header
    pages = Pages(scene, keys, rules.token, f"headrace_{bound.getsockname()[1]}", header)
    key = "" if header else f"?key={keys.make()}"
    return pages, f"{server.address(bound)}{CONSOLE}/{key}"


def rules_of(
    settings: Settings, host: str, allow_host: list[str] | None = None, allow_origin: list[str] | None = None
) -> Rules:
    """Who may ask."""
    return Rules(
        token.obtain(settings),
        frozenset({host.lower(), socket.gethostname().lower(), *(one.lower() for one in allow_host or ())}),
        frozenset(one.rstrip("/") for one in allow_origin or ()),
    )


def check_host(host: str, settings: Settings) -> None:
    """A console that others can reach has a token that somebody chose, or a proxy that signs people in."""
    if _is_loopback(host) or settings.token or settings.proxy_header:
        return
    raise ServeError(
        "HR-541",
        f"The console would listen on {host}, where others can reach it, and nobody has said who may enter.",
        found=f"--host {host}, and neither a token nor a proxy header in the settings",
        fix="give a token (HEADRACE_TOKEN, or `token` in headrace.toml), or let a proxy sign people in and name the "
        "header it sets as `proxy_header`; or leave the console out with --no-console; or listen on 127.0.0.1",
    )


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _end_with_standard_input() -> None:
    """The one who started this process holds the other end; when it is gone, so is the need for a console."""
    sys.stdin.buffer.read()
    os._exit(0)
