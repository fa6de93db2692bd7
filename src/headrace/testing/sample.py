"""Events and rows for a declared source, made from its schema and a seed.

Values come from small sets, so that keys meet again, conditions are sometimes true and groups have several rows;
numbers are spread over several powers of ten, and a column that may be null sometimes is. Event times go forward, each
shifted by less than the delay of the source, so that none is late. Of the events some come twice, byte for byte, and
some are broken. Of the changes of a table some delete a row. A large one has a text of five megabytes in a column that
is no key. The same seed gives the same.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.graph.node import Source
from headrace.log import codec
from headrace.log.schema import Schema
from headrace.testing.change import Delete

REPEATED = 0.1
BROKEN = 0.01
DELETED = 0.15
NULL = 0.05
LARGE = 5_000_000
STEP = timedelta(milliseconds=250)
CLOSING_EACH = 4
_WORDS = ("ash", "birch", "cedar", "elm", "fir", "oak", "pine", "yew")


@dataclass(frozen=True)
class Sample:
    """One record to be sent: `partition` is where it goes, and `fits` whether it can be decoded."""

    partition: int
    key: str | None
    value: bytes
    fits: bool = True


class Events:
    """The events of a stream, from `start` on."""

    def __init__(self, source: Source, *, seed: int, start: datetime) -> None:
        self._source = source
        self._fields = _schema(source).fields
        self._dice = random.Random(f"{seed} {source.name}")
        self._start = start
        self._made = 0

    def __iter__(self) -> Iterator[Sample]:
        while True:
            sample = self._next()
            yield sample
            if self._dice.random() < REPEATED:
                yield sample
            if self._dice.random() < BROKEN:
                yield Sample(sample.partition, sample.key, self._dice.choice((b"{", b"\xff\xfe", b"[]", b'"x"')), False)

    def large(self, column: str) -> Sample:
        """The next event, with a large text in the column."""
        return self._next({column: _large(self._made)})

    def closing(self, at: datetime) -> list[Sample]:
        """Events far later than all others for each partition, so that what waits for the watermark comes."""
        found: list[Sample] = []
        for partition in list(range(self._source.partitions)) * CLOSING_EACH:
            one = self._sample(at, f"closing-{len(found)}")
            self._made += 1
            found.append(Sample(partition, one.key, one.value))
        return found

    def _next(self, given: Mapping[str, Any] | None = None) -> Sample:
        sample = self._sample(self._start + self._made * STEP - self._shift(), str(self._made), given or {})
        self._made += 1
        return sample

    def _shift(self) -> timedelta:
        most = min(self._source.delay_least_ms or self._source.delay_ms, self._source.delay_ms)
        return timedelta(milliseconds=self._dice.random() * most * 0.9)

    def _sample(self, at: datetime, name: str, given: Mapping[str, Any] | None = None) -> Sample:
        row: dict[str, Any] = {}
        for field in self._fields:
            if field.name == self._source.id:
                row[field.name] = name if field.type == "string" else self._made
            elif field.name in (self._source.event_time, self._source.sent, self._source.received):
                row[field.name] = at
            elif field.nullable and self._dice.random() < NULL:
                row[field.name] = None
            else:
                row[field.name] = value(field.type, self._dice)
        row |= given or {}
        key = "|".join(str(row[column]) for column in self._source.key) or (name if self._source.id else None)
        partition = hash_of(key if key is not None else name) % self._source.partitions
        return Sample(partition, key, codec.encode(row))


class Rows:
    """The changes of a table: rows that are put under their key, and keys whose row is deleted."""

    def __init__(self, source: Source, *, seed: int) -> None:
        self._key = source.key
        self._fields = _schema(source).fields
        self._dice = random.Random(f"{seed} {source.name}")

    def __iter__(self) -> Iterator[Mapping[str, Any] | Delete]:
        while True:
            row = self._row()
            deleted = self._dice.random() < DELETED
            yield Delete({name: row[name] for name in self._key}) if deleted else row

    def large(self, column: str) -> Mapping[str, Any]:
        """A row with a large text in the column."""
        return {**self._row(), column: _large(self._dice.randrange(1000))}

    def _row(self) -> dict[str, Any]:
        return {
            field.name: None
            if field.nullable and field.name not in self._key and self._dice.random() < NULL
            else value(field.type, self._dice)
            for field in self._fields
        }


def text_column(source: Source, keys: Collection[str]) -> str | None:
    """A column that a large text can be put into: it is nobody's key; None when there is none."""
    taken = {source.id, source.event_time, source.sent, source.received, *source.key, *keys}
    free = [field for field in _schema(source).fields if field.type == "string" and field.name not in taken]
    return next((field.name for field in sorted(free, key=lambda field: not field.nullable)), None)


def value(kind: str, dice: random.Random) -> Any:
    """A value of a type of Spark's."""
    if kind.startswith("array<"):
        return [value(kind[6:-1], dice) for _ in range(dice.randrange(4))]
    if kind.startswith("map<"):
        _, inner = _parts(kind[4:-1])
        return {word: value(inner, dice) for word in dice.sample(_WORDS, dice.randrange(3))}
    if kind.startswith("struct<"):
        members = (member.split(":", 1) for member in _parts(kind[7:-1]))
        return {name.strip("`"): value(inner.removesuffix(" NOT NULL"), dice) for name, inner in members}
    if kind.startswith("decimal("):
        precision, scale = map(int, kind[8:-1].split(","))
        return Decimal(dice.randrange(10 ** min(precision, 6))).scaleb(-scale)
    simple = {
        "string": lambda: dice.choice(_WORDS),
        "boolean": lambda: dice.random() < 0.5,
        "tinyint": lambda: dice.randrange(100),
        "float": lambda: dice.randrange(4000) / 8,
        "double": lambda: round(10 ** dice.uniform(-1, 4), 2),
        "binary": lambda: dice.randbytes(4),
        "date": lambda: date(2026, 1, 1) + timedelta(days=dice.randrange(60)),
        "timestamp": lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=dice.randrange(10_000)),
        "timestamp_ntz": lambda: f"2026-01-{dice.randrange(1, 29):02}T00:00:00",
    }
    return simple[kind]() if kind in simple else int(10 ** dice.uniform(0, 4))


def hash_of(text: str) -> int:
    """The same in every process."""
    return int.from_bytes(random.Random(text).randbytes(4))


def _large(number: int) -> str:
    return f"{number} " + "x" * LARGE


def _schema(source: Source) -> Schema:
    if source.schema is None:
        raise ValueError(f"`{source.name}` has no schema")
    return source.schema


def _parts(text: str) -> list[str]:
    """The parts between the commas that stand in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
