"""All that one server has: the views, how the app is doing, the console, behind the guard.

/views …, /openapi.json    the views (api.py), where there is a PostgreSQL that holds them
/metrics                   how the app is doing, for Prometheus (metrics.py)
/console                   the console, for people, where it is asked for
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from headrace.errors import HeadraceError, ServeError
from headrace.log.connection import Connection
from headrace.serve import problem
from headrace.serve.api import Api
from headrace.serve.guard import Guard, Rules
from headrace.serve.head import Heads
from headrace.serve.metrics import Metrics
from headrace.serve.observation.observer import Observer


class Console(Protocol):
    """A console, seen from here: it adds itself to a server, gives who stands at its door, and is stopped."""

    def mount(self, server: Starlette) -> ASGIApp: ...
    def stop(self) -> None: ...


@dataclass(frozen=True)
class Service:
    """What is served: the views of an app, on a Kafka and a PostgreSQL (if there is one), by rules; how the app is
    doing, where there is an observer; its console; and what is asked of the heads of requests."""

    app: str
    connection: Connection
    postgres_url: str | None = field(repr=False)
    rules: Rules
    observer: Observer | None = None
    console: Console | None = None
    heads: Heads = field(default_factory=Heads)


class Site:
    """What a server runs as `asgi`; `stop` disconnects all subscribers."""

    def __init__(self, service: Service) -> None:
        url = service.postgres_url
        self._api = Api(service.app, service.connection, url) if url is not None else None
        self._observer, self._console = service.observer, service.console
        routes: list[BaseRoute] = list(self._api.routes) if self._api else []
        if self._observer is not None:
            metrics = Metrics(self._observer, service.heads)
            routes.append(Route("/metrics", lambda request: metrics.answer(), methods=["GET"]))
        server = Starlette(
            routes=routes,
            exception_handlers={HeadraceError: _answer, HTTPException: _no_such_path},
            lifespan=self._open,
        )
        door = self._console.mount(server) if self._console else None
        self.asgi: ASGIApp = Guard(server, service.rules, service.heads, door)

    def stop(self) -> None:
        """Disconnect all subscribers, each with the reason."""
        if self._api is not None:
            self._api.stop()

    @asynccontextmanager
    async def _open(self, server: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if self._observer is not None:
                self._observer.start()
                stack.callback(self._observer.stop)
            if self._console is not None:
                stack.callback(self._console.stop)
            if self._api is not None:
                await stack.enter_async_context(self._api.opened())
            yield


async def _answer(request: Any, error: Exception) -> Response:
    if not isinstance(error, HeadraceError):
        raise error
    return problem.answer(error)


async def _no_such_path(request: Any, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    found = ServeError(
        "HR-519",
        "There is nothing under this path." if error.status_code == 404 else "Views can only be read, with GET.",
        found=f"{request.scope.get('method', '')} {request.scope['path']}"[:300],
        fix="/views lists the views, /openapi.json describes all paths",
        more={"status": error.status_code},
    )
    return problem.answer(found)
