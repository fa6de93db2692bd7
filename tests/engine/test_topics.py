"""How the topics of a plan are made."""

from __future__ import annotations

import headrace as hr
from headrace.engine import topics
from headrace.graph.plan import plan

LAG = "min.compaction.lag.ms"


def test_what_another_function_reads_keeps_its_changes_for_a_while():
    app = hr.App("shop")
    app.table("products", schema="name string, price int", key="name")

    @app.view(key="name")
    def prices(products):
        return products

    @app.view(key=["name", "version"])
    def versions(prices):
        return hr.history(prices)

    graph = app.graph()
    made = {one.name: one.config for one in topics.needed(graph, plan(graph))}
    assert made["products"][LAG] == made["prices"][LAG] == str(7 * 86_400_000)
    assert made["versions"][LAG] == str(86_400_000), "as long as a live query may need"
