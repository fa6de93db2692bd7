from __future__ import annotations

from typing import Any

import pytest

from headrace.app import App
from headrace.errors import DeclarationError
from headrace.graph.description import as_json, mermaid, text
from headrace.graph.follow import Webhook, webhook
from headrace.graph.plan import plan


def made() -> tuple[App, Any]:
    app = App("shop")
    app.stream("orders", schema="id string")

    @app.stream
    def large(orders) -> Any: ...

    @app.view(key="id")
    def latest(large) -> Any: ...

    return app, large


def test_a_webhook_is_frozen_and_opens_nothing():
    found = webhook("https://example.com:8443/in?x=1", secret_env="SECRET", name="mail")
    assert found == Webhook("https://example.com:8443/in?x=1", "SECRET", False, "mail")


def test_a_followed_function_is_a_topic():
    app, large = made()
    assert [query.name for query in plan(app.graph())] == ["latest"]
    app.follow(large, webhook("https://example.com/"))
    assert [query.name for query in plan(app.graph())] == ["large", "latest"]


def test_an_input_can_be_followed_too():
    app, _ = made()
    app.follow(app.definitions[0], webhook("https://example.com/"))  # pyright: ignore[reportArgumentType]
    assert [follow.of for follow in app.graph().follows] == ["orders"]


def test_it_is_described():
    app, large = made()
    app.follow(large, webhook("https://example.com/in", secret_env="SECRET", name="mail"))
    graph = app.graph()
    assert "      followed by mail https://example.com/in, signed with SECRET\n" in text(graph)
    (follow,) = as_json(graph)["follows"]
    assert (follow["of"], follow["name"], follow["webhook"]) == ("large", "mail", "https://example.com/in")
    assert '  f_0>"mail"]\n' in mermaid(graph)
    assert "  n_large --> f_0\n" in mermaid(graph)


@pytest.mark.parametrize(
    ("url", "options", "what"),
    [
        ("example.com", {}, "does not begin with `https://`"),
        ("ftp://example.com/", {}, "does not begin with `https://`"),
        ("https://", {}, "does not begin with `https://`"),
        ("https://example.com/a b", {}, "without blanks"),
        ("https://example.com/\r\nX: y", {}, "without blanks"),
        (7, {}, "without blanks"),
        ("https://example.com:port/", {}, "cannot be read"),
        ("https://[::1/", {"allow_private": True}, "cannot be read"),
        ("https://me:secret@example.com/", {}, "a user or a password"),
        ("http://example.com/", {}, "plain http"),
        ("https://localhost/", {}, "public internet"),
        ("https://127.0.0.1/", {}, "public internet"),
        ("https://[::1]/", {}, "public internet"),
        ("https://10.0.0.1/", {}, "public internet"),
        ("https://example.com/", {"name": "a b"}, "name of a webhook"),
        ("https://example.com/", {"name": "postgres"}, "follower that every view has"),
        ("https://example.com/", {"secret_env": "the secret!"}, "not the secret itself"),
    ],
)
def test_a_webhook_that_cannot_be_called(url: Any, options: dict[str, Any], what: str):
    with pytest.raises(DeclarationError) as caught:
        webhook(url, **options)
    assert caught.value.code == "HR-045"
    assert what in caught.value.what
    assert "secret@" not in str(caught.value).replace('me:secret@example.com/", ', "")
    assert "the secret!" not in str(caught.value.found)


def test_private_addresses_may_be_allowed():
    assert webhook("http://127.0.0.1:8080/", allow_private=True).allow_private


@pytest.mark.parametrize(
    ("first", "second", "code"), [("large", None, "HR-043"), (None, "https://example.com", "HR-045")]
)
def test_arguments_of_another_kind(first: Any, second: Any, code: str):
    app, large = made()
    with pytest.raises(DeclarationError) as caught:
        app.follow(first or large, second or webhook("https://example.com/"))
    assert caught.value.code == code
    assert app.follows == ()
