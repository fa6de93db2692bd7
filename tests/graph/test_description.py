from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.app import App, load
from headrace.graph.clock_correction import correct_clock
from headrace.graph.description import as_json, mermaid, text
from headrace.graph.graph import Graph

APP = """\
from headrace.app import App
from headrace.graph.connector import postgres

app = App("payments")
app.stream(
    "transactions",
    schema="id string, card string, amount double, at timestamp",
    event_time="at", delay="5 seconds", future="1 hour", id="id", retention="7 days", partitions=1)
app.table("cards", postgres("public.cards"), key="card")

@app.stream
def enriched(transactions, cards): ...

@app.stream(key="card", topic="alerts.large")
def alerts(enriched): ...

@app.view(key=["card", "day"])
def totals(transactions): ...
"""


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)
    return load(Path("app.py")).graph()


def test_text(graph: Graph):
    assert (
        text(graph)
        == """\
app payments

inputs
  transactions  stream                         topic transactions (1 partition, kept 7d)   app.py:5
      id string NOT NULL, card string, amount double, at timestamp NOT NULL
      event time at, delay 5s, idle 30s, future 1h
      id id
  cards         table                          topic payments.public.cards (2 partitions)  app.py:9
      captured from postgres public.cards
      key card

functions
  enriched      stream of transactions, cards  fused into alerts                           app.py:12
  alerts        stream of enriched             topic alerts.large (2 partitions)           app.py:15
      key card
  totals        view of transactions           topic totals (2 partitions)                 app.py:18
      key card, day

queries
  alerts: transactions, cards → enriched → topic alerts.large
  totals: transactions → topic totals
"""
    )


def test_the_clock_of_a_device_is_corrected_in_sight():
    app = App("devices")
    schema = "id string, occurred timestamp, sent timestamp, arrived timestamp"
    app.stream("taps", schema=schema, event_time=correct_clock("occurred", sent="sent"), id="id")
    app.stream("knocks", schema=schema, event_time=correct_clock("occurred", sent="sent", received="arrived"), id="id")
    told = text(app.graph())
    assert "      clock of the device corrected by the record's time in Kafka - sent\n" in told
    assert "      clock of the device corrected by arrived - sent\n" in told
    taps, knocks = as_json(app.graph())["nodes"]
    assert [(one["sent"], one["received"]) for one in (taps, knocks)] == [("sent", None), ("sent", "arrived")]


def test_json(graph: Graph):
    described = as_json(graph)
    assert json.loads(json.dumps(described)) == described
    assert described["app"] == "payments"
    assert described["edges"] == [
        {"from": "transactions", "to": "enriched"},
        {"from": "cards", "to": "enriched"},
        {"from": "enriched", "to": "alerts"},
        {"from": "transactions", "to": "totals"},
    ]
    assert described["queries"] == [
        {"name": "alerts", "topic": "alerts.large", "reads": ["transactions", "cards"], "fused": ["enriched"]},
        {"name": "totals", "topic": "totals", "reads": ["transactions"], "fused": []},
    ]
    transactions, cards, enriched, alerts, totals = described["nodes"]
    assert transactions == {
        "name": "transactions",
        "kind": "stream",
        "topic": "transactions",
        "partitions": 1,
        "retention_ms": 604_800_000,
        "key": [],
        "where": "app.py:5",
        "declared": "input",
        "schema": "id string NOT NULL, card string, amount double, at timestamp NOT NULL",
        "event_time": "at",
        "sent": None,
        "received": None,
        "delay_ms": 5000,
        "delay_share": 0.0,
        "delay_least_ms": 0,
        "idle_ms": 30_000,
        "future_ms": 3_600_000,
        "id": "id",
        "captured_from": None,
    }
    assert (cards["captured_from"], cards["schema"]) == ("postgres public.cards", None)
    assert enriched == {
        "name": "enriched",
        "kind": "stream",
        "topic": "enriched",
        "partitions": 2,
        "retention_ms": None,
        "key": [],
        "where": "app.py:12",
        "declared": "function",
        "inputs": ["transactions", "cards"],
        "fused_into": "alerts",
    }
    assert alerts["fused_into"] is None
    assert totals["key"] == ["card", "day"]


def test_mermaid(graph: Graph):
    assert (
        mermaid(graph)
        == """\
flowchart LR
  n_transactions[/"transactions"/]
  n_cards[("cards")]
  subgraph q_alerts["query alerts"]
    n_enriched("enriched")
    n_alerts["alerts"]
  end
  subgraph q_totals["query totals"]
    n_totals[["totals"]]
  end
  n_transactions --> n_enriched
  n_cards --> n_enriched
  n_enriched --> n_alerts
  n_transactions --> n_totals
"""
    )


def test_an_app_with_nothing_in_it():
    graph = App("empty").graph()
    assert text(graph) == "app empty\n"
    assert as_json(graph) == {"app": "empty", "nodes": [], "edges": [], "queries": [], "follows": []}
    assert mermaid(graph) == "flowchart LR\n"
