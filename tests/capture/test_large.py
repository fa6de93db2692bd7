"""Large rows: what a record can hold is written, what it cannot is an error of its table, and the others go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from threading import Event

import psutil
import pytest
from tests.capture.stage import Running, Stage, eventually
from tests.capture.test_schema_change import status

from headrace.capture.writer import LARGEST, ROOM, TooLarge, Writer
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import read
from headrace.log.topic import Topic
from headrace.parts import part
from headrace.parts.embedded import Parts
from headrace.settings import Settings

MB = 1024 * 1024


def opened(connection: Connection, app: str) -> Writer:
    return Writer(connection, app, stop=Event(), waits=lambda reason: None)


def is_paused(running: Running, table: str) -> bool:
    return "HR-613" in str(status(running, table).paused)


def test_the_largest_record_is_written(bootstrap: str, topic: Callable[[], str]):
    """Bytes that do not get smaller, so that the limits of the client, the topic and the broker all count."""
    name, connection = topic(), Connection(bootstrap)
    topics.ensure(connection, [Topic(name, 1, config=ROOM)])
    values = [os.urandom(LARGEST - 1), os.urandom(33 * MB)]
    writer = opened(connection, name)
    for value in values:
        writer.send(name, b"k", value)
    writer.commit()
    eventually(lambda: [record.value for record in read(connection, name)] == values)
    with pytest.raises(TooLarge):
        writer.send(name, b"k", bytes(LARGEST + 64 * 1024))
    writer.close()


def test_a_change_larger_than_the_queue_was(stage: Stage):
    """Torture row 22: old and new row of 20 MB each are one record."""
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, note text, seen int)")
    stage.execute("ALTER TABLE cards REPLICA IDENTITY FULL")
    stage.execute("CREATE TABLE other (id int PRIMARY KEY)")
    stage.execute("INSERT INTO cards VALUES (1, repeat('x', %s), 0)", 20 * MB)
    with stage.capturing(stage.table("cards"), stage.table("other")) as running:
        running.wait_until_read()
        stage.execute("UPDATE cards SET seen = 1")
        stage.execute("INSERT INTO other VALUES (1)")
        stage.wait_until_equal("other")
        stage.wait_until_equal("cards")
        assert max(len(record.value or b"") for record in stage.records("cards")) > 40 * MB
        assert not is_paused(running, "cards")


def test_a_row_that_no_record_holds_pauses_its_table_and_no_other(stage: Stage):
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, note text)")
    stage.execute("CREATE TABLE other (id int PRIMARY KEY)")
    tables = stage.table("cards"), stage.table("other")
    with stage.capturing(*tables) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO cards VALUES (1, repeat('x', %s))", LARGEST)
        eventually(lambda: is_paused(running, "cards"))
        stage.execute("INSERT INTO other VALUES (1)")
        stage.wait_until_equal("other")
    stage.execute("UPDATE cards SET note = 'short'")
    with stage.capturing(*tables, again=["public.cards"]) as running:
        running.wait_until_read()
        stage.wait_until_equal("cards")


def test_a_row_that_its_topic_does_not_take_pauses_its_table_and_no_other(stage: Stage):
    """The topic of a table, or of an outbox, may have a limit of its own."""
    stage.execute("CREATE TABLE cards (id int PRIMARY KEY, note text)")
    stage.execute("CREATE TABLE other (id int PRIMARY KEY)")
    stage.execute(
        "CREATE TABLE outbox (id int PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload text)"
    )
    small = {"max.message.bytes": "100000"}
    orders, cards = f"{stage.app}.orders", stage.topic("cards")
    topics.ensure(
        stage.connection, [Topic(orders, 2, config=small), Topic(cards, 2, compacted=True, config=ROOM | small)]
    )
    tables = stage.table("cards"), stage.table("outbox", streams={"orders": orders}), stage.table("other")
    noise = os.urandom(150_000).hex()
    with stage.capturing(*tables) as running:
        running.wait_until_read()
        stage.execute("INSERT INTO other VALUES (1)")
        stage.execute("INSERT INTO cards VALUES (1, %s)", noise)
        eventually(lambda: is_paused(running, "cards"))
        assert "max.message.bytes" in str(status(running, "cards").paused)
        stage.execute("INSERT INTO outbox VALUES (1, 'orders', 'a', 'made', %s)", noise)
        eventually(lambda: is_paused(running, "outbox"))
        stage.execute("INSERT INTO other VALUES (2)")
        stage.wait_until_equal("other")
        assert not is_paused(running, "other")
        assert list(read(stage.connection, orders)) == []


@pytest.mark.deep
@pytest.mark.timeout(240)
def test_a_broker_that_takes_nothing_is_told_of_and_does_not_hold_a_stop_up(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory
):
    home = tmp_path_factory.mktemp("frozen")
    settings = Settings.load(home)
    with Parts.start(settings, report=print) as parts:
        broker = part.read(settings.state / "kafka")
        assert broker is not None
        stage = Stage(postgres_url, parts.bootstrap, home)
        stage.execute("CREATE TABLE cards (id int PRIMARY KEY)")
        with stage.capturing(stage.table("cards")) as running:
            running.wait_until_read()
            os.kill(broker.server.pid, signal.SIGSTOP)
            try:
                stage.execute("INSERT INTO cards VALUES (1)")
                eventually(lambda: running.capture.status.waiting is not None)
                assert "Kafka" in str(running.capture.status.waiting)
                running.stop()
                assert psutil.Process(broker.server.pid).status() == psutil.STATUS_STOPPED
            finally:
                os.kill(broker.server.pid, signal.SIGCONT)
        with stage.capturing(stage.table("cards")) as running:
            running.wait_for("running")
            stage.wait_until_equal("cards")
            assert running.capture.status.waiting is None
        stage.close()
