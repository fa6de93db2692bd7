"""A plain client of the API: requests, and server-sent events read byte by byte as the standard says."""

from __future__ import annotations

import asyncio
import http.client
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Site:
    """A running server."""

    url: str
    token: str

    def get(self, path: str, query: object = (), *, method: str = "GET", **headers: str | None) -> Answer:
        """One request; `query` is pairs or a mapping, `headers` win over those that a good client sends."""
        split = urlsplit(self.url)
        given = {"Authorization": f"Bearer {self.token}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=60)
        try:
            connection.putrequest(method, self._path(path, query), skip_host="Host" in given)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read().decode())
        finally:
            connection.close()

    def rows(self, view: str, **query: object) -> list[dict[str, Any]]:
        answer = self.get(f"/views/{view}", query)
        assert answer.status == 200, answer.text
        return answer.json["rows"]

    async def changes(self, view: str, query: object = (), *, last: str | None = None, buffer: int = 0) -> Sse:
        """Subscribe; `last` is the id to resume from."""
        headers = {"Authorization": f"Bearer {self.token}"} | ({"Last-Event-ID": last} if last else {})
        split = urlsplit(self.url)
        return await Sse.open(
            split.hostname or "", split.port or 0, self._path(f"/views/{view}/changes", query), headers, buffer
        )

    @staticmethod
    def _path(path: str, query: Any) -> str:
        return f"{path}?{urlencode(query)}" if query else path


@dataclass
class Sse:
    """A stream of events; `id` is the last one that was read, as a browser keeps it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    id: str | None = None
    _chunk: bytes = b""
    comments: list[str] = field(default_factory=list)

    @classmethod
    async def open(cls, host: str, port: int, path: str, headers: dict[str, str], buffer: int = 0) -> Sse:
        reader, writer = await asyncio.open_connection(host, port, limit=buffer or 2**20)
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}:{port}", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if " 200 " not in head.splitlines()[0]:
            body = await reader.read(100_000)
            writer.close()
            raise AssertionError(head + body.decode())
        assert "text/event-stream" in head
        return cls(reader, writer)

    async def next(self) -> tuple[str, Any]:
        """The next event: its name and its data; IncompleteReadError when the server has ended."""
        while True:
            name, data = await self.block()
            if data is not None:
                return name, data

    async def block(self) -> tuple[str, Any]:
        """The lines up to the next empty one; a comment or an id alone has no data."""
        name, data = "message", []
        while line := (await self._line()).decode():
            field, _, value = line.partition(": ")
            if line.startswith(":"):
                self.comments.append(line)
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif field == "id":
                self.id = value
        return name, json.loads("\n".join(data)) if data else None

    async def until(self, name: str) -> list[tuple[str, Any]]:
        """The events up to the first of that name, with it."""
        found = []
        while not found or found[-1][0] != name:
            found.append(await self.next())
        return found

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    async def _line(self) -> bytes:
        while b"\n" not in self._chunk:
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            if size == 0:
                raise asyncio.IncompleteReadError(b"", None)
            self._chunk += (await self.reader.readexactly(size + 2))[:-2]
        line, _, self._chunk = self._chunk.partition(b"\n")
        return line


def applied(held: dict[str, Any], event: tuple[str, Any]) -> None:
    """What a client holds after an event."""
    name, data = event
    if name == "reset":
        held.clear()
    elif name == "snapshot" or (name == "change" and data["op"] == "upsert"):
        held[json.dumps(data["key"])] = data["row"]
    elif name == "change":
        held.pop(json.dumps(data["key"]), None)
