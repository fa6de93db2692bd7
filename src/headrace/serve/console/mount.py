"""The console on a server: NiceGUI below /console of a Starlette app, with every page.

NiceGUI keeps what it serves in the process, so a process has one console. Scripts, styles and fonts come from its
package; nothing is fetched from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nicegui import app as pages
from nicegui import ui
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp

from headrace.serve.console import dashboard, letters, lineage, node, overview, queries
from headrace.serve.console.backend import Backend
from headrace.serve.console.door import Door, Keys
from headrace.serve.guard import CONSOLE

RECONNECT_S = 10.0
_FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#0b7285" stroke-width="2">'
    '<circle cx="15" cy="14" r="6.2"/><path d="M15 7.8v12.4M8.8 14h12.4"/><path d="M1.5 4.5h9.5c2 0 3 .8 4 2.2"/></svg>'
)


@dataclass(frozen=True)
class Console:
    """The console of an app; `keys` open it, and so does the token."""

    backend: Backend
    keys: Keys
    token: str = field(repr=False)
    cookie: str
    proxy_header: str | None = None

    def mount(self, server: Starlette) -> ASGIApp:
        """Put the console below /console of a server; gives who stands at its door."""
        _mount(server, self.backend)
        return Door(server, self.keys, self.token, self.cookie, self.proxy_header)

    def stop(self) -> None:
        """Read no more for its pages."""
        self.backend.stop()


def _mount(server: Starlette, backend: Backend) -> None:
    _register(backend)
    pages.config.socket_io_js_transports = ["websocket"]
    # A page that has lost its server is loaded anew, so there is no need to keep what it was sent.
    ui.run_with(
        server,  # pyright: ignore[reportArgumentType] - it needs nothing of FastAPI
        mount_path=CONSOLE,
        title="Headrace",
        favicon=_FAVICON,
        reconnect_timeout=RECONNECT_S,
        message_history_length=0,
        binding_refresh_interval=None,
        tailwind=False,
        show_welcome_message=False,
        gzip_middleware_factory=None,
    )


def _register(backend: Backend) -> None:
    def add(path: str, page: Callable[..., None]) -> None:
        ui.page(path)(page)

    def _overview(request: Request) -> None:
        overview.page(backend, request)

    def _lineage(request: Request) -> None:
        lineage.page(backend, request)

    def _node(request: Request, name: str) -> None:
        node.page(backend, request, name)

    def _letters(request: Request) -> None:
        letters.page(backend, request)

    def _queries(request: Request) -> None:
        queries.page(backend, request)

    def _query(request: Request, name: str) -> None:
        queries.one(backend, request, name)

    def _dashboard(request: Request, name: str) -> None:
        dashboard.page(backend, request, name)

    add("/", _overview)
    add("/dashboard/{name}", _dashboard)
    add("/letters", _letters)
    add("/queries", _queries)
    add("/queries/{name}", _query)
    add("/node/{name}", _node)
    add("/lineage", _lineage)
