"""The head of a request: it comes whole within a time limit, and says in one way how long the body is.

A client that opens connections and sends their heads a byte at a time, or not at all, would use up all that the server
has. So a connection that has not sent a whole head within `head_timeout` of the settings, counted from its first moment
or from the first byte of the next request on it, is answered with 408 and closed. The time that a connection may rest
between two requests is another one (uvicorn's, 5 seconds).

A head with both `Content-Length` and `Transfer-Encoding` may be read in one way by one server and in another way by the
next, so that one takes for a body what the other takes for a request. It is refused (guard.py) and the connection
closed, as RFC 9112 (6.1) says.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headrace import duration
from headrace.errors import ServeError
from headrace.settings import Settings

TIMEOUT_S = 10.0
_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\n\r\n%s"
)


class Heads:
    """The heads of one server; `late` and `ambiguous` count those that were refused."""

    def __init__(self, seconds: float = TIMEOUT_S) -> None:
        self.seconds = seconds
        self.late = 0
        self.ambiguous = 0

    @classmethod
    def of(cls, settings: Settings) -> Heads:
        """As the settings want them."""
        return cls(duration.parse(settings.head_timeout) / 1000)

    def protocol(self, **given: Any) -> asyncio.Protocol:
        """What uvicorn makes for each connection."""
        return _Bounded(self, **given)

    def check(self, headers: list[tuple[bytes, bytes]]) -> None:
        """ServeError when the length of the body is said in two ways."""
        lengths = [name for name, _ in headers if name.lower() in (b"content-length", b"transfer-encoding")]
        if len(lengths) < 2:
            return
        self.ambiguous += 1
        raise ServeError(
            "HR-521",
            "The request says in two ways how long its body is.",
            found=" and ".join(name.decode("latin-1").lower() for name in lengths)[:200],
            fix="send Content-Length or Transfer-Encoding, not both; look at what a proxy in between adds",
        )


class _Bounded(H11Protocol):
    def __init__(self, heads: Heads, **given: Any) -> None:
        super().__init__(**given)
        self._heads = heads
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._have()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waiting is None and self.conn.their_state is h11.IDLE:
            self._wait()
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._have()

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self._heads.seconds, self._over)

    def _have(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _over(self) -> None:
        self._waiting = None
        self._heads.late += 1
        said = f"HR-521: no whole head of a request within {self._heads.seconds:g} seconds\n".encode()
        self.transport.write(_TOO_LATE % (len(said), said))
        self.transport.close()
