from __future__ import annotations

from typing import Any

import pytest

from headrace.app import App
from headrace.graph.graph import Graph


def shop() -> App:
    app = App("shop")

    @app.stream
    def alerts(clean, users) -> Any: ...

    app.stream("clicks", schema="id string")

    @app.stream
    def clean(clicks) -> Any: ...

    app.table("users", schema="id string", key="id")
    return app


def test_nodes_keep_the_order_of_declaration():
    graph = shop().graph()
    assert graph.app == "shop"
    assert graph.names == ("alerts", "clicks", "clean", "users")
    assert [node.name for node in graph.sources] == ["clicks", "users"]
    assert [node.name for node in graph.derived] == ["alerts", "clean"]


def test_readers_and_lookup():
    graph = shop().graph()
    assert [node.name for node in graph.readers("clicks")] == ["clean"]
    assert [node.name for node in graph.readers("users")] == ["alerts"]
    assert graph.readers("alerts") == ()
    assert graph.node("clean").kind == "stream"
    with pytest.raises(KeyError, match="nothing"):
        graph.node("nothing")


def test_topological_order_puts_inputs_first():
    assert [node.name for node in shop().graph().topological()] == ["clicks", "clean", "users", "alerts"]


def test_a_graph_may_be_built_from_what_is_wrong_but_has_no_order():
    app = App("shop")

    @app.stream
    def a(b) -> Any: ...

    @app.stream
    def b(a, missing) -> Any: ...

    graph = Graph.of(app)
    assert graph.names == ("a", "b")
    with pytest.raises(ValueError, match="a → b → a"):
        graph.topological()


def test_a_graph_is_a_value():
    app = shop()
    graph = app.graph()
    app.stream("orders", schema="id string")
    assert "orders" not in graph.names
    assert "orders" in app.graph().names
