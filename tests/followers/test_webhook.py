"""The webhook of a stream or view: the follower contract, and what only a receiver has."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Consumer as Client
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from tests.contracts.changes import Row, answer, make_topic, view, write
from tests.contracts.follower_contract import FollowerContract, eventually, running

from headrace import names
from headrace.errors import FollowError
from headrace.followers import webhook
from headrace.followers.feed import Batch, Feed
from headrace.followers.follower import Follower
from headrace.followers.store import Store, StoreAway
from headrace.followers.webhook import Target, WebhookReceiver
from headrace.log import topic as topics
from headrace.log.catalogue import View
from headrace.log.connection import Connection
from headrace.log.dead import dead_letters
from headrace.log.producer import Producer
from headrace.log.topic import identities

ROOT = Path(__file__).parents[2]
SECRET = "sesame"


class Receiver:
    """A receiver that can be stopped, and the positions of the group that tells it."""

    poison: ClassVar[Row] = {"answer": 422}
    reason = "127.0.0.1 answers 422"

    def __init__(self, home: Path, bootstrap: str) -> None:
        self._file = home / "taken.jsonl"
        self._connection = Connection(bootstrap)
        self._port = 0
        self.up()

    def down(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def up(self) -> None:
        command = [sys.executable, "-m", "tests.followers.receiver", str(self._port), str(self._file), SECRET]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/changes?of=totals"

    @property
    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/state") as response:
            return json.load(response)

    def store(self, view: View) -> Store:
        target = Target(self.url, SECRET, allow_private=True, timeout=3)
        return WebhookReceiver(target, _name(view), view.topic, self._connection)

    def told(self, view: View) -> dict[str, Any]:
        return {"kind": "webhook", "url": self.url, "secret": SECRET}

    def holds(self, view: View) -> dict[str, Row]:
        state = self.state
        assert state["disorder"] == []
        return state["rows"].get(_name(view), {})

    def positions(self, view: View) -> dict[int, int]:
        client = Client(self._connection.client(**{"group.id": names.follow_group(_name(view))}))
        try:
            found = client.committed([TopicPartition(view.topic, i) for i in range(2)], timeout=10)
        finally:
            client.close()
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def spoil(self, view: View) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/", method="DELETE")
        urllib.request.urlopen(request).close()


def _name(view: View) -> str:
    return f"{view.app}.{view.view}.webhook"


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory, bootstrap: str) -> Iterator[Receiver]:
    made = Receiver(tmp_path_factory.mktemp("receiver"), bootstrap)
    yield made
    made.down()


class TestContract(FollowerContract):
    @pytest.fixture
    def subject(self, receiver: Receiver) -> Receiver:
        return receiver

    def made_again(self, connection: Connection, subject: Any, view: View) -> None:
        """Kafka forgets the positions in a topic that is deleted: the receiver is told the new one from its start."""
        assert eventually(lambda: subject.positions(view) == {})
        self.follower(connection, subject, view).catch_up()
        told = subject.holds(view)
        assert {key: told.get(key) for key in answer(connection, view.topic)} == answer(connection, view.topic)

    def made_again_meanwhile(self, connection: Connection, subject: Any, view: View, follower: Follower) -> None:
        """The same, or it halts: it depends on whether Kafka has forgotten the positions when it comes."""
        wanted = answer(connection, view.topic)
        assert eventually(
            lambda: follower.status.error is not None or {key: subject.holds(view).get(key) for key in wanted} == wanted
        )
        assert follower.status.error is None or follower.status.error.code == "HR-404"


@pytest.fixture
def connection(bootstrap: str) -> Connection:
    return Connection(bootstrap)


@pytest.fixture
def totals(connection: Connection, topic: Callable[[str], str]) -> View:
    return make_topic(connection, view(topic("app")))


def test_a_change_as_the_receiver_sees_it(connection: Connection, totals: View, tmp_path: Path) -> None:
    heard: list[tuple[str, dict[str, str], bytes]] = []
    with listening(lambda request: heard.append(request) or b"HTTP/1.1 204 No Content\r\n\r\n") as port:
        with Producer(connection) as producer:
            producer.send(totals.topic, '{"id":"a","amount":1.10}', key="a", partition=0, timestamp=1_767_225_600_000)
            producer.send(totals.topic, None, key="ü\n", partition=0, headers={"headrace.id": "q/t[0]@7/ü\r\nX: y"})
        target = Target(f"http://127.0.0.1:{port}/in?x=1", SECRET, allow_private=True)
        store = WebhookReceiver(target, "shop.totals.webhook", totals.topic, connection)
        Follower("shop.totals", totals.topic, store, connection).catch_up()
    (first, headers, body), (_, second, deletion) = sorted(heard, key=lambda request: request[1]["idempotency-key"])
    assert first == "POST /in?x=1 HTTP/1.1"
    assert headers["host"] == f"127.0.0.1:{port}"
    assert headers["content-type"] == "application/json"
    assert headers["idempotency-key"] == f"{totals.topic}[0]@0/{identities(connection, [totals.topic])[totals.topic]}"
    assert body.endswith(b'"row":{"id":"a","amount":1.10}}'), "the row is the record's, byte for byte"
    assert json.loads(body) == {
        "id": headers["idempotency-key"],
        "follower": "shop.totals.webhook",
        "position": f"{totals.topic}[0]@0",
        "at": "2026-01-01T00:00:00.000000Z",
        "key": "a",
        "row": {"id": "a", "amount": 1.1},
    }
    assert webhook_verify(headers, body)
    assert not webhook_verify(headers, body + b" ")
    told = json.loads(deletion)
    assert (told["id"], told["key"], told["row"]) == ("q/t[0]@7/ü\r\nX: y", "ü\n", None)
    assert second["idempotency-key"] == "q/t[0]@7/\\xfcX: y", "one line, whatever the id is"


def webhook_verify(headers: dict[str, str], body: bytes) -> bool:
    from headrace.followers.signature import verify

    header = headers["headrace-signature"]
    assert not verify(SECRET, header, body, now=time.time() + 3600)
    assert not verify("other", header, body)
    return verify(SECRET, header, body)


def test_answers_that_mean_not_now(connection: Connection, receiver: Receiver, totals: View) -> None:
    rows = [(str(code), {"id": str(code), "answer": code, "times": 1}) for code in (500, 503, 408, 429, 301)]
    write(connection, totals.topic, rows)
    store = receiver.store(totals)
    follower = Follower(f"{totals.app}.totals", totals.topic, store, connection)
    follower.catch_up()
    assert receiver.holds(totals) == dict(rows)
    assert follower.status.dead == 0


def test_answers_that_mean_never(connection: Connection, receiver: Receiver, totals: View) -> None:
    rows = [(str(code), {"id": str(code), "answer": code}) for code in (400, 403, 404, 410, 422)]
    write(connection, totals.topic, [*rows, ("fine", {"id": "fine"})])
    follower = Follower(f"{totals.app}.totals", totals.topic, receiver.store(totals), connection)
    follower.catch_up()
    assert receiver.holds(totals) == {"fine": {"id": "fine"}}
    reasons = {letter.reason for letter in dead_letters(connection, totals.topic)}
    assert reasons == {f"127.0.0.1 answers {code}" for code, _ in rows}


def test_what_was_taken_is_not_sent_again_after_a_pause(
    connection: Connection, receiver: Receiver, totals: View
) -> None:
    before = receiver.state.get("repeats", 0)
    rows: list[tuple[str, Row]] = [(f"k{number}", {"id": f"k{number}"}) for number in range(30)]
    rows.append(("slow", {"id": "slow", "answer": 503, "times": 3}))
    write(connection, totals.topic, rows)
    Follower(f"{totals.app}.totals", totals.topic, receiver.store(totals), connection).catch_up()
    assert receiver.holds(totals) == dict(rows)
    assert receiver.state.get("repeats", 0) == before


def test_a_client_that_brings_nothing_is_given_up_for_another(
    connection: Connection, receiver: Receiver, totals: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose broker went and came back may do."""
    gather, deaf = Feed.gather, list[Feed]()

    def heard(feed: Feed, most: int, timeout: float) -> Batch:
        if not deaf:
            deaf.append(feed)
        if feed is deaf[0]:
            time.sleep(timeout)
            return Batch((), {})
        return gather(feed, most, timeout)

    monkeypatch.setattr(Feed, "gather", heard)
    monkeypatch.setattr("headrace.log.away.SILENCE_S", 0.5)
    follower = Follower(f"{totals.app}.totals", totals.topic, receiver.store(totals), connection)
    with running(follower):
        assert eventually(lambda: follower.status.state == "running")
        write(connection, totals.topic, [("a", {"id": "a"})])
        assert eventually(lambda: receiver.holds(totals) == {"a": {"id": "a"}})


def test_positions_that_a_broker_forgets_are_known_here(
    connection: Connection, receiver: Receiver, totals: View
) -> None:
    """A broker that is killed right after it has acknowledged positions may not have them when it is back."""
    topic_id = identities(connection, [totals.topic])[totals.topic]
    store = receiver.store(totals)
    store.open(topic_id)
    store.apply((), {0: 7, 1: 3})
    group = names.follow_group(_name(totals))
    older = ConsumerGroupTopicPartitions(group, [TopicPartition(totals.topic, 0, 2)])
    admin = connection.admin()
    admin.alter_consumer_group_offsets([older], request_timeout=10)[group].result()
    assert receiver.positions(totals) == {0: 2, 1: 3}
    assert store.open(topic_id).positions == {0: 7, 1: 3}
    store.close()
    assert receiver.store(totals).open(topic_id).positions == {0: 2, 1: 3}


def test_the_younger_of_two_fences_the_older_off(connection: Connection, receiver: Receiver, totals: View) -> None:
    older = Follower(f"{totals.app}.totals", totals.topic, receiver.store(totals), connection)
    with running(older):
        assert eventually(lambda: older.status.state == "running")
        younger = Follower(f"{totals.app}.totals", totals.topic, receiver.store(totals), connection)
        with running(younger):
            assert eventually(lambda: younger.status.state == "running")
            write(connection, totals.topic, [("a", {"id": "a"})])
            assert eventually(lambda: older.status.state == "failed")
            assert older.status.error is not None
            assert older.status.error.code == "HR-406"
            assert eventually(lambda: receiver.positions(totals) == topics.ends(connection, totals.topic))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.1.2.3", "169.254.169.254", "0.0.0.0"])
def test_private_addresses_are_not_called(host: str) -> None:
    with pytest.raises(FollowError, match=r"HR-411[\s\S]*allow_private"):
        webhook._Lane(Target(f"https://{host}:1/")).post(b"{}", {})


def test_a_private_address_halts_the_follower(connection: Connection, totals: View) -> None:
    write(connection, totals.topic, [("a", {"id": "a"})])
    store = WebhookReceiver(Target("https://localhost:1/"), _name(totals), totals.topic, connection)
    with pytest.raises(FollowError, match="HR-411"):
        Follower(f"{totals.app}.totals", totals.topic, store, connection).catch_up()
    assert list(dead_letters(connection, totals.topic)) == []


def test_a_name_is_looked_up_once_for_a_connection(
    connection: Connection, totals: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name server that answers with a public address first and with a private one later does not lead inside."""
    asked: list[str] = []
    answers = ["192.0.2.1", "127.0.0.1"]
    real = socket.getaddrinfo

    def rebinding(host: str, port: int, *args: Any, **more: Any) -> Any:
        if host != "rebind.example":
            return real(host, port, *args, **more)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers[min(len(asked), 2) - 1], port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    monkeypatch.setattr("headrace.followers.address.is_public", lambda text: text == "192.0.2.1")
    lane = webhook._Lane(Target("https://rebind.example/", timeout=0.3))
    with pytest.raises(StoreAway):
        lane.post(b"{}", {})
    assert asked == ["rebind.example"]
    with pytest.raises(FollowError, match="HR-411"):
        lane.post(b"{}", {})


def test_a_certificate_that_is_not_trusted(tmp_path: Path) -> None:
    import ssl

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    order = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    place = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    made = subprocess.run([*order.split(), *place], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip("there is no openssl to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with listening(lambda request: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", context) as port:
        target = Target(f"https://localhost:{port}/", allow_private=True, timeout=3)
        with pytest.raises(StoreAway, match="certificate verify failed"):
            webhook._Lane(target).post(b"{}", {})
        trusting = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from headrace.followers import webhook; "
                "webhook._Lane(webhook.Target(sys.argv[1], allow_private=True, timeout=3)).post(b'{}', {})",
                target.url,
            ],
            env={"SSL_CERT_FILE": str(certificate)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert trusting.returncode == 0, trusting.stderr


def test_a_receiver_that_drips_is_cut_off() -> None:
    def drip(request: Any) -> bytes:
        return b"HTTP/1.1 200 OK\r\n"

    with listening(drip, drip=b"X: y\r\n") as port:
        lane = webhook._Lane(Target(f"http://127.0.0.1:{port}/", allow_private=True, timeout=0.5))
        with pytest.raises(StoreAway, match="does not answer"):
            lane.post(b"{}", {})


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [(None, 0, 0), ("7", 7, 7), (" 7 ", 7, 7), ("99999999", 3600, 3600), ("soon", 0, 0), ("-5", 0, 0), ("", 0, 0)],
)
def test_retry_after(header: str | None, least: float, most: float) -> None:
    assert least <= webhook._seconds(header) <= most


def test_retry_after_a_date() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < webhook._seconds(later) <= 60
    assert webhook._seconds(format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)) == 0


def test_the_secret_is_not_shown() -> None:
    target = replace(Target("https://example.com/"), secret=SECRET)
    assert SECRET not in repr(target)


class listening:
    """A server that answers each request with what `reply` gives; then it drips, if it is told to."""

    def __init__(self, reply: Callable[[Any], bytes | None], context: Any = None, drip: bytes = b"") -> None:
        self._reply = reply
        self._context = context
        self._drip = drip
        self._end = threading.Event()

    def __enter__(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return self._listener.getsockname()[1]

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._listener.close()

    def _serve(self) -> None:
        while not self._end.is_set():
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(taken,), daemon=True).start()

    def _talk(self, taken: socket.socket) -> None:
        try:
            stream = taken if self._context is None else self._context.wrap_socket(taken, server_side=True)
            with stream, stream.makefile("rb") as lines:
                while line := lines.readline().decode().strip():
                    headers: dict[str, str] = {}
                    while header := lines.readline().decode("latin-1").strip():
                        name, _, value = header.partition(": ")
                        headers[name.lower()] = value
                    body = lines.read(int(headers["content-length"]))
                    stream.sendall(self._reply((line, headers, body)) or b"")
                    while self._drip and not self._end.wait(0.1):
                        stream.sendall(self._drip)
        except OSError:
            return
