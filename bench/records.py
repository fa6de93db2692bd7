"""The records that the benches read, made by a seed: the same arguments give the same bytes.

`auction_events` has the shape of Nexmark, the benchmark of P. Tucker, K. Tufte, V. Papadimos and D. Maier («NEXMark - A
Benchmark for Queries over Data Streams»), with the proportions of its later open-source generators: of 50 events one is
a person, three are auctions, 46 are bids. Each is one flat JSON object with the fields of its kind only, of about 274
bytes on average.

`transactions` are card payments, one in twenty a byte-for-byte copy of one of the thousand records before it, as a
sender that retries makes them. `distinct` says how many are left without the copies.
"""

from __future__ import annotations

import random
import string
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

RATE = 10_000
COPY_EVERY = 20
COPY_REACH = 1_000

_START = datetime(2026, 1, 1, tzinfo=UTC)
_FIRST_ID = 1_000
_HOT_BLOCK = 100
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_CITIES = (("Phoenix", "AZ"), ("Los Angeles", "CA"), ("Boise", "ID"), ("Portland", "OR"), ("Cheyenne", "WY"))
_NAMES = ("Peter Shultz", "Paul Abrams", "Lucie Walton", "Sarah Noris", "Deiter Spencer")


def auction_events(count: int, *, seed: int = 1) -> Iterator[bytes]:
    """Persons, auctions and bids, `RATE` a second of event time."""
    rng = random.Random(seed)
    start = int(_START.timestamp() * 1000)
    text = "".join(rng.choices(string.ascii_lowercase, k=20_000))
    channels = [*_CHANNELS, *(f"channel-{i}" for i in range(10_000))]
    paths = (f"{text[i : i + 3]}/{text[i + 3 : i + 7]}/{text[i + 7 : i + 11]}" for i in range(len(channels)))
    urls = [f"https://www.nexmark.com/{path}/item.htm?query=1" for path in paths]

    def below(most: int) -> int:
        return int(rng.random() * most)

    def words(least: int, most: int) -> str:
        at = below(len(text) - most)
        return text[at : at + least + below(most - least)]

    def price() -> int:
        return round(100 * 10 ** (rng.random() * 6))

    for n in range(count):
        block, place = divmod(n, 50)
        ts = start + n * 1000 // RATE
        person = _FIRST_ID + block
        auction = _FIRST_ID + 3 * block + min(place, 3) - 1
        if place == 0:
            city, state = _CITIES[below(len(_CITIES))]
            card = f"{below(10_000):04} {below(10_000):04} {below(10_000):04} {below(10_000):04}"
            yield (
                f'{{"kind":"person","ts":{ts},"id":{person},"name":"{_NAMES[below(len(_NAMES))]}",'
                f'"email":"{words(4, 8)}@{words(4, 8)}.com","card":"{card}","city":"{city}","state":"{state}",'
                f'"extra":"{words(108, 175)}"}}'
            ).encode()
        elif place < 4:
            seller = _hot(person) if rng.random() < 0.75 else max(_FIRST_ID, person - below(1_000))
            first = price()
            yield (
                f'{{"kind":"auction","ts":{ts},"id":{auction},"item":"{words(4, 20)}","descr":"{words(20, 100)}",'
                f'"initial_bid":{first},"reserve":{first + price()},"expires":{ts + 1 + below(330)},"seller":{seller},'
                f'"category":{10 + below(5)},"extra":"{words(271, 504)}"}}'
            ).encode()
        else:
            to = _hot(auction) if rng.random() < 0.5 else max(_FIRST_ID, auction - 99 + below(110))
            by = _hot(person) + 1 if rng.random() < 0.75 else max(_FIRST_ID, person - 999 + below(1_010))
            channel = below(4) if rng.random() < 0.5 else 4 + below(10_000)
            number = f"&channel_id={channel * 104_729}" if channel >= 4 and channel % 10 else ""
            yield (
                f'{{"kind":"bid","ts":{ts},"auction":{to},"bidder":{by},"price":{price()},'
                f'"channel":"{channels[channel]}","url":"{urls[channel]}{number}","extra":"{words(54, 81)}"}}'
            ).encode()


def transactions(count: int, *, seed: int = 1) -> Iterator[bytes]:
    """Card transactions, `RATE` a second of event time."""
    rng = random.Random(seed)
    recent: deque[bytes] = deque(maxlen=COPY_REACH)
    step = 1_000_000 // RATE
    second = ""
    for n in range(count):
        if n % RATE == 0:
            second = (_START + timedelta(seconds=n // RATE)).strftime("%Y-%m-%dT%H:%M:%S")
        if n % COPY_EVERY == COPY_EVERY - 1:
            record = recent[int(rng.random() * len(recent))]
        else:
            cents = int(rng.random() * 50_000)
            record = (
                f'{{"id":"t-{n:010}","card":"card-{int(rng.random() * 100_000):06}",'
                f'"amount":{cents // 100}.{cents % 100:02},"at":"{second}.{n % RATE * step:06}Z"}}'
            ).encode()
        recent.append(record)
        yield record


def distinct(count: int) -> int:
    """How many of `count` transactions are no copies."""
    return count - count // COPY_EVERY


def _hot(newest: int) -> int:
    """The first id of the newest block."""
    return newest // _HOT_BLOCK * _HOT_BLOCK
