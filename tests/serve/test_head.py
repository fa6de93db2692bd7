"""The head of a request, over raw sockets: slow ones are not waited for, ambiguous ones are refused. Needs no part."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.errors import PartError
from headrace.log.connection import Connection
from headrace.serve import server
from headrace.serve.guard import Rules
from headrace.serve.head import Heads
from headrace.serve.site import Service
from headrace.settings import Settings

SECONDS = 0.4
START = b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t\r\n"


@pytest.fixture
def heads() -> Heads:
    return Heads(SECONDS)


@pytest.fixture
def place(heads: Heads) -> Iterator[tuple[str, int]]:
    bound = server.bind("127.0.0.1", 0)
    stops: list[Callable[[], None]] = []
    begun = threading.Event()

    def ready(stop: Callable[[], None]) -> None:
        stops.append(stop)
        begun.set()

    service = Service("shop", Connection("127.0.0.1:1"), None, Rules("t"), heads=heads)
    thread = threading.Thread(target=server.serve, args=(service, bound, ready), daemon=True)
    address = bound.getsockname()
    thread.start()
    assert begun.wait(60)
    yield address
    stops[0]()
    thread.join(60)
    assert not thread.is_alive()


def said(client: socket.socket) -> bytes:
    """All that the server says until it closes the connection."""
    client.settimeout(60)
    found = b""
    try:
        while more := client.recv(65536):
            found += more
    except ConnectionResetError:  # it closed while we were still sending
        pass
    return found


def status(client: socket.socket) -> int:
    """The status of one whole answer."""
    answer = http.client.HTTPResponse(client)
    answer.begin()
    answer.read()
    return answer.status


def drip(client: socket.socket, head: bytes) -> None:
    """Send a byte now and then, until nobody takes them."""
    try:
        for one in range(len(head) * 100):
            client.send(head[one % len(head) :][:1])
            time.sleep(SECONDS / 10)
    except OSError:
        return


@pytest.mark.parametrize("first", [b"", b"GET /", START], ids=["nothing", "a piece", "all but the end"])
def test_a_head_that_does_not_come_is_not_waited_for(place: tuple[str, int], heads: Heads, first: bytes):
    with closing(socket.create_connection(place)) as client:
        client.sendall(first)
        answer = said(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"HR-521" in answer
    assert heads.late == 1


def test_a_head_that_drips_is_not_waited_for(place: tuple[str, int], heads: Heads):
    with closing(socket.create_connection(place)) as client:
        client.sendall(START)
        dripping = threading.Thread(target=drip, args=(client, b"x-more: y\r\n"), daemon=True)
        dripping.start()
        said(client)
        dripping.join(60)
        assert not dripping.is_alive()
    assert heads.late == 1


def test_the_second_head_of_a_connection_has_the_same_bound(place: tuple[str, int], heads: Heads):
    with closing(socket.create_connection(place)) as client:
        client.sendall(START + b"\r\n")
        assert status(client) == 404
        client.sendall(START)
        answer = said(client)
    assert b" 408 " in answer
    assert heads.late == 1


def test_whole_heads_are_served(place: tuple[str, int], heads: Heads):
    """Also the second one, and after the bound of the first one has passed."""
    with closing(socket.create_connection(place)) as client:
        for _ in range(2):
            client.sendall(START + b"\r\n")
            assert status(client) == 404
            time.sleep(2 * SECONDS)
    assert (heads.late, heads.ambiguous) == (0, 0)


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"transfer-encoding: CHUNKED\r\ncontent-length: 0\r\n",
    ],
)
@pytest.mark.parametrize("path", [b"/views", b"/console/"])
def test_two_lengths_of_a_body_are_refused(place: tuple[str, int], heads: Heads, lengths: bytes, path: bytes):
    hidden = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t\r\n\r\n"
    with closing(socket.create_connection(place)) as client:
        client.sendall(START.replace(b"GET /nothing", b"POST " + path) + lengths + b"\r\n0\r\n\r\n" + hidden)
        answer = said(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"HR-521" in answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what was smuggled in was answered"
    assert heads.ambiguous == 1


@pytest.mark.parametrize("length", [b"Content-Length: 0\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"])
def test_one_length_is_taken(place: tuple[str, int], length: bytes):
    with closing(socket.create_connection(place)) as client:
        client.sendall(START + length)
        assert status(client) == 404


def test_the_bound_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert Heads.of(Settings.load(tmp_path)).seconds == 10
    monkeypatch.setenv("HEADRACE_HEAD_TIMEOUT", "2 seconds")
    assert Heads.of(Settings.load(tmp_path)).seconds == 2
    monkeypatch.setenv("HEADRACE_HEAD_TIMEOUT", "soon")
    with pytest.raises(PartError, match="head_timeout"):
        Settings.load(tmp_path)
