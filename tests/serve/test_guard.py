"""Who may ask: every request with a wrong token, Host or Origin is refused before anything is looked at."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tests.serve.conftest import TOKEN, MakeStage, Serve
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from headrace.serve import token
from headrace.settings import Settings

ORIGIN = "https://shop.example.com"


WRONG: list[tuple[dict[str, str | None], int, str]] = [
    ({"Authorization": None}, 401, "HR-510"),
    ({"Authorization": "Bearer wrong"}, 401, "HR-510"),
    ({"Authorization": "Bearer "}, 401, "HR-510"),
    ({"Authorization": f"Basic {TOKEN}"}, 401, "HR-510"),
    ({"Authorization": f"Bearer {TOKEN}x"}, 401, "HR-510"),
    ({"Host": "evil.example.com"}, 403, "HR-511"),
    ({"Host": "localhost.evil.example.com:80"}, 403, "HR-511"),
    ({"Host": ""}, 403, "HR-511"),
    ({"Origin": "https://evil.example.com"}, 403, "HR-512"),
    ({"Origin": "null"}, 403, "HR-512"),
    ({"Origin": f"{ORIGIN}.evil.example.com"}, 403, "HR-512"),
]


def test_the_wrong_ones_are_refused(serve: Serve):
    site = serve(origins=frozenset({ORIGIN}))
    for headers, status, code in WRONG:
        for path in ("/views", "/views/pages/changes", "/openapi.json", "/nothing"):
            answer = site.get(path, **headers)  # pyright: ignore[reportArgumentType]
            assert (answer.status, answer.json["code"]) == (status, code), (headers, path)
            assert TOKEN not in answer.text


def test_the_right_ones_are_let_in(serve: Serve):
    site = serve(origins=frozenset({ORIGIN}), hosts=frozenset({"views.example.com"}))
    for host in ("localhost", "127.0.0.1:1234", "[::1]:80", "views.example.com", "VIEWS.example.com:443"):
        assert site.get("/views", Host=host).status == 200
    assert site.get("/views", Host="127.0.0.1:80", Origin="http://127.0.0.1:80").status == 200
    shared = site.get("/views", Origin=ORIGIN)
    assert (shared.status, shared.headers["access-control-allow-origin"]) == (200, ORIGIN)
    asked = site.get("/views", method="OPTIONS", Origin=ORIGIN, Authorization=None)
    assert (asked.status, asked.headers["access-control-allow-headers"]) == (204, "authorization, last-event-id")
    headers = site.get("/views").headers
    assert "access-control-allow-origin" not in headers
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_a_token_in_the_address_is_for_subscriptions_only(serve: Serve, make_stage: MakeStage):
    make_stage().apply()
    site = serve()
    assert site.get("/views", {"token": TOKEN}, Authorization=None).status == 401
    assert site.get("/views/pages/changes", {"token": "wrong"}, Authorization=None).status == 401
    # The token is gone before the rest of the query is read, so what is wrong is the column.
    answer = site.get("/views/pages/changes", {"token": TOKEN, "nothing": 1}, Authorization=None)
    assert (answer.status, answer.json["code"]) == (400, "HR-503")


def test_a_websocket_of_a_stranger_is_refused(serve: Serve, make_stage: MakeStage, capfd: pytest.CaptureFixture[str]):
    make_stage().apply()
    address = serve(origins=frozenset({ORIGIN})).url.replace("http", "ws") + "/views/pages/changes"
    good = {"Authorization": f"Bearer {TOKEN}"}
    for origin, headers, status in (
        ("https://evil.example.com", good, 403),
        (ORIGIN, {}, 401),
        (ORIGIN, {"Authorization": "Bearer wrong"}, 401),
    ):
        with pytest.raises(InvalidStatus) as refused, connect(address, origin=origin, additional_headers=headers):  # pyright: ignore[reportArgumentType]
            pass
        assert refused.value.response.status_code == status
    with pytest.raises(InvalidStatus) as refused, connect(f"{address}?nothing=1", additional_headers=good):
        pass
    assert refused.value.response.status_code == 400
    with connect(f"{address}?token={TOKEN}", origin=ORIGIN) as socket:  # pyright: ignore[reportArgumentType]
        assert '"ready"' in str(socket.recv(60))
    printed = capfd.readouterr()
    assert TOKEN not in printed.out + printed.err


def test_sizes_are_bounded(serve: Serve):
    site = serve()
    assert site.get("/views", {"x": "y" * 9000}).json["code"] == "HR-519"
    assert site.get("/views", X_Large="y" * 100_000).status in (400, 431)


def test_the_token_is_made_once_and_is_its_owners(tmp_path: Path):
    settings = Settings.load(tmp_path)
    made = token.obtain(settings)
    file = token.place(settings)
    assert len(made) > 30
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token.obtain(settings) == made
    file.chmod(0o644)
    assert token.obtain(settings) == made
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]
    given = Settings.load(tmp_path, token="of the settings")
    assert token.obtain(given) == "of the settings"
    assert "of the settings" not in repr(given)
