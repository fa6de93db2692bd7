"""Nexmark's events by a seed: persons, auctions and bids as JSON records.

Event n has `ts = START + n * 1000 / rate`, in milliseconds. Half of the bids go to the hot auction (the first of the
newest block of 100), the others to one of the newest 100 auctions or to one of 10 that do not exist yet. Three bids in
four come from the hot bidder, the rest from the newest 1000 persons or 10 to come. Prices are log-uniform from 1 to
1,000,000 dollars, in cents. Half of the bids carry one of 4 popular channels, the others one of 10,000. A record has
274 bytes on average. START is ten seconds before a midnight, so that daily queries see two days.

With a `shuffle` of n, each n consecutive events come in random order: up to n / rate seconds of disorder. A shorter run
is a prefix of a longer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

START_MS = int(datetime(2025, 12, 31, 23, 59, 50, tzinfo=UTC).timestamp() * 1000)
CHUNK = 50_000  # events of one random stream: another number gives other events

_EPOCH, _PERSONS, _AUCTIONS = 50, 1, 3
_FIRST_ID = 1000
_FIRST_CATEGORY, _CATEGORIES = 10, 5
_ACTIVE_PEOPLE, _ID_LEAD, _IN_FLIGHT, _HOT_BLOCK = 1000, 10, 100, 100
_COLD_CHANNELS = 10_000
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_FIRST = ("Ada", "Bo", "Cleo", "Dag", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jun", "Kai")
_LAST = ("Ames", "Brandt", "Costa", "Dahl", "Evers", "Frost", "Grant", "Hale", "Ito")

_PERSON = '{"kind":"person","ts":%d,"id":%d,"name":"%s","email":"%s","card":"%s","city":"%s","state":"%s","extra":"%s"}'
_AUCTION = (
    '{"kind":"auction","ts":%d,"id":%d,"item":"%s","descr":"%s","initial_bid":%d,"reserve":%d,"expires":%d,'
    '"seller":%d,"category":%d,"extra":"%s"}'
)
_BID = '{"kind":"bid","ts":%d,"auction":%d,"bidder":%d,"price":%d,"channel":"%s","url":"%s","extra":"%s"}'

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """Which events: how many, how many a second of event time, and in which disorder."""

    count: int
    seed: int = 1
    rate: int = 10_000
    shuffle: int = 1

    def __post_init__(self) -> None:
        if CHUNK % self.shuffle:
            raise ValueError(f"{self.shuffle} is not a divisor of {CHUNK}")

    @property
    def end_ms(self) -> int:
        """A time after the last event."""
        return self.at(self.count)

    def at(self, number: int) -> int:
        """The time of an event."""
        return START_MS + number * 1000 // self.rate

    def __iter__(self) -> Iterator[bytes]:
        texts = _Texts(self.seed)
        for chunk in range((self.count + CHUNK - 1) // CHUNK):
            for record in _chunk(self, texts, chunk)[: self.count - chunk * CHUNK]:
                yield record.encode()


class _Texts:
    """The texts of which the records are put together."""

    def __init__(self, seed: int) -> None:
        rng = Generator(PCG64(SeedSequence([seed, 0])))
        self.padding = rng.integers(97, 123, 1 << 20, dtype=np.uint8).tobytes().decode()

        def urls(count: int) -> list[str]:
            parts = _words(rng, 3 * count, 3, 5)
            folders = zip(parts[0::3], parts[1::3], parts[2::3], strict=True)
            return [f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1" for a, b, c in folders]

        cold = urls(_COLD_CHANNELS)
        numbered = rng.integers(0, 10, _COLD_CHANNELS) > 0
        for i in range(_COLD_CHANNELS):
            if numbered[i]:
                cold[i] += f"&channel_id={i * 2654435761 % 2147483647}"
        self.channels = [*_HOT_CHANNELS, *(f"channel-{i}" for i in range(_COLD_CHANNELS))]
        self.urls = urls(len(_HOT_CHANNELS)) + cold
        self.names = [f"{first} {last}" for first in _FIRST for last in _LAST]


def _words(rng: Generator, count: int, least: int, below: int, gap: str = "_") -> list[str]:
    """Random texts of `least` to `below` - 1 characters, about one in 13 of them the gap, which is never at an end."""
    lengths = rng.integers(least, below, count)
    total = int(lengths.sum())
    letters = rng.integers(97, 123, total, dtype=np.uint8)
    letters[rng.integers(0, 13, total) == 0] = ord(gap)
    ends = np.cumsum(lengths)
    letters[ends - 1] = ord("x")
    letters[ends - lengths] = ord("q")
    text = letters.tobytes().decode()
    return [text[start:end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)]


def _chunk(events: Events, texts: _Texts, chunk: int) -> list[str]:
    rng = Generator(PCG64(SeedSequence([events.seed, 1, chunk])))
    number = np.arange(chunk * CHUNK, (chunk + 1) * CHUNK, dtype=np.int64)
    place = number % _EPOCH
    records = np.empty(CHUNK, dtype=object)
    for chosen, made in (
        (place < _PERSONS, _persons),
        ((place >= _PERSONS) & (place < _PERSONS + _AUCTIONS), _auctions),
        (place >= _PERSONS + _AUCTIONS, _bids),
    ):
        records[chosen] = made(events, texts, rng, number[chosen])
    if events.shuffle > 1:
        order = np.argsort(rng.random((CHUNK // events.shuffle, events.shuffle)), axis=1)
        records = records[(order + np.arange(0, CHUNK, events.shuffle)[:, None]).ravel()]
    return records.tolist()


def _persons(events: Events, texts: _Texts, rng: Generator, number: Numbers) -> list[str]:
    count = number.size
    names = [texts.names[i] for i in rng.integers(0, len(texts.names), count)]
    hosts = zip(_words(rng, count, 3, 7), _words(rng, count, 3, 5), strict=True)
    emails = [f"{name}@{host}.com" for name, host in hosts]
    cards = [" ".join(f"{n:04}" for n in numbers) for numbers in rng.integers(0, 10_000, (count, 4)).tolist()]
    cities = [_CITIES[i] for i in rng.integers(0, len(_CITIES), count)]
    states = [_STATES[i] for i in rng.integers(0, len(_STATES), count)]
    used = [29 + len(a) + len(b) + len(c) for a, b, c in zip(names, emails, cities, strict=True)]
    padding = _padding(texts, rng, np.array(used, np.int64), 200)
    times, ids = _times(events, number).tolist(), (_FIRST_ID + _last_person(number)).tolist()
    fields = zip(times, ids, names, emails, cards, cities, states, padding, strict=True)
    return [_PERSON % one for one in fields]


def _auctions(events: Events, texts: _Texts, rng: Generator, number: Numbers) -> list[str]:
    count = number.size
    times = _times(events, number)
    items, texts_ = _words(rng, count, 3, 20, " "), _words(rng, count, 3, 100, " ")
    first = _prices(rng, count)
    horizon = np.maximum(_times(events, number + _IN_FLIGHT * _EPOCH // _AUCTIONS) - times, 1)
    expires = times + 1 + (rng.random(count) * 2 * horizon).astype(np.int64)
    used = np.array([48 + len(a) + len(b) for a, b in zip(items, texts_, strict=True)], np.int64)
    reserve = first + _prices(rng, count)
    sellers = _some_person(rng, number, 4, 0)
    categories = _FIRST_CATEGORY + rng.integers(0, _CATEGORIES, count)
    padding = _padding(texts, rng, used, 500)
    ids = (_FIRST_ID + _last_auction(number)).tolist()
    fields = zip(
        times.tolist(), ids, items, texts_, first.tolist(), reserve.tolist(), expires.tolist(), sellers.tolist(),
        categories.tolist(), padding, strict=True,
    )  # fmt: skip
    return [_AUCTION % one for one in fields]


def _bids(events: Events, texts: _Texts, rng: Generator, number: Numbers) -> list[str]:
    count, hot_channels = number.size, len(_HOT_CHANNELS)
    hot = rng.integers(0, 2, count) > 0
    hot_channel, cold_channel = rng.integers(0, hot_channels, count), rng.integers(0, _COLD_CHANNELS, count)
    channels = np.where(hot, hot_channel, hot_channels + cold_channel).tolist()
    auctions, bidders = _some_auction(rng, number, 2), _some_person(rng, number, 4, 1)
    prices = _prices(rng, count)
    padding = _padding(texts, rng, np.full(count, 32), 100)
    times = _times(events, number).tolist()
    names, urls = (texts.channels[i] for i in channels), (texts.urls[i] for i in channels)
    fields = zip(times, auctions.tolist(), bidders.tolist(), prices.tolist(), names, urls, padding, strict=True)
    return [_BID % one for one in fields]


def _times(events: Events, number: Numbers) -> Numbers:
    return START_MS + number * 1000 // events.rate


def _last_person(number: Numbers) -> Numbers:
    return number // _EPOCH


def _last_auction(number: Numbers) -> Numbers:
    epoch, place = number // _EPOCH, number % _EPOCH
    return epoch * _AUCTIONS + np.where(place < _PERSONS, -1, np.minimum(place - _PERSONS, _AUCTIONS - 1))


def _some_person(rng: Generator, number: Numbers, hot_of: int, offset: int) -> Numbers:
    """The hot one with a probability of 1 - 1 / hot_of."""
    last = _last_person(number)
    active = np.minimum(last + 1, _ACTIVE_PEOPLE)
    cold = last + 1 - active + (rng.random(number.size) * (active + _ID_LEAD)).astype(np.int64)
    hot = last // _HOT_BLOCK * _HOT_BLOCK + offset
    return _FIRST_ID + np.where(rng.integers(0, hot_of, number.size) > 0, hot, cold)


def _some_auction(rng: Generator, number: Numbers, hot_of: int) -> Numbers:
    last = _last_auction(number)
    low = np.maximum(last - _IN_FLIGHT, 0)
    cold = low + (rng.random(number.size) * (last - low + 1 + _ID_LEAD)).astype(np.int64)
    hot = last // _HOT_BLOCK * _HOT_BLOCK
    return _FIRST_ID + np.where(rng.integers(0, hot_of, number.size) > 0, hot, cold)


def _prices(rng: Generator, count: int) -> Numbers:
    return np.rint(np.power(10.0, rng.random(count) * 6.0) * 100.0).astype(np.int64)


def _padding(texts: _Texts, rng: Generator, used: Numbers, average: int) -> list[str]:
    """Texts that bring a record to about `average` bytes of payload, 20 % of the padding more or less."""
    room = np.maximum(average - used, 0)
    spread = np.rint(room * 0.2).astype(np.int64)
    size = room - spread + (rng.random(used.size) * (2 * spread)).astype(np.int64)
    at = rng.integers(0, len(texts.padding) - 1024, used.size)
    return [texts.padding[start:end] for start, end in zip(at.tolist(), (at + size).tolist(), strict=True)]
