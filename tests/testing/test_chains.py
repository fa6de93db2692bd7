"""The readers that certify puts behind an app: always a chain of three queries, and everything has a topic."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.graph.graph import Graph, inputs_of
from headrace.graph.plan import plan
from headrace.testing.chains import LONG, Chained

SCHEMA = "id string, card string, amount double, at timestamp"


def payments() -> hr.App:
    app = hr.App("paid")
    app.stream("payments", schema=SCHEMA, event_time="at", id="id")
    return app


def fused() -> hr.App:
    app = payments()

    @app.stream
    def unique(payments):
        return payments

    @app.stream
    def alerts(unique):
        return unique

    app.follow(alerts, hr.webhook("https://example.com/alerts"))
    return app


def view() -> hr.App:
    app = payments()

    @app.view(key="id")
    def paid(payments):
        return payments

    return app


def table() -> hr.App:
    app = hr.App("tables")
    app.table("cards", schema="card string, owner string", key="card")

    @app.view(key="card")
    def owners(cards):
        return cards

    return app


def longest(graph: Graph) -> int:
    depths: dict[str, int] = {}
    for node in graph.topological():
        depths[node.name] = max((depths[name] + 1 for name in inputs_of(node)), default=0)
    return max(depths.values())


@pytest.mark.parametrize("app", [fused(), view(), table()], ids=lambda app: app.name + "-" + app.definitions[-1].name)
def test_there_is_always_a_chain_of_three_queries(app: hr.App):
    graph = Chained(app).graph()
    assert {query.node.name for query in plan(graph)} == {node.name for node in graph.derived}
    assert longest(graph) >= LONG
    assert all(node.name.startswith("certify_") for node in graph.nodes if node.name not in app.graph().names)


def test_every_stream_is_passed_on_and_counted():
    chained = Chained(fused())
    assert {node.name: node.inputs for node in chained.added} == {
        f"certify_{kind}_{name}": ((f"certify_kept_{name}",) if kind == "counted" else (name,))
        for name in ("payments", "unique", "alerts")
        for kind in ("kept", "counted")
    }


def test_nobody_is_told_of_made_up_events():
    assert Chained(fused()).graph().follows == ()


def test_without_chains_the_app_is_as_it_was_declared():
    graph = Chained(fused(), chains=False).graph()
    assert graph.names == fused().graph().names
    assert [query.name for query in plan(graph)] == ["alerts"]


def test_a_name_that_is_taken_is_not_given_again():
    app = payments()

    @app.stream
    def certify_kept_payments(payments):
        return payments

    graph = Chained(app).graph()
    assert len(set(graph.names)) == len(graph.names)
