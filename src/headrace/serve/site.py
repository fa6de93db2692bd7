"""All that one server has: the views, how the app does, the console, behind the guard.

/views …, /openapi.json    the views (api.py), where there is a PostgreSQL that holds them
/metrics                   how the app does, for Prometheus (metrics.py)
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
from headrace.serve.console.scene import Scene
from headrace.serve.guard import Guard, Rules
from headrace.serve.metrics import Metrics


class Console(Protocol):
    """A console, seen from here: it adds itself to a server, and gives who stands at its door."""

    def mount(self, server: Starlette) -> ASGIApp: ...


@dataclass(frozen=True)
class Service:
    """What is served: the views of an app, on a Kafka and a PostgreSQL (if there is one), by rules; how it
    does, where there is a scene; and its console."""

    app: str
    connection: Connection
    postgres_url: str | None = field(repr=False)
    rules: Rules
    scene: Scene | None = None
    console: Console | None = None


class Site:
    """What a server runs as `asgi`; `stop` lets all subscribers go."""

    def __init__(self, service: Service) -> None:
        url = service.postgres_url
        self._api = Api(service.app, service.connection, url) if url is not None else None
        self._scene = service.scene
        routes: list[BaseRoute] = list(self._api.routes) if self._api else []
        if self._scene is not None:
            metrics = Metrics(self._scene.watch)
            routes.append(Route("/metrics", lambda request: metrics.answer(), methods=["GET"]))
        server = Starlette(
            routes=routes,
            exception_handlers={HeadraceError: _answer, HTTPException: _no_such_path},
            lifespan=self._open,
        )
        door = service.console.mount(server) if service.console else None
        self.asgi: ASGIApp = Guard(server, service.rules, door)

    def stop(self) -> None:
        """Let all subscribers go, each with a word."""
        if self._api is not None:
            self._api.stop()

    @asynccontextmanager
    async def _open(self, server: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if self._scene is not None:
                self._scene.start()
                stack.callback(self._scene.stop)
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
