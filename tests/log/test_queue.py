from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.log.dead import dead_letters
from headrace.log.queue import Message, Queue


def receive(queue: Queue, count: int) -> list[Message]:
    """Exactly `count` messages; joining a share group takes the broker some seconds."""
    for _ in range(60):
        messages = queue.receive(count, timeout=1.0)
        if messages:
            assert len(messages) == count
            return messages
    pytest.fail("no message came")


def test_settling(connection: Connection, make_topic: Callable[..., str]) -> None:
    """One worker: accept, release and reject, smaller receives than the broker gives, and a poison message."""
    topic = make_topic()
    with Queue(connection, topic, topic, max_deliveries=3) as queue:
        for name in ("good", "again", "bad", "poison"):
            queue.send(name, key=name)
        queue.flush()
        good, again = receive(queue, 2)
        assert [(m.value, m.key, m.deliveries) for m in (good, again)] == [
            (b"good", b"good", 1),
            (b"again", b"again", 1),
        ]
        good.accept()
        with pytest.raises(LogError, match="HR-230"):
            good.accept()
        again.release()
        bad, poison = receive(queue, 2)
        bad.reject("not a number")
        poison.release("first")
        second = {m.value: m for m in receive(queue, 2)}
        assert {value: m.deliveries for value, m in second.items()} == {b"again": 2, b"poison": 2}
        second[b"again"].accept()
        # The poison message is not settled: the next receive releases it.
        (third,) = receive(queue, 1)
        assert (third.value, third.deliveries) == (b"poison", 3)
        third.release("still bad")
        assert queue.receive(10, timeout=1.0) == []
    with pytest.raises(LogError, match="not in hand"):
        third.accept()
    assert [(letter.raw, letter.reason, letter.query) for letter in dead_letters(connection, topic)] == [
        (b"bad", "not a number", topic),
        (b"poison", "released after 3 deliveries: still bad", topic),
    ]


def test_two_workers_share_the_messages(connection: Connection, make_topic: Callable[..., str]) -> None:
    topic = make_topic(partitions=2)
    with Queue(connection, topic, topic) as queue:
        for i in range(60):
            # A broker gives out whole batches of the producer: with one message each, both workers get some.
            queue.send(str(i)).wait()
    done: Counter[bytes] = Counter()
    both = threading.Barrier(2, timeout=25)

    def work() -> None:
        with Queue(connection, topic, topic, batch=5) as mine:
            first = True
            while sum(done.values()) < 60:
                messages = mine.receive(5, timeout=0.5)
                if messages and first:
                    both.wait()
                    first = False
                for message in messages:
                    done[message.value or b""] += 1
                    message.accept()

    with ThreadPoolExecutor(2) as pool:
        for worker in [pool.submit(work), pool.submit(work)]:
            worker.result()
    assert done == Counter({str(i).encode(): 1 for i in range(60)})


DYING = """
import os, signal, sys
from headrace.log.connection import Connection
from headrace.log.queue import Queue

queue = Queue(Connection(sys.argv[1]), sys.argv[2], sys.argv[2], lock="15 seconds")
while not queue.receive(1, timeout=1.0):
    pass
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_dead_worker_held_is_delivered_again(connection: Connection, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    with Queue(connection, topic, topic) as queue:
        queue.send("work")
        queue.send("killer")
    done = subprocess.run([sys.executable, "-c", DYING, connection.bootstrap, topic], check=False)
    assert done.returncode == -9
    with Queue(connection, topic, topic) as queue:
        work, killer = receive(queue, 2)
        assert [(m.value, m.deliveries) for m in (work, killer)] == [(b"work", 2), (b"killer", 2)]
        work.accept()
    with Queue(connection, topic, topic, max_deliveries=2) as queue:
        while not (letters := list(dead_letters(connection, topic))):
            assert queue.receive(1, timeout=0.5) == [], "a message that kills its workers is not handed out for ever"
    assert [(letter.raw, letter.reason) for letter in letters] == [
        (b"killer", "never settled in 2 deliveries: its workers died or hung")
    ]


def test_a_queue_that_the_broker_cannot_run(connection: Connection, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    with pytest.raises(LogError, match=r"lock\.duration") as caught:
        Queue(connection, topic, topic, lock="1 second").receive(1, 0)
    assert caught.value.code == "HR-231"
    with pytest.raises(LogError, match="max_deliveries=10"):
        Queue(connection, topic, topic, max_deliveries=10).receive(1, 0)
    with pytest.raises(LogError, match="HR-205"):
        Queue(connection, "nowhere", "g").receive(1, 0)
