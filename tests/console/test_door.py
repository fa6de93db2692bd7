"""Who may enter the console: one link once, the token, nobody else; and no page of another origin."""

from __future__ import annotations

import http.client
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, expect
from tests.console.conftest import Site
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
PATHS = ("/", "/lineage", "/node/clicks", "/_nicegui/3.0/static/vue.js", "/nothing")


def ask(site: Site, path: str, *, method: str = "GET", body: str | None = None, **headers: str) -> tuple[int, str]:
    split = urlsplit(site.url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"{split.path}{path}", body, given)
    answer = connection.getresponse()
    return answer.status, answer.read().decode("utf-8", "replace")


def cookie_of(context: BrowserContext) -> str:
    found = [one for one in context.cookies() if one.get("name", "").startswith("headrace_")]
    return "; ".join(f"{one.get('name')}={one.get('value')}" for one in found)


def test_without_the_cookie_there_is_only_the_door(site: Site):
    for path in PATHS:
        status, text = ask(site, path)
        assert status == 401
        assert "Sign in" in text
        assert "shop" not in text


@pytest.mark.parametrize("cookie", ["headrace_1=1.2", "99999999999.00", "", "\x01", "9" * 5000])
def test_a_made_up_cookie_is_none(site: Site, cookie: str):
    port = urlsplit(site.url).port
    assert ask(site, "/", Cookie=f"headrace_{port}={cookie}".replace("\x01", "%01"))[0] == 401


def test_the_link_opens_once(site: Site, signed_in: BrowserContext, browser: Browser):
    other = browser.new_context()
    page = other.new_page()
    page.goto(site.link)
    expect(page.get_by_text("This link was opened before")).to_be_visible()
    assert other.cookies() == []
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("not the token of this server")).to_be_visible()
    page.get_by_label("Token").fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="shop", level=1)).to_be_visible()
    (cookie,) = [one for one in other.cookies() if one.get("name") == f"headrace_{urlsplit(site.url).port}"]
    assert (cookie.get("httpOnly"), cookie.get("sameSite"), cookie.get("path")) == (True, "Strict", "/console")
    assert site.token not in str(cookie)
    other.close()


def test_the_key_is_gone_from_the_address(signed_in: BrowserContext, site: Site):
    page = signed_in.new_page()
    page.goto(site.link)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.url == f"{site.url}/"
    page.close()


def test_strangers_hosts_and_origins_are_refused(site: Site, signed_in: BrowserContext):
    cookie = cookie_of(signed_in)
    assert ask(site, "/", Cookie=cookie)[0] == 200
    assert ask(site, "/", Cookie=cookie, Host="evil.example.com")[0] == 403
    assert ask(site, "/", Cookie=cookie, Origin="https://evil.example.com")[0] == 403
    form = urlencode({"token": site.token})
    assert ask(site, "/enter", method="POST", body=form, Origin="http://127.0.0.1:1")[0] == 403


def test_a_websocket_of_a_stranger_is_refused(site: Site, signed_in: BrowserContext):
    address = f"{site.url.replace('http', 'ws')}{SOCKET}"
    own = f"http://{urlsplit(site.url).netloc}"
    cookie = {"Cookie": cookie_of(signed_in)}
    cases = (
        ("https://evil.example.com", cookie, 403),
        ("http://127.0.0.1:1", cookie, 403),
        (own, {}, 401),
        (None, cookie, 401),
    )
    for origin, headers, status in cases:
        with pytest.raises(InvalidStatus) as refused, connect(address, origin=origin, additional_headers=headers):  # pyright: ignore[reportArgumentType]
            pass
        assert refused.value.response.status_code == status, origin
    with connect(address, origin=own, additional_headers=cookie) as socket:  # pyright: ignore[reportArgumentType]
        assert "sid" in str(socket.recv())


def test_a_page_of_another_origin_cannot_open_a_websocket(browser: Browser, site: Site, signed_in: BrowserContext):
    """With the cookie in the same browser, from a page whose origin is another port of this machine."""
    page = signed_in.new_page()
    page.route("http://127.0.0.1:1/", lambda route: route.fulfill(body="<p>a stranger</p>", content_type="text/html"))
    page.goto("http://127.0.0.1:1/")
    outcome = page.evaluate(
        """(address) => new Promise((resolve) => {
          const socket = new WebSocket(address);
          socket.onopen = () => resolve('open'); socket.onerror = () => resolve('refused'); })""",
        f"{site.url.replace('http', 'ws')}{SOCKET}",
    )
    assert outcome == "refused"
    page.close()


def test_what_the_pages_need_comes_from_here(signed_in: BrowserContext, site: Site):
    page = signed_in.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site.url}/lineage")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.wait_for_timeout(500)
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {urlsplit(site.url).netloc}
    page.close()
