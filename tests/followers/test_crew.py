"""Followers that go by the catalogue: when another version becomes current, they follow that one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.contracts.follower_contract import eventually
from tests.followers.test_webhook import SECRET, Receiver

from headrace.followers.crew import Crew, Task
from headrace.followers.follower import Follower
from headrace.followers.store import Positions
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.log import catalogue
from headrace.log.catalogue import Version, View
from headrace.log.connection import Connection
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
    monkeypatch.setattr("headrace.followers.crew.LOOK_AGAIN_S", 0.2)
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
    with Crew(app, connection, [Task("alerts.webhook", "alerts", False, make)]) as crew:

        def look() -> None:
            while not stop.wait(0.05):
                crew.look_after()

        looking = threading.Thread(target=look)
        looking.start()
        try:
            assert eventually(lambda: told() == ["a", "b"])
            switch("v2")
            assert eventually(lambda: crew.statuses["alerts.webhook"][0] == of("v2").topic)
            write("v2", "c")
            assert eventually(lambda: told() == ["a", "b", "c"])
            switch(FIRST_VERSION)
            write(FIRST_VERSION, "d")
            assert eventually(lambda: told() == ["a", "b", "c", "d"])
        finally:
            stop.set()
            looking.join()
    assert receiver.state["requests"] == 4, "and each of them once"
