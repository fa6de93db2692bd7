"""A receiver that is told of every change by an HTTP POST.

    POST /alerts HTTP/1.1
    Content-Type: application/json
    Idempotency-Key: alerts[0]@42/mJ4zM0qUQ8mVQy0Pb3v9Xw
    Headrace-Signature: t=1767225600,v1=5f2c…

    {"id":"alerts[0]@42/mJ4zM0qUQ8mVQy0Pb3v9Xw","follower":"shop.alerts.webhook","position":"alerts[0]@42",
     "at":"2026-01-01T00:00:00.000000Z","key":"c1","row":{"card":"c1","amount":120.0}}

`key` is the record's key as text and `row` the whole row, or null for a deletion.

**At least once.** A receiver has no transaction to share, so the positions are kept in the consumer group of the
follower, after the changes were taken. What was sent since is sent again after a crash, with the same
`Idempotency-Key`: the id that the record carries (`headrace.id`), or else its position and the id of its topic, because
a topic that was deleted and made again has the same positions.

**Order** holds for each key: several requests are under way at once, never two of one key; a change waits until the one
before it was taken.

**Answers.** 2xx: taken. 408, 429, 5xx, 3xx, no answer within `TIMEOUT_S`: not now; the follower waits, as long as
`Retry-After` says if that is longer. Any other 4xx: never; the change becomes a dead letter. Redirections are not
followed.

**Versions.** When another version of what is followed becomes current, it is told of what comes from then on: what the
version holds from history was never news to the receiver.

**Two at once.** Positions are committed in Kafka transactions under the follower's name: the younger of two followers
fences the older one off, which ends (HR-406).

**A broker that goes and comes back.** The call that commits positions may then never end (log/patience.py): it is given
up, and the follower opens anew. What was taken meanwhile is known here and is not sent again.

The standard library's client does: it lets us connect to the address that was judged (address.py), and follows nothing.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as Writer

from headrace import names
from headrace.errors import FollowError
from headrace.followers import change as changes_of
from headrace.followers.address import PrivateAddress, connect
from headrace.followers.change import Unreadable
from headrace.followers.pulse import Pulse
from headrace.followers.signature import HEADER, sign
from headrace.followers.store import Kept, Poison, Positions, StoreAway
from headrace.log import codec
from headrace.log import topic as topics
from headrace.log.connection import TIMEOUT_S as LOG_TIMEOUT_S
from headrace.log.connection import Connection
from headrace.log.consumer import Record
from headrace.log.patience import bounded, let_go
from headrace.log.producer import OPTIONS

BATCH = 200
LANES = 8
TIMEOUT_S = 10.0
LONGEST_RETRY_AFTER_S = 3600.0
_LARGEST_ANSWER = 64 * 1024
_NOT_NOW = {408, 425, 429}
_UNHEARD = logging.getLogger("headrace.followers.unheard")
_FENCED = {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}


@dataclass(frozen=True)
class Target:
    """Where changes are sent; the secret is in neither `repr` nor errors."""

    url: str
    secret: str | None = field(default=None, repr=False)
    allow_private: bool = False
    timeout: float = TIMEOUT_S


class WebhookReceiver:
    """The store of one webhook."""

    def __init__(
        self, target: Target, follower: str, topic: str, connection: Connection, *, since: Positions | None = None
    ) -> None:
        """Where the follower has no positions in the topic it begins at `since`, or at the beginning."""
        self.follower = follower
        self._since = dict(since or {})
        self.batch = BATCH
        self.pulse = Pulse()
        self._target = target
        self._topic = topic
        self._connection = connection
        self._group = names.follow_group(follower)
        self._topic_id = ""
        self._writer: Writer | None = None
        self._metadata: Any = None
        self._positions: dict[int, int] = {}
        self._taken: set[tuple[int, int]] = set()
        self._lanes = [_Lane(target) for _ in range(LANES)]

    def open(self, topic_id: str) -> Kept:
        """Fence other followers of this name off, and tell the group's positions."""
        self.pulse.beat("asking for its positions")
        known = self._positions if topic_id == self._topic_id else {}
        self._topic_id = topic_id
        if self._writer is None:
            self._writer = self._fencing()
        places = [TopicPartition(self._topic, i) for i in topics.partitions(self._connection, self._topic)]
        with self._connection.translated(f"asking for the positions of {self.follower}"):
            # A consumer that never joins: offsets are read and committed for the group from outside it.
            options = {"group.id": self._group, "isolation.level": "read_committed"}
            client = Client(self._connection.client(**options))
            try:
                self._metadata = client.consumer_group_metadata()
                found = [one for one in client.committed(places, timeout=LOG_TIMEOUT_S) if one.offset >= 0]
            finally:
                let_go(client.close, self.follower)
        # A broker that is killed may forget positions that it has just acknowledged: what was kept here counts as well.
        self._positions = known | {one.partition: max(one.offset, known.get(one.partition, 0)) for one in found}
        if not self._positions and self._since:
            # The first batch moves them on; until then they are those of a follower that has sent nothing.
            return Kept(dict(self._since))
        return Kept(dict(self._positions), next((one.metadata for one in found if one.metadata), None))

    def apply(self, changes: Sequence[Record], positions: Positions) -> None:
        """Send the changes, and commit the positions; what was taken before an error is not sent again."""
        lanes: list[list[Record]] = [[] for _ in self._lanes]
        for change in changes:
            if (change.partition, change.offset) not in self._taken:
                lanes[_lane(change, len(lanes))].append(change)
        try:
            self._send(lanes)
        except StoreAway:
            self._commit(self._reached(changes, positions))
            raise
        self._commit(positions)

    def clear(self) -> None:
        """Forget the positions: everything that the topic holds is sent again."""
        self._writer = self._fencing()
        self._taken.clear()
        self._positions.clear()
        admin = self._connection.admin()
        with self._connection.translated(f"forgetting the positions of {self.follower}"):
            try:
                admin.delete_consumer_groups([self._group], request_timeout=LOG_TIMEOUT_S)[self._group].result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise

    def close(self) -> None:
        """End the connections."""
        for lane in self._lanes:
            lane.close()
        self._writer = None

    def _send(self, lanes: Sequence[Sequence[Record]]) -> None:
        busy = [(lane, changes) for lane, changes in zip(self._lanes, lanes, strict=True) if changes]
        if not busy:
            return
        poison: list[tuple[Record, str]] = []
        failures: list[Exception] = []

        def work(lane: _Lane, changes: Sequence[Record]) -> None:
            for change in changes:
                if self.pulse.stopping.is_set():
                    failures.append(StoreAway("it is to stop"))
                    return
                self.pulse.beat(f"posting {change.position}")
                try:
                    lane.post(*self._request(change))
                except _Refused as refused:
                    poison.append((change, refused.reason))
                    return
                except Unreadable as error:
                    poison.append((change, str(error)))
                    return
                except (StoreAway, FollowError) as error:
                    failures.append(error)
                    return
                self._taken.add((change.partition, change.offset))

        if len(busy) == 1:
            work(*busy[0])
        else:
            with ThreadPoolExecutor(len(busy), thread_name_prefix=f"headrace-{self.follower}") as pool:
                for done in [pool.submit(work, *one) for one in busy]:
                    done.result()
        for failure in sorted(failures, key=lambda one: isinstance(one, StoreAway)):
            raise failure
        if poison:
            raise Poison("the receiver refuses some changes", poison)

    def _request(self, change: Record) -> tuple[bytes, dict[str, str]]:
        """The body and the headers for a change."""
        changes_of.row(change)
        position = str(change.position)
        told = {
            "id": change.header(names.HEADER_ID) or f"{position}/{self._topic_id}",
            "follower": self.follower,
            "position": position,
            "at": codec.iso(datetime.fromtimestamp(change.timestamp_ms / 1000, UTC)),
            "key": None if change.key is None else change.key.decode("utf-8", "replace"),
        }
        body = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
        body += b',"row":' + (b"null" if change.value is None else change.value) + b"}"
        # A header is one line of ASCII, whatever an id holds.
        key = str(told["id"]).encode("ascii", "backslashreplace").decode().translate(_ONE_LINE)
        headers = {"Content-Type": "application/json", "User-Agent": "headrace", "Idempotency-Key": key}
        if self._target.secret is not None:
            headers[HEADER] = sign(self._target.secret, body, int(time.time()))
        return body, headers

    def _reached(self, changes: Sequence[Record], positions: Positions) -> dict[int, int]:
        """How far each partition was taken without a gap."""
        reached = dict(positions)
        for change in changes:
            if (change.partition, change.offset) not in self._taken:
                reached[change.partition] = min(reached.get(change.partition, change.offset), change.offset)
        return reached

    def _commit(self, positions: Positions) -> None:
        writer = self._writer
        if writer is None:
            raise StoreAway("the follower is closed")
        places = [TopicPartition(self._topic, i, offset, self._topic_id) for i, offset in positions.items()]

        def transaction() -> None:
            writer.begin_transaction()
            writer.send_offsets_to_transaction(places, self._metadata, LOG_TIMEOUT_S)
            writer.commit_transaction(LOG_TIMEOUT_S)

        self.pulse.beat("keeping its positions")
        try:
            bounded(transaction, LOG_TIMEOUT_S, f"positions-{self.follower}")
        except KafkaException as error:
            # It may have happened or not: the next one to open the store fences this writer off and asks.
            self._writer = None
            raise self._failed(error) from error
        self._positions |= positions
        self._taken = {one for one in self._taken if one[1] >= self._positions.get(one[0], 0)}

    def _fencing(self) -> Writer:
        try:
            options = {**OPTIONS, "transactional.id": self._group, "linger.ms": 0}
            # One that was given up and is fenced off later would say so on the terminal; nobody asks it any more.
            writer = Writer(self._connection.client(**options), logger=_UNHEARD)
            bounded(lambda: writer.init_transactions(LOG_TIMEOUT_S), LOG_TIMEOUT_S + 1, f"fencing-{self.follower}")
        except KafkaException as error:
            raise self._failed(error) from error
        return writer

    def _failed(self, error: KafkaException) -> Exception:
        kafka: KafkaError = error.args[0]
        if kafka.code() in _FENCED:
            return FollowError(
                "HR-406",
                f"Another follower `{self.follower}` has taken over; this one has stopped.",
                found=kafka.str(),
                fix="let one `headrace follow` of this app run",
            )
        return self._connection.error(kafka, f"keeping the positions of {self.follower}")


class _Refused(Exception):  # noqa: N818 - it is the change that is wrong
    """The receiver will never take this change."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Lane:
    """One connection to the receiver, kept open between requests."""

    def __init__(self, target: Target) -> None:
        parts = urlsplit(target.url)
        self._target = target
        self._secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._http: http.client.HTTPConnection | None = None

    def post(self, body: bytes, headers: dict[str, str]) -> None:
        """Send it; StoreAway when it was not taken now, `_Refused` when it never will be."""
        kept = self._http is not None
        try:
            status, retry_after, said = self._exchange(body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if kept:
                # The receiver may have closed a connection that was kept open; a new one tells.
                self.post(body, headers)
                return
            raise StoreAway(f"{self._host} does not answer: {error or type(error).__name__}") from error
        if 200 <= status < 300:
            return
        told = f"{self._host} answers {status}" + (f": {said}" if said else "")
        if 400 <= status < 500 and status not in _NOT_NOW:
            raise _Refused(told)
        raise StoreAway(told, retry_after=_seconds(retry_after))

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def _exchange(self, body: bytes, headers: dict[str, str]) -> tuple[int, str | None, str]:
        if self._http is None:
            self._http = self._connect()
        using = self._http
        with _Deadline(using, self._target.timeout):
            using.request("POST", self._path, body, headers)
            answer = using.getresponse()
            said = answer.read(_LARGEST_ANSWER)
            if answer.will_close or answer.read(1):
                self.close()
            return answer.status, answer.getheader("Retry-After"), _line(said)

    def _connect(self) -> http.client.HTTPConnection:
        try:
            made: Any = connect(
                self._host, self._port, allow_private=self._target.allow_private, timeout=self._target.timeout
            )
        except PrivateAddress as refused:
            raise FollowError(
                "HR-411",
                f"The webhook {self._host} is not called: {refused}.",
                found=refused.address,
                fix="correct the address; or, if it is a receiver of your own, declare it with `allow_private=True`",
            ) from refused
        if self._secure:
            try:
                made = ssl.create_default_context().wrap_socket(made, server_hostname=self._host)
            except BaseException:
                made.close()
                raise
        using = http.client.HTTPConnection(self._host, self._port, timeout=self._target.timeout)
        using.default_port = 443 if self._secure else 80
        using.auto_open = 0  # it must never look the name up by itself
        using.sock = made
        return using


class _Deadline:
    """Cuts an exchange off after so many seconds, and makes it a TimeoutError.

    The time-out of a socket is for one read: a receiver that sends a byte now and then would hold us for ever. The
    client takes an answer that was cut off in its headers for a whole one, so that it was must be remembered.
    """

    def __init__(self, using: http.client.HTTPConnection, seconds: float) -> None:
        self._using = using
        self._seconds = seconds
        self._over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._over:
            raise TimeoutError(f"no whole answer within {self._seconds:g} seconds") from error

    def _cut(self) -> None:
        self._over = True
        if self._using.sock is not None:
            with contextlib.suppress(OSError):
                self._using.sock.shutdown(socket.SHUT_RDWR)


def _lane(change: Record, lanes: int) -> int:
    return change.partition % lanes if change.key is None else zlib.crc32(change.key) % lanes


def _seconds(retry_after: str | None) -> float:
    """What `Retry-After` asks for: seconds, or a date."""
    if retry_after is None:
        return 0.0
    text = retry_after.strip()
    if text.isdecimal():
        return min(float(text), LONGEST_RETRY_AFTER_S)
    try:
        asked = parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError):
        return 0.0
    return min(max(0.0, asked), LONGEST_RETRY_AFTER_S)


def _line(said: bytes) -> str:
    """The beginning of what the receiver said, as one line."""
    return " ".join(said[:200].decode("utf-8", "replace").split())


_ONE_LINE = dict.fromkeys((*range(0x20), 0x7F))
