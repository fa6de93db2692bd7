"""Rows of an outbox become events: once each, in order, with their ids; what cannot be delivered is kept."""

from __future__ import annotations

import json

from tests.capture.stage import Stage, eventually

from headrace import names
from headrace.capture.table import Captured
from headrace.log import dead
from headrace.log.consumer import Record, read

TABLE = """
CREATE TABLE outbox (id bigserial PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL,
    type text NOT NULL, payload jsonb)
"""
INSERT = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (%s, %s, %s, %s)"


def outbox(stage: Stage, *streams: str) -> Captured:
    topic = names.captured_topic(stage.app, "public.outbox")
    return Captured(
        "public.outbox", "public.outbox", topic, (), 2, streams={one: f"{stage.app}.{one}" for one in streams}
    )


def events(stage: Stage, stream: str) -> list[Record]:
    return list(read(stage.connection, f"{stage.app}.{stream}"))


def numbers(stage: Stage, stream: str) -> list[int]:
    return [json.loads(record.value or b"")["n"] for record in events(stage, stream)]


def test_a_row_becomes_an_event_and_may_be_deleted_in_the_same_transaction(stage: Stage):
    stage.execute(TABLE)
    with stage.capturing(outbox(stage, "orders", "payments")) as running:
        running.wait_until_read()
        with stage.database.transaction():
            stage.execute(INSERT, "orders", "o1", "placed", '{"n": 1}')
            stage.execute("DELETE FROM outbox")
        with stage.database.transaction(force_rollback=True):
            stage.execute(INSERT, "orders", "o1", "lost", '{"n": 99}')
        stage.execute(INSERT, "orders", "o1", "paid", '{"n": 2}')
        stage.execute(INSERT, "payments", "p1", "made", '{"n": 3}')
        eventually(lambda: len(events(stage, "orders")) == 2 and len(events(stage, "payments")) == 1)
        stage.execute("DELETE FROM outbox")
    placed, paid = events(stage, "orders")
    assert (placed.key, placed.value) == (b"o1", b'{"n": 1}')
    assert (placed.header("type"), paid.header("type")) == ("placed", "paid")
    assert placed.header("id") == "1"
    assert placed.partition == paid.partition, "the events of an aggregate stay in order"


def test_rows_that_were_there_before_come_once_and_in_order(stage: Stage):
    stage.execute(TABLE)
    for number in range(20):
        stage.execute(INSERT, "orders", "o1", "placed", json.dumps({"n": number}))
    for number in range(20, 40, 10):
        with stage.capturing(outbox(stage, "orders")) as running:
            running.wait_until_read()
            for more in range(number, number + 10):
                stage.execute(INSERT, "orders", "o1", "placed", json.dumps({"n": more}))
            eventually(lambda upto=number + 10: len(events(stage, "orders")) >= upto)
    assert numbers(stage, "orders") == list(range(40))


def test_what_cannot_be_delivered_is_kept_with_its_reason(stage: Stage):
    stage.execute(TABLE)
    captured = outbox(stage, "orders")
    with stage.capturing(captured) as running:
        running.wait_until_read()
        stage.execute(INSERT, "orders", "o1", "placed", '{"n": 1}')
        stage.execute(INSERT, names.capture(stage.app), "o1", "evil", '{"n": 2}')
        stage.execute("UPDATE outbox SET type = 'other' WHERE aggregatetype = 'orders'")
        eventually(lambda: running.capture.status.tables[0].dead == 2)
        eventually(lambda: len(list(dead.dead_letters(stage.connection, captured.topic))) == 2)
    reasons = sorted(letter.reason for letter in dead.dead_letters(stage.connection, captured.topic))
    assert reasons == [
        f"no stream is declared for `{names.capture(stage.app)}`",
        "the row was updated after it was written",
    ]
    assert numbers(stage, "orders") == [1]


def test_two_outboxes_that_hold_rows(stage: Stage):
    """The stream brings rows of the second one before it is read: they come once nevertheless."""
    captured = []
    for name in ("outbox", "outbox2"):
        stage.execute(TABLE.replace("outbox", name))
        topic = names.captured_topic(stage.app, f"public.{name}")
        streams = {f"orders_{name}": f"{stage.app}.orders_{name}"}
        captured.append(Captured(f"public.{name}", f"public.{name}", topic, (), 1, streams=streams))
    # The slot is there before the rows are, and they are before the outboxes are read.
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
    with stage.capturing(stage.table("cards")) as running:
        running.wait_until_read()
    stage.execute(f"ALTER PUBLICATION {names.slot(stage.app)} ADD TABLE outbox, outbox2")
    for number in range(10):
        for name in ("outbox", "outbox2"):
            stage.execute(INSERT.replace("outbox", name), f"orders_{name}", "o", "x", json.dumps({"n": number}))
    with stage.capturing(stage.table("cards"), *captured) as running:
        running.wait_until_read()
        for name in ("outbox", "outbox2"):
            stage.execute(INSERT.replace("outbox", name), f"orders_{name}", "o", "x", json.dumps({"n": 10}))
        eventually(lambda: len(events(stage, "orders_outbox2")) > 10 and len(events(stage, "orders_outbox")) > 10)
    assert numbers(stage, "orders_outbox") == numbers(stage, "orders_outbox2") == list(range(11))


def test_a_table_that_is_no_outbox(stage: Stage):
    stage.execute("CREATE TABLE outbox (id int PRIMARY KEY, payload text)")
    with stage.capturing(outbox(stage, "orders")) as running:
        running.wait_for("failed")
        error = running.capture.status.error
    assert error is not None
    assert error.code == "HR-617"
    stage.execute("DROP TABLE outbox")
    stage.execute(error.fix.strip("`").replace("public.outbox", "public.outbox"))
    with stage.capturing(outbox(stage, "orders")) as running:
        running.wait_until_read()
