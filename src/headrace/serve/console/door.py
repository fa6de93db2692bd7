"""Who may enter the console: one with the link that was printed, one with the token, or one whom a proxy has let in.

The link holds a key that opens once. Whoever opens it gets a cookie, which is an expiry time and its signature with the
server's token: it holds also after a restart, and no longer when the token is another. A link that was used, or a
browser without a cookie, is shown a page that takes the token instead. With `proxy_header` in the settings a proxy in
front of this server does all that: who is signed in stands in that header, and nobody enters without it.

The cookie is for this origin only and no script can read it. A browser sends it also with what pages of other ports of
this machine ask for, so a request that a page makes must come from this origin (the guard looks at Origin), and a
WebSocket must say where it comes from.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import secrets
import time
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import ServeError
from headrace.serve import problem
from headrace.serve.guard import CONSOLE as PATH

ENTER = f"{PATH}/enter"
KEPT_S = 30 * 24 * 3600
LARGEST_FORM = 4 * 1024
_SLOW_S = 0.5
_MARK = b"headrace console until "


class Keys:
    """Keys that open once; a new one for each link that is printed."""

    def __init__(self) -> None:
        self._unused: set[str] = set()

    def make(self) -> str:
        """A key that was not there before."""
        key = secrets.token_urlsafe(24)
        self._unused.add(key)
        return key

    def take(self, given: str) -> bool:
        """Whether the key opens; it does so once."""
        found = next((key for key in self._unused if hmac.compare_digest(key.encode(), given.encode())), None)
        self._unused.discard(found or "")
        return found is not None


@dataclass(frozen=True)
class Door:
    """Stands before the console; `cookie` is the name of its cookie, which all ports of a host share."""

    inside: ASGIApp
    keys: Keys
    token: str = field(repr=False)
    cookie: str
    proxy_header: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        if self.proxy_header is not None:
            user = connection.headers.get(self.proxy_header, "").strip()
            await (self._pass(scope, user) if user else _Refusal(_no_user(self.proxy_header)))(scope, receive, send)
            return
        if scope["type"] == "websocket":
            known = self._is_known(connection) and "origin" in connection.headers
            await (self.inside if known else _Refusal(_not_let_in()))(scope, receive, send)
            return
        answer = await self._answer(Request(scope, receive))
        await (self._pass(scope, "token") if answer is None else answer)(scope, receive, send)

    def _pass(self, scope: Scope, user: str) -> ASGIApp:
        scope.setdefault("state", {})["user"] = user[:100]
        return self.inside

    async def _answer(self, request: Request) -> Response | None:
        """What is answered at the door; None for one who may go in."""
        if request.url.path == ENTER and request.method == "POST":
            given = await _form_token(request)
            if given is not None and hmac.compare_digest(given.encode(), self.token.encode()):
                return self._welcome(RedirectResponse(f"{PATH}/", 303), request)
            await asyncio.sleep(_SLOW_S)
            return _sign_in("This is not the token of this server.", 401)
        key = request.query_params.get("key")
        if key is not None and self.keys.take(key):
            return self._welcome(HTMLResponse(_OPENING), request)
        if self._is_known(request):
            return RedirectResponse(f"{PATH}/", 303) if key is not None else None
        if key is not None:
            return _sign_in("This link was opened before, or is of an earlier start.", 401)
        return _sign_in(None, 401)

    def _welcome(self, answer: Response, request: Request) -> Response:
        until = str(int(time.time()) + KEPT_S)
        answer.set_cookie(
            self.cookie,
            f"{until}.{self._signature(until)}",
            max_age=KEPT_S,
            path=PATH,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _is_known(self, connection: HTTPConnection) -> bool:
        try:
            cookies = SimpleCookie(connection.headers.get("cookie", ""))
        except CookieError:
            return False
        until, _, signature = cookies[self.cookie].value.partition(".") if self.cookie in cookies else ("", "", "")
        right = hmac.compare_digest(signature.encode(), self._signature(until).encode())
        return right and until.isdecimal() and int(until) > time.time()

    def _signature(self, until: str) -> str:
        return hmac.new(self.token.encode(), _MARK + until.encode(), hashlib.sha256).hexdigest()


class _Refusal:
    """An answer that keeps somebody out, over HTTP and for a WebSocket."""

    def __init__(self, error: ServeError) -> None:
        self._error = error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008, "reason": self._error.code})
            return
        await problem.answer(self._error)(scope, receive, send)


def _not_let_in() -> ServeError:
    return ServeError(
        "HR-540",
        "The console is for those who have its link or its token.",
        found="no cookie of this console, or no Origin",
        fix="open the link that the command printed, or sign in with the token in .headrace/token",
    )


def _no_user(header: str) -> ServeError:
    return ServeError(
        "HR-542",
        "The proxy in front of the console did not say who is signed in.",
        found=f"no `{header}` header",
        fix="open the console through the proxy, and let the proxy set that header",
    )


async def _form_token(request: Request) -> str | None:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM:
            return None
    return parse_qs(body.decode("utf-8", "replace")).get("token", [None])[0]


def _sign_in(reason: str | None, status: int) -> HTMLResponse:
    told = f'<p class="wrong" role="alert">{html.escape(reason)}</p>' if reason else ""
    return HTMLResponse(_SIGN_IN.replace("<!--reason-->", told), status)


_STYLE = """
:root{color-scheme:light dark}
body{margin:0;min-height:100vh;display:grid;place-items:center;font:16px/1.5 system-ui,sans-serif;
background:light-dark(#f4f6f8,#0b1218);color:light-dark(#12202b,#e4ebf1)}
main{width:min(26rem,90vw);padding:2rem;border-radius:12px;background:light-dark(#fff,#131d26);
box-shadow:0 1px 3px #0002,0 8px 24px #0001}
h1{font-size:1.3rem;margin:0 0 .5rem}p{margin:.5rem 0;color:light-dark(#51626f,#93a4b2)}
code{font-size:.9em;padding:.1em .3em;border-radius:4px;background:light-dark(#eef2f5,#1d2a35)}
label{display:block;margin:1.2rem 0 .3rem;font-weight:600}
input{box-sizing:border-box;width:100%;padding:.6rem;font:inherit;border-radius:8px;
border:1px solid light-dark(#c8d2da,#33444f);background:transparent;color:inherit}
button{margin-top:1rem;width:100%;padding:.65rem;border:0;border-radius:8px;font:inherit;font-weight:600;
background:#0b7285;color:#fff;cursor:pointer}
.wrong{color:light-dark(#b42318,#ff8a80);font-weight:600}
"""
_OPENING = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Headrace</title>'
    f'<meta http-equiv="refresh" content="0;url={PATH}/"><style>{_STYLE}</style>'
    "<main>Opening the console …</main></html>"
)
_SIGN_IN = f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Headrace: sign in</title><style>{_STYLE}</style>
<main><h1>Headrace console</h1><!--reason-->
<p>Open the link that <code>headrace dev</code>, <code>headrace console</code> or <code>headrace serve</code> printed,
or sign in with the token, which is in <code>.headrace/token</code> beside the app.</p>
<form method="post" action="{ENTER}"><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" autofocus required>
<button>Sign in</button></form></main></html>
"""
