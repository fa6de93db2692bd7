"""A record of a view's topic as a change: its key, and its row or that there is none any more.

Keys and values are JSON in the form that the table gives too, and rows have every column of the view, absent ones as
null, so that a row of a snapshot and the same row in a change are equal. A record that is no row of the view (its
follower keeps it as a dead letter) is no change. A deletion that is followed by a row of the same key in the same poll
is left out: it is the first half of an update.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from confluent_kafka import Message

from headrace.log.position import Position
from headrace.serve.column import Column
from headrace.serve.view import View


@dataclass(frozen=True, slots=True)
class Change:
    """`key` and `row` are JSON text, `data` what a subscriber is told; `values` is the row decoded, or of a deletion
    the key."""

    position: Position
    key: str
    row: str | None
    values: Mapping[str, Any]
    data: str

    @property
    def partition(self) -> int:
        return self.position.partition

    @property
    def offset(self) -> int:
        return self.position.offset

    @property
    def deletion(self) -> str:
        """What is told to one for whom the row is gone."""
        return _deletion(self.key, self.position)


class Decoder:
    """Records of one view."""

    def __init__(self, view: View) -> None:
        self._topic = view.topic
        self._columns = view.columns
        self._key = view.key
        self._text_key = view.text_key

    def changes(self, messages: Iterable[Message]) -> list[Change]:
        """The changes in the records of one poll."""
        found = [change for message in messages if (change := self.change(message)) is not None]
        following: dict[str, bool] = {}
        kept: list[Change] = []
        for change in reversed(found):
            if change.row is not None or not following.get(change.key, False):
                kept.append(change)
            following[change.key] = change.row is not None
        return kept[::-1]

    def change(self, message: Message) -> Change | None:
        """The change in a record, or None when it is none."""
        partition, offset = message.partition(), message.offset()
        raw_key: Any = message.key()
        raw: Any = message.value()
        if partition is None or offset is None or raw_key is None:
            return None
        try:
            key_values = self._key_values(raw_key)
            key = self._key_text(key_values)
            values, row = (key_values, None) if raw is None else self._row(raw)
        except (ValueError, RecursionError):
            return None
        position = Position(self._topic, partition, offset)
        if row is None:
            return Change(position, key, row, values, _deletion(key, position))
        return Change(position, key, row, values, f'{{"op":"upsert","key":{key},"row":{row},"position":"{position}"}}')

    def _key_values(self, raw: bytes) -> Mapping[str, Any]:
        if self._text_key:
            return {self._key[0].name: raw.decode()}
        values = _decoded(raw)
        if values.keys() != {column.name for column in self._key}:
            raise ValueError("another key")
        return values

    def _key_text(self, values: Mapping[str, Any]) -> str:
        return key_text(self._key, [column.of_json(values[column.name]) for column in self._key])

    def _row(self, raw: bytes) -> tuple[Mapping[str, Any], str]:
        values = _decoded(raw)
        for column in self._columns:
            column.of_json(values.get(column.name))
        # Valid JSON has line ends only between its tokens.
        text = raw.decode().strip().replace("\n", " ").replace("\r", " ")
        missing = ",".join(f"{json.dumps(c.name)}:null" for c in self._columns if c.name not in values)
        if missing:
            text = f"{text[:-1]}{',' if values else ''}{missing}}}"
        return values, text


def key_text(key: Sequence[Column], values: Sequence[Any]) -> str:
    """A key as JSON: the text of a single string, else an object of the key columns."""
    if len(key) == 1 and key[0].type == "string":
        return json.dumps(values[0], ensure_ascii=False)
    fields = (
        f"{json.dumps(column.name, ensure_ascii=False)}:{_value_text(column, value)}"
        for column, value in zip(key, values, strict=True)
    )
    return "{" + ",".join(fields) + "}"


def _deletion(key: str, position: Position) -> str:
    return f'{{"op":"delete","key":{key},"position":"{position}"}}'


def _value_text(column: Column, value: Any) -> str:
    if isinstance(value, Decimal):
        scale = int(column.type.rpartition(",")[2].rstrip(")"))
        return f"{value:.{scale}f}"
    return json.dumps(column.as_json(value), ensure_ascii=False)


def _decoded(raw: bytes) -> Mapping[str, Any]:
    values = json.loads(raw.decode(), parse_float=Decimal, parse_constant=_refused)
    if not isinstance(values, dict):
        raise ValueError("not an object")  # noqa: TRY004 - it is the record that is wrong
    return values


def _refused(constant: str) -> NoReturn:
    raise ValueError(constant)
