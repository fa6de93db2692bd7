"""What every store must do with a follower: the suite of tests/followers/test_postgres.py and test_webhook.py.

A store's test class names the `subject`: how to make the store, what it holds, how it goes down and comes up again, and
which row it can never take. Everything is compared with the plain answer of changes.py.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.contracts.changes import Row, answer, history, make_topic, view, write

from headrace.errors import FollowError
from headrace.followers.follower import Follower
from headrace.followers.store import Store
from headrace.log import topic as topics
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.dead import dead_letters
from headrace.log.producer import Producer

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("HEADRACE_KILLS", "4"))


class Subject(Protocol):
    """A store under test."""

    def store(self, view: View) -> Store:
        """A store object of its own each time, for the same data."""
        ...

    def told(self, view: View) -> dict[str, Any]:
        """What `tests.contracts.followed` needs to make it in another process."""
        ...

    def holds(self, view: View) -> dict[str, Row]:
        """The rows in it."""
        ...

    def positions(self, view: View) -> dict[int, int]:
        """The positions that are kept for it."""
        ...

    def spoil(self, view: View) -> None:
        """Damage the data behind the follower's back."""
        ...

    def down(self) -> None:
        """Stop it; it forgets nothing."""
        ...

    def up(self) -> None:
        """Start it again."""
        ...

    @property
    def poison(self) -> Row:
        """A row, without its id, that it can never take."""
        ...

    @property
    def reason(self) -> str:
        """A piece of the reason that the dead letter gives."""
        ...


def eventually(condition: Callable[[], bool], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def running(follower: Follower) -> Iterator[threading.Thread]:
    """The follower in a thread, stopped at the end."""
    stop = threading.Event()
    thread = threading.Thread(target=_quietly, args=(follower, stop), daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def _quietly(follower: Follower, stop: threading.Event) -> None:
    try:
        follower.run(stop)
    except FollowError:
        return


class FollowerContract:
    """Inherit it, and give the fixture `subject`."""

    @pytest.fixture
    def dice(self) -> random.Random:
        seed = random.randrange(10**6)
        print(f"seed {seed}")
        return random.Random(seed)

    @pytest.fixture
    def connection(self, bootstrap: str) -> Connection:
        return Connection(bootstrap)

    @pytest.fixture
    def view(self, connection: Connection, topic: Callable[[str], str]) -> View:
        return make_topic(connection, view(topic("app")))

    @staticmethod
    def follower(connection: Connection, subject: Subject, view: View, **options: Any) -> Follower:
        return Follower(f"{view.app}.{view.view}", view.topic, subject.store(view), connection, **options)

    def test_it_holds_what_the_topic_says(
        self, connection: Connection, subject: Subject, view: View, dice: random.Random
    ) -> None:
        write(connection, view.topic, history(dice, 200), dice)
        applied = self.follower(connection, subject, view).catch_up()
        assert applied > 0
        assert subject.holds(view) == answer(connection, view.topic)
        ends = topics.ends(connection, view.topic)
        assert subject.positions(view) == ends, "at the end it has stepped over transaction markers too"

    def test_an_update_may_come_as_a_deletion_and_a_row(
        self, connection: Connection, subject: Subject, view: View
    ) -> None:
        write(connection, view.topic, [("a", {"id": "a", "n": 1}), ("b", {"id": "b", "n": 1}), ("c", {"id": "c"})])
        write(connection, view.topic, [("a", None), ("a", {"id": "a", "n": 2}), ("b", None), ("c", None), ("c", None)])
        self.follower(connection, subject, view).catch_up()
        assert subject.holds(view) == {"a": {"id": "a", "n": 2}}

    def test_it_goes_on_where_it_was(
        self, connection: Connection, subject: Subject, view: View, dice: random.Random
    ) -> None:
        write(connection, view.topic, history(dice, 100), dice)
        self.follower(connection, subject, view).catch_up()
        assert self.follower(connection, subject, view).catch_up() == 0
        later = list(history(dice, 50))
        write(connection, view.topic, later)
        assert self.follower(connection, subject, view).catch_up() == len(later)
        assert subject.holds(view) == answer(connection, view.topic)

    def test_it_is_built_anew(self, connection: Connection, subject: Subject, view: View, dice: random.Random) -> None:
        write(connection, view.topic, history(dice, 100), dice)
        self.follower(connection, subject, view).catch_up()
        subject.spoil(view)
        assert subject.holds(view) != answer(connection, view.topic)
        self.follower(connection, subject, view, rebuild=True).catch_up()
        assert subject.holds(view) == answer(connection, view.topic)

    def test_it_applies_what_comes_while_it_runs(
        self, connection: Connection, subject: Subject, view: View, dice: random.Random
    ) -> None:
        follower = self.follower(connection, subject, view)
        with running(follower):
            for _ in range(5):
                write(connection, view.topic, history(dice, 20), dice)
            assert eventually(lambda: subject.positions(view) == topics.ends(connection, view.topic))
            assert eventually(lambda: follower.status.lag == {0: 0, 1: 0})
            assert (follower.status.state, follower.status.waiting) == ("running", None)
        assert follower.status.state == "stopped"
        assert subject.holds(view) == answer(connection, view.topic)

    def test_every_record_three_times(
        self, connection: Connection, subject: Subject, view: View, dice: random.Random
    ) -> None:
        with Producer(connection) as producer:
            for number, (key, value) in enumerate(history(dice, 60)):
                raw = None if value is None else json.dumps(value)
                for _ in range(3):
                    producer.send(view.topic, raw, key=key, headers={"headrace.id": f"{view.app}/{number}"})
        self.follower(connection, subject, view).catch_up()
        assert subject.holds(view) == answer(connection, view.topic)

    def test_poison_is_buried_and_the_rest_goes_on(
        self, connection: Connection, subject: Subject, view: View, dice: random.Random
    ) -> None:
        rows = [(f"k{number}", {"id": f"k{number}", "n": number}) for number in range(40)]
        bad = sorted(dice.sample(range(40), 3))
        for number in bad:
            rows[number] = (f"k{number}", {"id": f"k{number}", **subject.poison})
        write(connection, view.topic, rows)
        write(connection, view.topic, [("not-json", None)])
        with Producer(connection) as producer:
            producer.send(view.topic, b"{", key="broken")
        follower = self.follower(connection, subject, view)
        follower.catch_up()
        assert subject.holds(view) == {key: row for number, (key, row) in enumerate(rows) if number not in bad}
        assert follower.status.dead == 4
        letters = {(letter.key or b"").decode(): letter for letter in dead_letters(connection, view.topic)}
        assert set(letters) == {*(f"k{number}" for number in bad), "broken"}
        assert subject.reason in letters[f"k{bad[0]}"].reason
        assert "not JSON" in letters["broken"].reason
        assert letters["broken"].query == f"{view.app}.{view.view}"
        assert subject.positions(view) == topics.ends(connection, view.topic)

    def test_a_store_that_is_down_is_waited_for(
        self, connection: Connection, subject: Subject, view: View, dice: random.Random
    ) -> None:
        follower = self.follower(connection, subject, view)
        write(connection, view.topic, history(dice, 50))
        with running(follower):
            assert eventually(lambda: subject.positions(view) == topics.ends(connection, view.topic))
            subject.down()
            try:
                write(connection, view.topic, history(dice, 50))
                assert eventually(lambda: follower.status.state == "waiting")
                assert follower.status.waiting
                time.sleep(1)
            finally:
                subject.up()
            write(connection, view.topic, history(dice, 50))
            assert eventually(lambda: subject.positions(view) == topics.ends(connection, view.topic))
            assert eventually(lambda: (follower.status.state, follower.status.waiting) == ("running", None))
        assert subject.holds(view) == answer(connection, view.topic)

    def test_kill_9_at_any_point(
        self, connection: Connection, subject: Subject, view: View, dice: random.Random
    ) -> None:
        changes = list(history(dice, 1500, keys=200))
        half = len(changes) // 2
        write(connection, view.topic, changes[:half])
        told = json.dumps({**subject.told(view), "view": asdict(view), "bootstrap": connection.bootstrap})
        command = [sys.executable, "-m", "tests.contracts.followed", told]
        for kill in range(KILLS):
            started = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            try:
                assert started.stdout is not None
                assert started.stdout.readline() == "following\n"
                if kill == KILLS // 2:
                    write(connection, view.topic, changes[half : half + 200], dice)
                    write(connection, view.topic, changes[half + 200 :])
                before = sum(subject.positions(view).values())
                eventually(lambda before=before: sum(subject.positions(view).values()) > before, dice.uniform(0.1, 1))
                time.sleep(dice.uniform(0, 0.1))
            finally:
                started.send_signal(signal.SIGKILL)
                started.wait()
                started.stdout.close() if started.stdout else None
        self.follower(connection, subject, view).catch_up()
        assert subject.holds(view) == answer(connection, view.topic)
        assert subject.positions(view) == topics.ends(connection, view.topic)

    def test_two_at_once(self, connection: Connection, subject: Subject, view: View, dice: random.Random) -> None:
        one, two = (self.follower(connection, subject, view) for _ in range(2))
        with running(one):
            write(connection, view.topic, history(dice, 50))
            assert eventually(lambda: one.status.state == "running")
            with running(two):
                for _ in range(5):
                    write(connection, view.topic, history(dice, 50), dice)
                    time.sleep(0.1)
                assert eventually(lambda: subject.positions(view) == topics.ends(connection, view.topic))
                assert subject.holds(view) == answer(connection, view.topic)
                assert eventually(lambda: [one.status.state, two.status.state].count("running") == 1)

    def test_offsets_that_are_gone(self, connection: Connection, subject: Subject, view: View) -> None:
        rows = [(f"k{number}", {"id": f"k{number}", "n": number}) for number in range(20)]
        write(connection, view.topic, rows[:10])
        self.follower(connection, subject, view).catch_up()
        before = subject.positions(view)
        write(connection, view.topic, rows[10:])
        place = TopicPartition(view.topic, 0, topics.ends(connection, view.topic)[0])
        _policy(connection, view.topic, "compact,delete")
        admin = connection.admin()
        admin.delete_records([place])[place].result()
        follower = self.follower(connection, subject, view)
        with pytest.raises(FollowError, match="HR-404") as caught:
            follower.catch_up()
        assert f"the offsets {before[0]} to {place.offset - 1} were deleted" in str(caught.value)
        assert "--rebuild" in str(caught.value)
        assert follower.status.state == "failed"
        assert subject.positions(view) == before

    def test_a_topic_that_was_made_again(self, connection: Connection, subject: Subject, view: View) -> None:
        write(connection, view.topic, [(f"k{number}", {"id": f"k{number}", "n": number}) for number in range(10)])
        self.follower(connection, subject, view).catch_up()
        topics.delete(connection, view.topic)
        make_topic(connection, view)
        write(connection, view.topic, [(f"z{number}", {"id": f"z{number}", "n": number}) for number in range(30)])
        self.made_again(connection, subject, view)

    def test_a_topic_that_is_made_again_meanwhile(self, connection: Connection, subject: Subject, view: View) -> None:
        write(connection, view.topic, [(f"k{number}", {"id": f"k{number}", "n": number}) for number in range(10)])
        follower = self.follower(connection, subject, view)
        with running(follower):
            assert eventually(lambda: subject.positions(view) == topics.ends(connection, view.topic))
            topics.delete(connection, view.topic)
            make_topic(connection, view)
            write(connection, view.topic, [(f"z{number}", {"id": f"z{number}", "n": number}) for number in range(30)])
            self.made_again_meanwhile(connection, subject, view, follower)

    def made_again_meanwhile(self, connection: Connection, subject: Subject, view: View, follower: Follower) -> None:
        """It halts, and says so each time until it is built anew."""
        assert eventually(lambda: follower.status.state == "failed")
        assert follower.status.error is not None
        assert follower.status.error.code == "HR-404"
        self.made_again(connection, subject, view)

    def made_again(self, connection: Connection, subject: Subject, view: View) -> None:
        """It halts, and says so; a rebuild takes the new topic."""
        with pytest.raises(FollowError, match=r"HR-404[\s\S]*made again"):
            self.follower(connection, subject, view).catch_up()
        self.follower(connection, subject, view, rebuild=True).catch_up()
        assert subject.holds(view) == answer(connection, view.topic)


def _policy(connection: Connection, topic: str, policy: str) -> None:
    """Kafka deletes records of a topic on request only where retention may."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = connection.admin()
    admin.incremental_alter_configs([resource])[resource].result()
