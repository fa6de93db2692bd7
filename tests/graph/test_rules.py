"""Each rule finds its breach, says nothing about a sound graph, and all of them speak together."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.app import App
from headrace.errors import DeclarationErrors
from headrace.graph import rules
from headrace.graph.follow import webhook
from headrace.graph.graph import Graph


def codes(app: App) -> list[str]:
    return [error.code for rule in rules.RULES for error in rule(Graph.of(app))]


@pytest.fixture
def app() -> App:
    app = App("shop")
    app.stream("clicks", schema="id string, at timestamp", event_time="at", delay="5 seconds")
    app.table("users", schema="id string", key="id")

    @app.view(key="id")
    def latest(clicks, users) -> Any: ...

    return app


def test_a_sound_graph_breaks_no_rule(app: App):
    assert codes(app) == []
    rules.validate(Graph.of(app))


def test_an_input_that_nobody_reads_is_no_error(app: App):
    app.stream("unread", schema="id string")
    assert codes(app) == []


def test_every_unknown_input_is_reported(app: App):
    @app.stream
    def joined(click, elsewhere) -> Any: ...

    first, second = rules.known_input(Graph.of(app))
    assert "did you mean `clicks`?" in first.fix
    assert second.fix == "rename the parameter to one of `clicks`, `users` and `latest`, or declare `elsewhere`"


def test_a_longer_cycle_is_drawn_once_and_names_every_step(app: App):
    @app.stream
    def a(c, clicks) -> Any: ...
    @app.stream
    def b(a) -> Any: ...
    @app.stream
    def c(b) -> Any: ...
    @app.stream
    def beside(c) -> Any: ...

    (error,) = rules.no_cycle(Graph.of(app))
    assert error.found == "`a` → `b` → `c` → `a`"
    assert "the parameter `c` of `a`" in error.fix


def test_two_cycles_are_two_errors(app: App):
    @app.stream
    def a(b) -> Any: ...
    @app.stream
    def b(a) -> Any: ...
    @app.stream
    def c(c) -> Any: ...

    assert [error.found for error in rules.no_cycle(Graph.of(app))] == ["`a` → `b` → `a`", "`c` → `c`"]


def test_a_name_used_three_times_is_two_errors(app: App):
    app.stream("clicks", schema="id string")
    app.table("clicks", schema="id string", key="id")
    assert [error.code for error in rules.unique_name(Graph.of(app))] == ["HR-016", "HR-016"]
    assert list(rules.unique_topic(Graph.of(app))) == []


@pytest.mark.parametrize("topic", ["clicks", "clicks.dead", "clicks.late", "clicks_dead"])
def test_a_topic_of_another_node_is_taken(app: App, topic: str):
    app.stream("others", schema="id string", topic=topic)
    assert codes(app) == ["HR-017"]


def test_dead_letters_may_not_fall_into_an_earlier_topic():
    app = App("shop")
    app.stream("refused", schema="id string", topic="orders.dead")
    app.stream("orders", schema="id string")
    (error,) = rules.unique_topic(Graph.of(app))
    assert (
        error.found == "`orders.dead` is the topic of `refused`, and `orders.dead` holds the dead letters of `orders`"
    )


@pytest.mark.parametrize("option", ["delay", "idle", "future"])
def test_what_is_said_about_the_watermark_needs_an_event_time(app: App, option: str):
    given: dict[str, Any] = {option: "1 minute"}
    app.stream("orders", schema="id string, at timestamp, sent timestamp", **given)
    app.stream("payments", schema="id string", **given)
    app.stream("timed", schema="id string, at timestamp", event_time="at", **given)
    first, second = rules.event_time_for_watermark(Graph.of(app))
    assert first.found == f"{option} 1m and no event_time"
    assert first.fix == 'add `event_time="at"`'
    assert "add a timestamp column" in second.fix
    assert second.fix.endswith(f"or leave `{option}` out")


def test_all_that_needs_an_event_time_is_named_together(app: App):
    app.stream("orders", schema="id string", delay="1 minute", idle="10 seconds", future="0 seconds")
    (error,) = rules.event_time_for_watermark(Graph.of(app))
    assert "`delay`, `idle` and `future`" in error.what
    assert error.found == "delay 1m, idle 10s, future 0s and no event_time"


def test_tables_and_views_need_a_key(app: App):
    app.table("cards", schema="card string")  # pyright: ignore[reportCallIssue]

    @app.view  # pyright: ignore[reportCallIssue]
    def totals(clicks) -> Any: ...

    first, second = rules.key_for_table(Graph.of(app))
    assert 'key="card"' in first.fix
    assert "@app.view(key=" in second.fix


def test_errors_come_together_in_the_order_of_the_file(app: App):
    @app.stream
    def first(unknown) -> Any: ...

    @app.view  # pyright: ignore[reportCallIssue]
    def second(clicks) -> Any: ...

    app.stream("clicks", schema="id string")
    with pytest.raises(DeclarationErrors) as caught:
        app.graph()
    assert [error.code for error in caught.value.errors] == ["HR-014", "HR-019", "HR-016"]
    assert caught.value.code == "HR-014"
    assert str(caught.value).count("headrace explain") == 3


def test_what_is_followed_is_a_stream_or_view_of_the_app(app: App):
    other = App("other")
    elsewhere = other.stream("latst", schema="id string")
    app.follow(elsewhere, webhook("https://example.com/"))
    app.follow(next(node for node in app.definitions if node.name == "users"), webhook("https://example.com/"))  # pyright: ignore[reportArgumentType]
    unknown, table = rules.known_followed(Graph.of(app))
    assert unknown.code == table.code == "HR-043"
    assert unknown.fix == "did you mean `latest`?"
    assert "`latst`; streams and views are `clicks` and `latest`" in str(unknown)
    assert "`users` is a table that this app only reads" in table.what


def test_two_webhooks_of_one_view_need_two_names(app: App):
    clicks = app.definitions[0]
    for name in ("webhook", "mail", "webhook"):
        app.follow(clicks, webhook("https://example.com/", name=name))  # pyright: ignore[reportArgumentType]
    (error,) = rules.unique_follower(Graph.of(app))
    assert (error.code, error.found) == ("HR-044", 'name="webhook"')
    assert list(rules.known_followed(Graph.of(app))) == []
