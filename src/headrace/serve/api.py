"""The routes of the views.

    GET /views                     the views, their columns and how far they are
    GET /views/<name>              rows: filter, order, limit, after
    GET /views/<name>/<key>        one row
    GET /views/<name>/changes      snapshot and changes, as server-sent events or over a WebSocket
    GET /openapi.json              all of this for machines

Everything is read only. Each answer about a view says how far it is, in `position`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from headrace.errors import HeadraceError, ServeError
from headrace.log.connection import Connection
from headrace.serve import filter as filters
from headrace.serve import openapi, page, passage, problem, stream
from headrace.serve.broker import Broker
from headrace.serve.event import Event
from headrace.serve.feed import Feed, Feeds
from headrace.serve.positions import Positions
from headrace.serve.subscription import Subscription
from headrace.serve.view import REFRESH_S, View, Views
from headrace.serve.view_table import Held, OtherVersion, ViewTable

MOST_SUBSCRIBERS = 1000
MOST_VERSIONS = 5
MOST_FIELDS = 200
CHANGES = "changes"
_LIST = ("order", "limit", "after", "at_least", "wait")
_ROW = ("at_least", "wait")
_CHANGES = ("from", "at_least", "wait")


Answer = TypeVar("Answer")


class Api:
    """The API of one app's views: `routes` for a server that is `opened`, and `stop`, which disconnects all
    subscribers."""

    def __init__(self, app: str, connection: Connection, postgres_url: str) -> None:
        self._app = app
        self._broker = Broker(connection)
        self._table = ViewTable(postgres_url)
        self._feeds = Feeds(self._broker)
        self._views = Views(connection, app, self._feeds.moved)
        self._passage = passage.Passage(self._broker, self._table)
        self._stopping = asyncio.Event()
        self._subscribers = 0
        self.routes = [
            Route("/views", self._list, methods=["GET"]),
            WebSocketRoute("/views/{name}/changes", self._changes_socket),
            Route("/views/{rest:path}", self._read, methods=["GET"]),
            Route("/openapi.json", self._describe, methods=["GET"]),
        ]

    def stop(self) -> None:
        """Disconnect all subscribers, each with the reason."""
        self._stopping.set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """With its connections open."""
        async with self._table:
            looks = (self._views.watch(), self._feeds.watch(), self._watch_tables())
            watching = [asyncio.create_task(one) for one in looks]
            try:
                yield
            finally:
                for one in watching:
                    one.cancel()
                await self._feeds.close()

    async def _watch_tables(self) -> None:
        """Disconnect, for ever, subscribers of a version that its table no longer holds."""
        while True:
            await asyncio.sleep(REFRESH_S)
            for view in self._feeds.views:
                try:
                    await self._table.held(view)
                except OtherVersion:
                    self._feeds.moved(view)
                except ServeError:
                    continue

    # Reads

    async def _list(self, request: Request) -> Response:
        told = [await self._as_held(view.name, self._description) for view in await self._views.all()]
        return JSONResponse({"app": self._app, "views": told})

    async def _describe(self, request: Request) -> Response:
        return JSONResponse(openapi.describe(self._app, await self._views.all()))

    async def _read(self, request: Request) -> Any:
        name, *rest = _segments(request)
        if not rest:
            return await self._as_held(name, lambda view: self._rows(request, view))
        if rest == [CHANGES] and request.method == "GET":
            return await self._as_held(name, lambda view: self._changes(request, view))
        return await self._as_held(name, lambda view: self._row(request, view, rest))

    async def _as_held(self, name: str, read: Callable[[View], Awaitable[Answer]]) -> Answer:
        """Read a view in the version that its table holds; mostly that is the current one."""
        view, tries = await self._views.find(name), MOST_VERSIONS
        while True:
            try:
                return await read(view)
            except OtherVersion as other:
                tries -= 1
                if not tries:
                    raise _switching(view, other) from None
                view = await self._views.version(name, other.topic)

    async def _description(self, view: View) -> dict[str, Any]:
        return _description(view, await self._table.held(view))

    async def _rows(self, request: Request, view: View) -> Response:
        parameters, others = _query(request, _LIST)
        chosen = filters.parse(view.columns, others, _LIST)
        asked = page.parse(view.columns, view.key, *(parameters.get(one) for one in ("order", "limit", "after")))
        await self._passed(view, parameters)
        rows, following, held = await self._table.page(view, chosen, asked)
        head = f'{{"rows":[{",".join(rows)}],"next":{json.dumps(following)}'
        return _json(f'{head},"position":"{await self._position(view, held)}"}}')

    async def _row(self, request: Request, view: View, segments: Sequence[str]) -> Response:
        parameters, others = _query(request, _ROW)
        if others:
            raise filters.unknown_column((), others[0][0], _ROW)
        values = _key(view, segments)
        await self._passed(view, parameters)
        row, held = await self._table.row(view, values)
        if row is None:
            told = ", ".join(f"{column.name}={column.as_json(v)}" for column, v in zip(view.key, values, strict=True))
            raise ServeError(
                "HR-502",
                f"The view `{view.name}` has no row with this key.",
                found=told[:500],
                fix="the row may not have come yet (at_least= waits for a write), or it was deleted",
            )
        return _json(f'{{"row":{row},"position":"{await self._position(view, held)}"}}')

    async def _passed(self, view: View, parameters: Mapping[str, str]) -> None:
        seconds = passage.seconds(parameters.get("wait"))
        if "at_least" in parameters:
            await self._passage.wait(view, passage.parse(parameters["at_least"]), seconds)

    async def _position(self, view: View, held: Held) -> Positions:
        facts = await self._broker.facts(view.topic)
        return Positions.of(facts.digest, held.at, {i: held.offsets.get(i, 0) for i in range(facts.partitions)})

    # Subscriptions

    async def _changes(self, request: Request, view: View) -> Any:
        first, events = await self._subscribed(request, view)
        return stream.EventStream(first, events, self._stopping, self._left)

    async def _changes_socket(self, socket: WebSocket) -> None:
        try:
            name = _segments(socket)[0]
            first, events = await self._as_held(name, lambda view: self._subscribed(socket, view))
        except HeadraceError as error:
            await socket.send_denial_response(problem.answer(error))
            return
        await stream.converse(socket, first, events, self._stopping, self._left)

    async def _subscribed(self, request: HTTPConnection, view: View) -> tuple[Sequence[Event], stream.Events]:
        """The first events, so that what is wrong is known before anything is answered, and those that follow."""
        parameters, others = _query(request, _CHANGES)
        chosen = filters.parse(view.columns, others, _CHANGES)
        last = request.headers.get("last-event-id") or parameters.get("from")
        given = Positions.parse(last) if last else None
        if self._subscribers >= MOST_SUBSCRIBERS:
            raise ServeError(
                "HR-515",
                f"There are {MOST_SUBSCRIBERS:,} subscribers already.",
                found=f"{self._subscribers:,} subscribers",
                fix="try again later, or start another server: they share nothing",
            )
        self._subscribers += 1
        try:
            await self._passed(view, parameters)
            await self._table.held(view)
            feed: Feed = await self._feeds.of(view)
            events = Subscription(feed, self._table, chosen, given).events()
            return await anext(events), events
        except BaseException:
            self._left()
            raise

    def _left(self) -> None:
        self._subscribers -= 1


def _description(view: View, held: Held) -> dict[str, Any]:
    return {
        "name": view.name,
        "key": [column.name for column in view.key],
        "columns": [{"name": c.name, "type": c.type, "nullable": c.nullable} for c in view.columns],
        "schema": view.entry.schema,
        "topic": view.topic,
        "version": view.entry.version,
        "positions": [
            {"partition": partition, "next_offset": offset} for partition, offset in sorted(held.offsets.items())
        ],
    }


def _switching(view: View, other: OtherVersion) -> ServeError:
    return ServeError(
        "HR-520",
        f"The view `{view.name}` changes its version again and again.",
        found=f"rows of the topics {view.topic} and {other.topic}",
        fix="try again",
    )


def _segments(request: HTTPConnection) -> list[str]:
    """The parts of the path behind /views/, each decoded by itself: a key may hold a slash, as %2F."""
    raw: bytes = request.scope["raw_path"]
    parts = raw.removeprefix(b"/views/").split(b"/")
    try:
        return [unquote_to_bytes(part).decode() for part in parts]
    except UnicodeDecodeError:
        raise _not_unicode(raw) from None


def _key(view: View, segments: Sequence[str]) -> list[Any]:
    """The values of the key columns: as segments in their order, or as one JSON object."""
    found = _object(view, segments[0]) if len(segments) == 1 else None
    texts = found or list(segments)
    if len(view.key) == 1 and found is None:
        texts = ["/".join(segments)]
    if len(texts) != len(view.key):
        shape = "/".join(f"<{column.name}>" for column in view.key)
        raise ServeError(
            "HR-506",
            f"The key of the view `{view.name}` has {len(view.key)} columns.",
            found=f"{len(texts)} values",
            fix=f"write /views/{view.name}/{shape}, with / in a value as %2F; or the key as a JSON object",
        )
    return [filters.value(column, text) for column, text in zip(view.key, texts, strict=True)]


def _object(view: View, text: str) -> list[str] | None:
    """The values in a JSON object of exactly the key columns, as texts."""
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.keys() != {column.name for column in view.key}:
        return None
    pairs = [(column, found[column.name]) for column in view.key]
    if any(
        not isinstance(value, str) and (column.type == "string" or not _is_scalar(value)) for column, value in pairs
    ):
        return None
    return [json.dumps(value) if isinstance(value, bool) else str(value) for _, value in pairs]


def _is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | Decimal)


def _query(request: HTTPConnection, parameters: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The parameters that stand in the query, and all that is none."""
    raw: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(
            raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS, strict_parsing=False
        )
    except UnicodeDecodeError:
        raise _not_unicode(raw) from None
    except ValueError:
        raise ServeError(
            "HR-505",
            f"The query has more than {MOST_FIELDS} fields.",
            found=f"{raw.count(b'&') + 1} fields",
            fix="ask for less at a time",
        ) from None
    given: dict[str, str] = {}
    for name, value in pairs:
        if name in parameters:
            if name in given:
                raise ServeError("HR-505", f"`{name}` stands twice.", found=f"{name}={value[:200]}", fix="give it once")
            given[name] = value
    return given, [(name, value) for name, value in pairs if name not in parameters]


def _not_unicode(raw: bytes) -> ServeError:
    return ServeError(
        "HR-505",
        "The address is not UTF-8 behind its percent signs.",
        found=raw.decode("ascii", "backslashreplace")[:200],
        fix="encode text as UTF-8 and then with percent signs, as every URL library does",
    )


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
