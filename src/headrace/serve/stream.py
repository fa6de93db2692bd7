"""The events of a subscription on their way to a client, as server-sent events or over a WebSocket.

A client that reads nothing for `STALL_S` seconds is disconnected. When the server stops, each client gets a last event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from headrace.errors import HeadraceError, ServeError
from headrace.serve.event import Event, closed

STALL_S = 30.0
CHUNK_BYTES = 64 * 1024
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
]

Events = AsyncGenerator[Sequence[Event], None]


class EventStream:
    """An answer that goes on; `first` are the events that were there before it began."""

    def __init__(
        self, first: Sequence[Event], events: Events, stopping: asyncio.Event, ended: Callable[[], None]
    ) -> None:
        self._first = first
        self._events = events
        self._stopping = stopping
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def put(body: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": more})

        async def write(events: Sequence[Event]) -> None:
            size, part = 0, []
            for event in events:
                part.append(event.sse)
                size += len(event.sse)
                if size > CHUNK_BYTES:
                    await put(b"".join(part))
                    size, part = 0, []
            if part:
                await put(b"".join(part))

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        try:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await put(b": headrace\n\n")
            if await _pump(self._first, self._events, write, gone, self._stopping):
                await put(b"", more=False)
        finally:
            await self._events.aclose()
            self._ended()


async def converse(
    socket: WebSocket, first: Sequence[Event], events: Events, stopping: asyncio.Event, ended: Callable[[], None]
) -> None:
    """The same over a WebSocket; what the client says is not listened to."""

    async def write(some: Sequence[Event]) -> None:
        for event in some:
            await socket.send_text(event.message)

    async def gone() -> None:
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass

    try:
        await socket.accept()
        if await _pump(first, events, write, gone, stopping):
            await socket.close(1001)
    finally:
        await events.aclose()
        ended()


async def _pump(
    first: Sequence[Event],
    events: Events,
    write: Callable[[Sequence[Event]], Awaitable[None]],
    gone: Callable[[], Awaitable[None]],
    stopping: asyncio.Event,
) -> bool:
    """Write events until the client goes, or there are no more; whether the client is still there to be told."""

    async def all_of_them() -> None:
        await _bounded(write(first))
        async for some in events:
            await _bounded(write(some))

    tasks = [asyncio.ensure_future(one) for one in (all_of_them(), gone(), stopping.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await events.aclose()
    if tasks[1] in done or isinstance(results[0], TimeoutError | OSError):
        return False
    error = results[0] if tasks[0] in done else _stopped()
    if not isinstance(error, HeadraceError):
        if isinstance(error, BaseException):
            raise error
        return True
    try:
        await _bounded(write([closed(error)]))
    except (TimeoutError, OSError):
        return False
    return True


async def _bounded(writing: Awaitable[None]) -> None:
    async with asyncio.timeout(STALL_S):
        await writing


def _stopped() -> ServeError:
    return ServeError("HR-518", "The server is stopping.", found="a request to stop", fix="connect again in a moment")
