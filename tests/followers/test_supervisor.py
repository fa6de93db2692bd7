"""Followers that go by the catalogue: when another version becomes current, they follow that one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests.contracts.follower_contract import eventually
from tests.followers.test_webhook import SECRET, Receiver

from headrace.followers.follower import Follower
from headrace.followers.store import Positions
from headrace.followers.supervisor import Supervisor, Task
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.log import catalogue
from headrace.log.catalogue import Version, View
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.producer import Producer
from headrace.log.topic import Topic, ends, ensure
from headrace.names import FIRST_VERSION, versioned


@pytest.fixture
def receiver(tmp_path: Path, bootstrap: str) -> Iterator[Receiver]:
    running = Receiver(tmp_path, bootstrap)
    yield running
    running.down()


def test_a_webhook_is_told_of_what_comes_after_a_switch(
    receiver: Receiver, bootstrap: str, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
):
    """What the new version holds from history is no news; what comes after the switch is, there and back."""
    monkeypatch.setattr("headrace.followers.supervisor.LOOK_AGAIN_S", 0.2)
    app, connection = topic("shop"), Connection(bootstrap)
    name = f"{app}.alerts.webhook"

    def of(version: str) -> View:
        return View(app, "alerts", versioned(f"{app}.alerts", version), "id string", (), version, kind="stream")

    def write(version: str, *ids: str) -> None:
        ensure(connection, [Topic(of(version).topic)])
        with Producer(connection) as producer:
            for one in ids:
                producer.send(of(version).topic, {"id": one}, key=one)

    def make(view: View | None, since: Positions) -> Follower:
        read = of(FIRST_VERSION).topic if view is None else view.topic
        target = Target(receiver.url, SECRET, allow_private=True)
        return Follower(name, read, WebhookReceiver(target, name, read, connection, since=since), connection)

    def switch(version: str) -> None:
        catalogue.record(connection, Version(of(version), built=True, since=ends(connection, of(version).topic)))
        catalogue.publish(connection, of(version))

    def told() -> list[str]:
        return sorted(receiver.state["rows"].get(name, {}))

    write(FIRST_VERSION, "a", "b")
    write("v2", "a", "b", "from history")
    stop = threading.Event()
    with Supervisor(app, connection, [Task("alerts.webhook", "alerts", False, make)]) as supervisor:

        def look() -> None:
            while not stop.wait(0.05):
                supervisor.supervise()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            assert eventually(lambda: told() == ["a", "b"])
            switch("v2")
            assert eventually(lambda: supervisor.statuses["alerts.webhook"][0] == of("v2").topic)
            write("v2", "c")
            assert eventually(lambda: told() == ["a", "b", "c"])
            switch(FIRST_VERSION)
            write(FIRST_VERSION, "d")
            assert eventually(lambda: told() == ["a", "b", "c", "d"])
        finally:
            stop.set()
            looking.join()
    assert receiver.state["requests"] == 4, "and each of them once"


def test_one_that_does_not_end_is_left_and_named(
    bootstrap: str, topic: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
):
    """The loop says what it hangs in while it hangs; the supervisor ends without it."""
    monkeypatch.setattr("headrace.followers.supervisor.STOP_S", 0.5)
    app, connection, let_go = topic("shop"), Connection(bootstrap), threading.Event()
    ensure(connection, [Topic(f"{app}.alerts")])
    with Producer(connection) as producer:
        producer.send(f"{app}.alerts", {"id": "a"}, key="a")

    class Hanging(WebhookReceiver):
        def apply(self, changes: Sequence[Record], positions: Positions) -> None:
            if changes:
                self.pulse.beat("posting what is never taken")
                let_go.wait(60)

    def make(view: View | None, since: Positions) -> Follower:
        store = Hanging(Target("http://127.0.0.1:1/"), f"{app}.alerts.webhook", f"{app}.alerts", connection)
        return Follower(f"{app}.alerts.webhook", f"{app}.alerts", store, connection)

    supervisor = Supervisor(app, connection, [Task("alerts.webhook", "alerts", False, make)])

    def doing() -> str:
        supervisor.supervise()
        return supervisor.statuses["alerts.webhook"][1].doing

    try:
        assert eventually(lambda: doing() == "posting what is never taken")
        assert eventually(lambda: sum(supervisor.statuses["alerts.webhook"][1].lag.values()) == 1)
        (late,) = supervisor.stop()
        assert late.code == "HR-416"
        assert "posting what is never taken since 20" in str(late.found)
    finally:
        let_go.set()
    assert supervisor.stop() == []


def test_a_log_that_does_not_answer_holds_nobody_up():
    """Who calls the supervisor is never kept waiting, and is told since when the log is away."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        connection = Connection(f"127.0.0.1:{mute.getsockname()[1]}")
        supervisor = Supervisor(
            "shop", connection, [Task("orders.postgres", "orders", True, lambda view, since: pytest.fail("it began"))]
        )
        looks = 0

        def waiting() -> str:
            nonlocal looks
            supervisor.supervise()
            looks += 1
            return supervisor.statuses["orders.postgres"][1].waiting or ""

        assert eventually(lambda: waiting().startswith("log unreachable since "))
        assert looks > 1
        assert supervisor.stop() == []
