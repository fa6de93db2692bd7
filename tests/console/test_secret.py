"""Fields that are declared secret, where they are and where a result carries them on."""

from __future__ import annotations

from pyspark.sql import DataFrame

import headrace as hr
from headrace.serve.console.secret import HIDDEN, MASK, masked, masked_bytes, secrets

app = hr.App("pairs")
app.stream("clicks", schema="id string, at timestamp", event_time="at", id="id", secret="id")
app.stream("orders", schema="id string, at timestamp", event_time="at", id="id")


@app.stream
def both(clicks: DataFrame, orders: DataFrame) -> DataFrame:
    return clicks.union(orders)


def test_secrets_follow_their_names():
    assert secrets(app.graph()) == {"clicks": {"id"}, "orders": set(), "both": {"id"}}
    secret = frozenset({"id"})
    assert masked("id", "x", secret) == MASK
    assert masked("id", None, secret) is None
    assert masked("nested", {"id": 1, "a": [{"id": 2}]}, secret) == '{"id": "••••••", "a": [{"id": "••••••"}]}'
    assert masked("at", 5, secret) == 5
    assert masked_bytes(b'{"id": "x", "at": 1}', secret) == '{"id": "••••••", "at": 1}'
    assert masked_bytes(b'{"id": "x', secret) == HIDDEN
    assert masked_bytes(b"\xff", secret) == HIDDEN
    assert masked_bytes(b"\xffabc", frozenset()) == "\\xffabc"
