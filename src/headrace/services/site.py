"""An app over HTTP: its views, and its console, in one server.

It needs Kafka, and for the views PostgreSQL: those of the settings, or the embedded ones, found or started; and no
Spark. The views are what the catalogue says of them. The console shows an app that runs elsewhere: it reads the
progress files beside the app, Kafka, and nothing of the process that runs the queries.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from headrace.errors import ServeError
from headrace.graph.graph import Graph
from headrace.log.connection import Connection
from headrace.parts.embedded import Parts
from headrace.serve import server, token
from headrace.serve.beside import HOST, LEASH_VARIABLE, PORT
from headrace.serve.console.backend import Backend
from headrace.serve.guard import CONSOLE, Rules
from headrace.serve.head import Heads
from headrace.serve.observation.observer import Observer
from headrace.serve.site import Console, Service
from headrace.settings import Settings

log = structlog.get_logger()


@dataclass(frozen=True)
class Listening:
    """Where a server listens, and who else may ask: other names of it, and origins of web pages."""

    host: str = HOST
    port: int = PORT
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()


@dataclass(frozen=True)
class Addresses:
    """What a server has: the address of the views, and the link that opens the console once."""

    views: str | None
    console: str | None


def serve(
    graph: Graph,
    file: Path,
    settings: Settings,
    *,
    at: Listening,
    views: bool = True,
    console: bool = True,
    ready: Callable[[Addresses], None] = lambda addresses: None,
) -> None:
    """Serve the app that the file declares until SIGTERM or Ctrl-C; `ready` is called when the server listens."""
    if console:
        _check_host(at.host, settings)
    bound = server.bind(at.host, at.port)
    rules = _rules(settings, at)
    if os.environ.get(LEASH_VARIABLE):
        threading.Thread(target=_end_with_standard_input, daemon=True).start()
    with bound, Parts.start(settings, postgres=views, report=log.info) as parts:
        connection = Connection(parts.bootstrap, parts.kafka_options)
        observer, pages, link = Observer(graph, settings, connection), None, None
        if console:
            pages, link = _console(Backend.of(observer, settings, connection, file), bound, rules)
        ready(Addresses(f"{server.address(bound)}/views" if views else None, link))
        service = Service(graph.app, connection, parts.postgres_address, rules, observer, pages, Heads.of(settings))
        server.serve(service, bound)
    log.info("stopped")


def _console(backend: Backend, bound: socket.socket, rules: Rules) -> tuple[Console, str]:
    """The console of an app, and the link that opens it once."""
    # Only those who show it load what draws it.
    from headrace.serve.console.door import Keys
    from headrace.serve.console.mount import Console as Pages

    keys, header = Keys(), backend.settings.proxy_header
    pages = Pages(backend, keys, rules.token, f"headrace_{bound.getsockname()[1]}", header)
    key = "" if header else f"?key={keys.make()}"
    return pages, f"{server.address(bound)}{CONSOLE}/{key}"


def _rules(settings: Settings, at: Listening) -> Rules:
    """Who may ask."""
    return Rules(
        token.obtain(settings),
        frozenset({at.host.lower(), socket.gethostname().lower(), *(one.lower() for one in at.hosts)}),
        frozenset(one.rstrip("/") for one in at.origins),
    )


def _check_host(host: str, settings: Settings) -> None:
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
    """The one who started this process holds the other end; when it is gone, so is the need for a server."""
    sys.stdin.buffer.read()
    os._exit(0)
