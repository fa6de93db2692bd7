"""Who may ask: the right Host, the right Origin, the right token, in that order, before anything else is looked at.

Before them stands the head itself, which has to be one that all servers read in the same way (head.py).

Host: a page of a stranger can make its own name point to this machine (DNS rebinding) and then ask as if from the same
origin. Its name still stands in Host, so only names that this server has are served: loopback, the address it is bound
to, plain IP addresses (which cannot be rebound), and those that are allowed.

Origin: a browser sends it with every WebSocket and every request across origins. One that is neither this server nor
allowed is refused. Programs send none.

Token: `Authorization: Bearer …`; for subscriptions also `?token=…`, because a browser's EventSource and WebSocket
cannot set headers. It is compared in constant time and taken out of the request, so that nothing behind this can show
it.

The console has a door of its own (console/door.py) behind the checks of Host and Origin; no other origin may enter it.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass, field
from urllib.parse import unquote_plus, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.errors import ServeError
from headrace.serve import problem
from headrace.serve.head import Heads

LONGEST_QUERY = 8 * 1024
LARGEST_HEAD = 32 * 1024
CONSOLE = "/console"
_SUBSCRIPTION = "/changes"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'"),
)
# The pages of the console are drawn by Vue, which compiles templates and sets styles; nothing comes from elsewhere.
_CONSOLE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        b"img-src 'self' data:; font-src 'self' data:; object-src 'none'; base-uri 'self'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
)


@dataclass(frozen=True)
class Rules:
    """What is let in; `origins` are whole origins such as `https://shop.example.com`."""

    token: str = field(repr=False)
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def serves(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = _name(host)
        named = {_name(urlsplit(origin).netloc) for origin in self.origins}
        return name in _LOOPBACK or name in self.hosts or name in named or _is_address(name)


class Guard:
    """Lets through what the rules allow, and answers everything else itself; `console` has the paths below /console."""

    def __init__(self, app: ASGIApp, rules: Rules, heads: Heads, console: ASGIApp | None = None) -> None:
        self._app = app
        self._rules = rules
        self._heads = heads
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        origin = _one(scope, b"origin")
        console = self._console if _is_console(scope["path"]) else None
        shared = origin if origin in self._rules.origins and console is None else None
        headers = (*_HEADERS, *_sharing(shared)) if console is None else _CONSOLE_HEADERS

        async def with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        try:
            self._heads.check(scope["headers"])
            self._check_place(scope, origin, own=console is not None)
            if console is not None:
                await console(scope, receive, with_headers)
                return
            if scope["type"] == "http" and scope["method"] == "OPTIONS" and shared is not None:
                await _allow(with_headers)
                return
            scope["query_string"] = self._check_token(scope)
        except ServeError as error:
            await _refuse(scope, receive, with_headers, error)
            return
        await self._app(scope, receive, with_headers)

    def _check_place(self, scope: Scope, origin: str | None, *, own: bool) -> None:
        """Whether size, Host and Origin are right; with `own` an origin that is allowed must be this host's too."""
        size = sum(len(name) + len(value) for name, value in scope["headers"])
        for what, found, most, status in (
            ("query", len(scope["query_string"]), LONGEST_QUERY, 414),
            ("head", size, LARGEST_HEAD, 431),
        ):
            if found > most:
                raise ServeError(
                    "HR-519",
                    f"The {what} of the request has more than {most:,} bytes.",
                    found=f"{found:,} bytes",
                    fix="ask for less at a time",
                    more={"status": status},
                )
        hosts = _all(scope, b"host")
        if len(hosts) != 1 or not self._rules.serves(hosts[0]):
            raise ServeError(
                "HR-511",
                "The request is for a host that this server does not serve.",
                found=_shown(hosts),
                fix="use the address that `headrace serve` printed, or start it with --allow-host NAME",
            )
        allowed = origin in self._rules.origins and (not own or urlsplit(origin or "").netloc == hosts[0])
        if origin is not None and not allowed and not _same(origin, hosts[0], scope):
            raise ServeError(
                "HR-512",
                "The request comes from a page of another origin.",
                found=origin[:200],
                fix="start the server with --allow-origin and that origin, if the page is yours",
            )

    def _check_token(self, scope: Scope) -> bytes:
        """The query without the token; ServeError when there is none, or another."""
        query: bytes = scope["query_string"]
        parts = [part for part in query.split(b"&") if part]
        kept = [part for part in parts if part.partition(b"=")[0] != b"token"]
        given: str | None = None
        header = _one(scope, b"authorization")
        if header is not None:
            scheme, _, rest = header.partition(" ")
            given = rest.strip() if scheme.lower() == "bearer" else None
        elif scope["path"].endswith(_SUBSCRIPTION) and len(parts) - len(kept) == 1:
            (part,) = (part for part in parts if part not in kept)
            given = unquote_plus(part.partition(b"=")[2].decode("latin-1"))
        if given is None or not hmac.compare_digest(given.encode(), self._rules.token.encode()):
            raise ServeError(
                "HR-510",
                "The token of the request is wrong." if given else "The request has no token.",
                found="another token" if given else "no `Authorization: Bearer …` header",
                fix='send it: curl -H "Authorization: Bearer $(cat .headrace/token)" …; it is in .headrace/token '
                "beside the app, or what HEADRACE_TOKEN says",
            )
        return b"&".join(kept)


def _is_console(path: str) -> bool:
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


def _same(origin: str, host: str, scope: Scope) -> bool:
    schemes = ("http", "ws") if scope["scheme"] in ("http", "ws") else ("https", "wss")
    split = urlsplit(origin)
    return split.scheme in schemes and split.netloc.lower() == host.lower()


def _name(host: str) -> str:
    """A Host header without its port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _all(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for header, value in scope["headers"] if header.lower() == name]


def _one(scope: Scope, name: bytes) -> str | None:
    """The header, where it stands exactly once; several are joined, and then fit nothing."""
    found = _all(scope, name)
    return ", ".join(found) if found else None


def _shown(hosts: list[str]) -> str:
    return ", ".join(hosts)[:200] if hosts else "no Host header"


def _sharing(origin: str | None) -> list[tuple[bytes, bytes]]:
    if origin is None:
        return []
    return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"origin")]


async def _allow(send: Send) -> None:
    """What a browser asks before it asks: it may read, with a token."""
    headers = [
        (b"access-control-allow-methods", b"GET"),
        (b"access-control-allow-headers", b"authorization, last-event-id"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, receive: Receive, send: Send, error: ServeError) -> None:
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": error.code})
        return
    await problem.answer(error)(scope, receive, send)
