from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.app import App
from headrace.graph.plan import plan, stages


def shapes(app: App) -> list[tuple[str, tuple[str, ...], list[str]]]:
    return [(query.name, query.reads, [node.name for node in query.fused]) for query in plan(app.graph())]


def app_with_input() -> App:
    app = App("shop")
    app.stream("clicks", schema="id string")
    return app


def test_a_chain_is_one_query_of_the_last_function():
    app = app_with_input()
    app.stream(_named("clean", "clicks"))
    app.stream(_named("enriched", "clean"))
    app.stream(_named("alerts", "enriched"))
    assert shapes(app) == [("alerts", ("clicks",), ["clean", "enriched"])]


def test_a_function_read_by_two_is_a_topic_that_both_read():
    app = app_with_input()
    app.stream(_named("clean", "clicks"))
    app.stream(_named("a", "clean"))
    app.stream(_named("b", "clean"))
    assert shapes(app) == [("clean", ("clicks",), []), ("a", ("clean",), []), ("b", ("clean",), [])]


def test_views_and_pinned_functions_are_topics():
    app = app_with_input()
    app.stream(topic="clean_clicks")(_named("clean", "clicks"))
    app.stream(partitions=4)(_named("wide", "clean"))
    app.stream(retention="1 day")(_named("kept", "wide"))
    app.view(key="id")(_named("latest", "kept"))
    app.stream(_named("alerts", "latest"))
    assert [(name, reads) for name, reads, fused in shapes(app) if not fused] == [
        ("clean", ("clicks",)),
        ("wide", ("clean",)),
        ("kept", ("wide",)),
        ("latest", ("kept",)),
        ("alerts", ("latest",)),
    ]


def test_a_key_alone_does_not_make_a_topic():
    app = app_with_input()
    app.stream(key="id")(_named("clean", "clicks"))
    app.stream(_named("alerts", "clean"))
    assert shapes(app) == [("alerts", ("clicks",), ["clean"])]


def test_fused_functions_are_called_after_their_inputs_and_reads_are_named_once():
    app = app_with_input()
    app.table("users", schema="id string", key="id")
    app.stream(_named("result", "left", "right", "clicks"))
    app.stream(_named("right", "deeper", "users"))
    app.stream(_named("left", "clicks"))
    app.stream(_named("deeper", "users"))
    assert shapes(app) == [("result", ("clicks", "users"), ["left", "deeper", "right"])]


def test_queries_come_after_those_whose_topics_they_read():
    app = app_with_input()
    app.stream(_named("last", "middle"))
    app.view(key="id")(_named("middle", "first"))
    app.view(key="id")(_named("first", "clicks"))
    assert [name for name, _, _ in shapes(app)] == ["first", "middle", "last"]


def test_queries_that_do_not_read_one_another_are_of_one_stage():
    app = app_with_input()
    app.stream(_named("last", "middle", "other"))
    app.view(key="id")(_named("middle", "first"))
    app.view(key="id")(_named("first", "clicks"))
    app.view(key="id")(_named("other", "clicks"))
    found = [sorted(query.name for query in stage) for stage in stages(plan(app.graph()))]
    assert found == [["first", "other"], ["middle"], ["last"]]


def test_an_app_of_inputs_only_has_no_queries():
    assert plan(app_with_input().graph()) == ()


def _named(name: str, *inputs: str) -> Callable[..., Any]:
    made: dict[str, Any] = {}
    exec(f"def {name}({', '.join(inputs)}): return {inputs[0]}", made)
    return made[name]
