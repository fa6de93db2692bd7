"""The changes of one view, read once from its topic and shared by all subscribers.

A thread reads the topic and passes each poll to the event loop, which keeps the last changes. A subscriber is a place
in them. What is older than the oldest kept change is read from the topic for that subscriber alone, a few at a time,
until the shared changes are reached. A subscriber that falls behind the oldest kept change is too slow and is
disconnected: it can resume.

A log that is away is waited for (log/away.py): the subscribers are told so, and told when it is back, and miss nothing.
A feed that cannot read on (the topic is gone, or its start is) fails for all its subscribers; the next one opens
another.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.errors import HeadraceError, ServeError
from headrace.log import away
from headrace.log.away import Sight
from headrace.log.connection import TIMEOUT_S, Connection
from headrace.serve.broker import Broker, Facts
from headrace.serve.change import Change, Decoder
from headrace.serve.event import Event
from headrace.serve.positions import Positions, token
from headrace.serve.view import View

KEPT = 10_000
KEPT_BYTES = 64 * 1024 * 1024
POLL = 1000
CATCHING_UP = 8
STALL_S = 30.0
WATCH_S = 30.0
_AHEAD = 4


class Gone(Exception):  # noqa: N818 - it is no error, but a reason to begin anew
    """The topic no longer holds what is asked for."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A change with its event, which has the token of one who has read everything before it too."""

    change: Change
    event: Event


class Feed:
    """The changes of one view; made and used on one event loop."""

    def __init__(self, broker: Broker, view: View, pool: ThreadPoolExecutor) -> None:
        self.view = view
        self.failure: HeadraceError | None = None
        self.away: str | None = None
        self._broker = broker
        self._pool = pool
        self._decoder = Decoder(view)
        self._facts: Facts | None = None
        self._kept: list[Shared] = []
        self._kept_bytes = 0
        self.first = 0
        self._begin: list[int] = []
        self._now: list[int] = []
        self._listeners: set[asyncio.Event] = set()
        self._catching_up = asyncio.Semaphore(CATCHING_UP)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def facts(self) -> Facts:
        if self._facts is None:
            raise RuntimeError("the feed is not open")
        return self._facts

    async def open(self) -> None:
        """Begin to read, a little before the end, so that those who were away for a moment find all in memory."""
        topic = self.view.topic
        self._facts = await self._broker.facts(topic)
        first, end = await self._broker.firsts(topic), await self._broker.ends(topic)
        back = KEPT // 2 // max(1, len(end))
        self._now = [max(first[i], end[i] - back) for i in range(len(end))]
        self._begin = list(self._now)
        client = await asyncio.to_thread(_client, self._broker.connection, topic, dict(enumerate(self._now)))
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._read, args=(client, loop), name=f"feed {topic}", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Read no more."""
        self._ending.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, STALL_S)

    def fail(self, error: HeadraceError) -> None:
        """Disconnect all subscribers, with the reason."""
        self.failure = self.failure or error
        self._ending.set()
        self._wake()

    async def lost(self, given: Positions) -> str | None:
        """Why a reader at these positions cannot go on from there; None when it can."""
        first, end = await self._broker.firsts(self.view.topic), await self._broker.ends(self.view.topic)
        if given.topic != self.facts.digest or len(given.offsets) > len(end):
            return "the view has another topic since then"
        for partition, offset in enumerate(given.offsets):
            if offset < first[partition]:
                return f"the topic no longer holds the changes after offset {offset} of partition {partition}"
            if offset > end[partition]:
                return f"the topic ends at offset {end[partition]} of partition {partition}, before {offset}"
        kept = self.facts.deletions_s
        if kept is not None and time.time() - given.at > kept and _padded(given.offsets, len(end)) != _listed(end):
            return f"the position is older than the {kept:.0f} seconds for which the topic keeps deletions"
        return None

    async def positions(self, offsets: Mapping[int, int], at: int) -> Positions:
        """Positions of a table; partitions that it has not read begin at what the topic holds.

        Where it has read the whole topic they hold as of this moment, and also where it has read nothing at all: who
        has no rows misses no deletion.
        """
        first, end = await self._broker.firsts(self.view.topic), await self._broker.ends(self.view.topic)
        every = {i: offsets.get(i, first[i]) for i in end}
        now = not offsets or all(every[i] >= one for i, one in end.items())
        return Positions.of(self.facts.digest, int(time.time()) if now else at, every)

    # The shared changes

    def covers(self, offsets: Sequence[int]) -> bool:
        """Whether all changes behind these offsets are among those that are kept."""
        return all(mine >= begin for mine, begin in zip(offsets, self._begin, strict=True))

    def reached(self, offsets: Sequence[int]) -> bool:
        """Whether the shared changes are at least as far as these offsets."""
        return all(now >= mine for mine, now in zip(offsets, self._now, strict=True))

    @property
    def partitions(self) -> int:
        return len(self._now)

    @property
    def id(self) -> str:
        """The token of one who has read everything that was shared."""
        return token(self.facts.digest, int(time.time()), self._now)

    def since(self, place: int) -> tuple[Sequence[Shared], int]:
        """The changes from a place on, and the next place; ServeError when the place is no longer kept."""
        if self.failure is not None:
            raise self.failure
        if place < self.first:
            raise ServeError(
                "HR-517",
                "The client reads too slowly: the changes it has yet to read are no longer in memory.",
                found=f"{self.first - place:,} changes too late, of {len(self._kept):,} that are kept",
                fix="connect again with the last `id` (Last-Event-ID or ?from=): nothing is missed; read faster, or "
                "filter",
            )
        return self._kept[place - self.first :], self.first + len(self._kept)

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is something new."""
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield event
        finally:
            self._listeners.discard(event)

    async def missed(self, offsets: Sequence[int]) -> AsyncGenerator[tuple[list[Change], dict[int, int]], None]:
        """The changes from these offsets up to where the shared ones are, with the offsets reached after each poll."""
        until = list(self._now)
        starts = {i: one for i, one in enumerate(offsets) if one < until[i]}
        async with self._catching_up:
            loop = asyncio.get_running_loop()
            client = await loop.run_in_executor(self._pool, _client, self._broker.connection, self.view.topic, starts)
            polling: Future[list[Message]] | None = None
            try:
                heard = time.monotonic()
                while starts:
                    polling = self._pool.submit(_poll, client, 0.2)
                    records, reached = _sorted(self._broker.connection, await asyncio.wrap_future(polling))
                    if reached:
                        heard = time.monotonic()
                    elif time.monotonic() - heard > STALL_S:
                        raise self._broker.connection.error(KafkaError(KafkaError._TIMED_OUT), "catching up")
                    # What lies behind is among the shared changes, and must not count as read.
                    reached = {i: min(offset, until[i]) for i, offset in reached.items()}
                    missed = (one for one in records if _offset(one) < until[_partition(one)])
                    yield self._decoder.changes(missed), reached
                    starts = {i: one for i, one in starts.items() if reached.get(i, one) < until[i]}
            finally:
                self._pool.submit(_close, client, polling)

    def _arrived(self, changes: list[Change], reached: Mapping[int, int], room: threading.Semaphore) -> None:
        room.release()
        at = int(time.time())
        for change in changes:
            self._now[change.partition] = change.offset + 1
            reached_id = token(self.facts.digest, at, self._now)
            self._kept.append(Shared(change, Event("change", change.data, reached_id)))
            self._kept_bytes += len(change.data)
        for partition, offset in reached.items():
            self._now[partition] = max(self._now[partition], offset)
        if len(self._kept) > 2 * KEPT or self._kept_bytes > KEPT_BYTES:
            self._forget()
        self._wake()

    def _forget(self) -> None:
        """Forget the older half."""
        half = len(self._kept) // 2
        for shared in self._kept[:half]:
            self._begin[shared.change.partition] = shared.change.offset + 1
            self._kept_bytes -= len(shared.change.data)
        del self._kept[:half]
        self.first += half

    def _wake(self) -> None:
        for event in self._listeners:
            event.set()

    def _absent(self, away: str | None) -> None:
        self.away = away
        self._wake()

    # The thread

    def _read(self, client: Consumer, loop: asyncio.AbstractEventLoop) -> None:
        room = threading.Semaphore(_AHEAD)
        connection = self._broker.connection
        sight, told = Sight(connection, self.view.topic, range(len(self._begin))), None
        try:
            while not self._ending.is_set():
                sight.look()
                if sight.away != told:
                    told = sight.away
                    _tell(loop, self._absent, told)
                messages = _poll(client, 0.5)
                records, reached = _sorted(connection, messages)
                if not reached:
                    continue
                changes = self._decoder.changes(records)
                while not room.acquire(timeout=0.5):
                    if self._ending.is_set():
                        return
                _tell(loop, self._arrived, changes, reached, room)
        except (Gone, HeadraceError, KafkaException) as error:
            if not self._ending.is_set():
                _tell(loop, self.fail, _unreadable(self.view, error))
        finally:
            client.close()


class Feeds:
    """A feed for each view that somebody has subscribed to."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._feeds: dict[str, Feed] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._pool = ThreadPoolExecutor(CATCHING_UP, "catching-up")

    async def of(self, view: View) -> Feed:
        """The feed of the view, opened if need be."""
        async with self._opening.setdefault(view.name, asyncio.Lock()):
            facts = await self._broker.facts(view.topic)
            feed = self._feeds.get(view.name)
            if feed is not None and (feed.view != view or feed.facts != facts):
                self.moved(feed.view)
                feed = None
            if feed is None or feed.failure is not None:
                feed = Feed(self._broker, view, self._pool)
                await feed.open()
                self._feeds[view.name] = feed
            return feed

    async def watch(self) -> None:
        """Notice, for ever, when a topic has more partitions than before, or is another one."""
        while True:
            await asyncio.sleep(WATCH_S)
            for feed in list(self._feeds.values()):
                with suppress(HeadraceError):
                    if await self._broker.facts(feed.view.topic) != feed.facts:
                        self.moved(feed.view)

    @property
    def views(self) -> list[View]:
        """Those that somebody has subscribed to, in the versions that are read."""
        return [feed.view for feed in self._feeds.values()]

    def moved(self, view: View) -> None:
        """The view is not what it was: its subscribers connect again and find what it is."""
        feed = self._feeds.pop(view.name, None)
        if feed is not None:
            feed.fail(
                ServeError(
                    "HR-518",
                    f"The view `{view.name}` was replaced or changed.",
                    found=f"version {view.entry.version} on the topic {view.topic}",
                    fix="connect again",
                )
            )

    async def close(self) -> None:
        for feed in self._feeds.values():
            await feed.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _tell(loop: asyncio.AbstractEventLoop, listener: Callable[..., None], *given: object) -> None:
    """Call a listener in the loop; when that is closed, nobody is left to be told."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(listener, *given)


def _client(connection: Connection, topic: str, starts: Mapping[int, int]) -> Consumer:
    options = {
        "group.id": "headrace.serve",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }
    with connection.translated(f"reading {topic}"):
        client = Consumer(connection.client(**options))
        # Without a question first, the client finds the leaders half a second late.
        client.list_topics(topic, timeout=TIMEOUT_S)
        client.assign([TopicPartition(topic, partition, offset) for partition, offset in starts.items()])
    return client


def _close(client: Consumer, polling: Future[list[Message]] | None) -> None:
    """Close it when its last poll is over: a client that is closed while it polls takes the process with it."""
    wait([polling] if polling is not None else [])
    client.close()


def _poll(client: Consumer, seconds: float) -> list[Message]:
    """What is there, at once if there is something."""
    first = client.poll(seconds)
    return [] if first is None else [first, *client.consume(POLL - 1, 0)]


def _sorted(connection: Connection, messages: Sequence[Message]) -> tuple[list[Message], dict[int, int]]:
    """The records of a poll, and the next offset of each partition that was heard of (markers are stepped over)."""
    records: list[Message] = []
    reached: dict[int, int] = {}
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
            reached[_partition(message)] = _offset(message) + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            reached[_partition(message)] = _offset(message)
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            raise Gone(error.str())
        elif not away.passes(error) and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise connection.error(error, "reading a view")
    return records, reached


def _partition(message: Message) -> int:
    partition = message.partition()
    if partition is None:
        raise ValueError("a message without a partition")
    return partition


def _offset(message: Message) -> int:
    offset = message.offset()
    if offset is None:
        raise ValueError("a message without an offset")
    return offset


def _padded(offsets: Sequence[int], count: int) -> list[int]:
    return [*offsets, *[0] * (count - len(offsets))]


def _listed(offsets: Mapping[int, int]) -> list[int]:
    return [offsets[i] for i in range(len(offsets))]


def _unreadable(view: View, error: Exception) -> ServeError:
    return ServeError(
        "HR-518",
        f"The topic of the view `{view.name}` cannot be read on.",
        found=f"{view.topic}: {error.what if isinstance(error, HeadraceError) else error}",
        fix="connect again; `headrace topic describe` shows what the topic holds",
    )
