"""The process that serves: one socket, one event loop, a clean stop.

The socket is bound before anything else, so that a port in use is an error at once. SIGTERM and Ctrl-C stop it: no new
connection is taken, subscribers get a last event and are disconnected, answers under way are finished. Nothing of a
request is logged. A request whose head does not come is not waited for (head.py).
"""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn

from headrace.errors import ServeError
from headrace.serve.api import MOST_SUBSCRIBERS
from headrace.serve.guard import LARGEST_HEAD
from headrace.serve.site import Service, Site

BACKLOG = 1024
LARGEST_MESSAGE = 4 * 1024
LARGEST_CONSOLE_MESSAGE = 64 * 1024
LAST_WORDS_S = 5
MOST_CONNECTIONS = MOST_SUBSCRIBERS + 500


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(address)
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise ServeError(
            "HR-516",
            f"The server cannot listen on {host}:{port}: {error.strerror or error}",
            found=f"{host}:{port}",
            fix="stop what listens there, or choose another port with --port (0 takes a free one)"
            if taken
            else "give an address of this machine with --host, and a port that you may use with --port",
        ) from None
    bound.set_inheritable(False)
    return bound


def address(bound: socket.socket) -> str:
    """The URL of a listening socket."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def serve(service: Service, bound: socket.socket, ready: Callable[[Callable[[], None]], None] | None = None) -> None:
    """Serve until SIGTERM, Ctrl-C, or until `stop` is called, which `ready` is given and any thread may call."""
    asyncio.run(_serve(service, bound, ready))


async def _serve(service: Service, bound: socket.socket, ready: Callable[[Callable[[], None]], None] | None) -> None:
    site = Site(service)
    server = _Server(
        uvicorn.Config(
            site.asgi,
            http=cast(Any, service.heads.protocol),
            ws="websockets-sansio",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            ws_max_size=LARGEST_CONSOLE_MESSAGE if service.console else LARGEST_MESSAGE,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=LAST_WORDS_S,
            limit_concurrency=MOST_CONNECTIONS,
        )
    )
    loop = asyncio.get_running_loop()

    def stop() -> None:
        site.stop()
        server.should_exit = True

    def from_any_thread() -> None:
        loop.call_soon_threadsafe(stop)

    with _signals(loop, stop):
        if ready is not None:
            ready(from_any_thread)
        await server.serve(sockets=[bound])


class _Server(uvicorn.Server):
    """Its signals are ours: the exit code of a clean stop is 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def _signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        for number in numbers:
            loop.add_signal_handler(number, stop)
    except (RuntimeError, ValueError):  # not the main thread: whoever started it stops it
        yield
        return
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
