"""In what two versions of a result differ, by what their topics hold.

- A view is what its keys hold at the end of the topic: a row is added, removed, or changed under its key.
- A stream is a bag of rows: a row whose `change` is `-` takes one away that `+` put there. A row is added or removed as
  often as one of the two has it more often; nothing is changed, because no key says which row it was. Repeats of live
  mode are skipped (log/distinct.py).

Rows are equal when their columns are, in whatever order, and numbers by their value; null is the same as no column.
Both topics are held in memory while they are compared, the rows of a view as they stand in the log.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Literal

from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.distinct import distinct
from headrace.names import CHANGE

What = Literal["added", "removed", "changed"]
_SIGNS = {"+": 1, "-": -1}
_NUMBER = "\0number"
_EXACT = Context(prec=400)


@dataclass(frozen=True)
class Sample:
    """One row that differs, as both versions have it; `key` is that of a view's record, as text."""

    what: What
    key: str | None
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


@dataclass(frozen=True)
class Difference:
    """How many rows are the same and how many differ, with some of these: the first of each kind by key or text."""

    same: int
    added: int
    removed: int
    changed: int
    samples: tuple[Sample, ...] = ()

    @property
    def none(self) -> bool:
        return not (self.added or self.removed or self.changed)


def of_view(connection: Connection, old: str | None, new: str, samples: int) -> Difference:
    """How the view in the topic `new` differs from that in `old`; without an old one everything is added."""
    before = _table(read(connection, old)) if old is not None else {}
    after = _table(read(connection, new))
    both = before.keys() & after.keys()
    found: dict[What, list[bytes]] = {
        "added": [key for key in after if key not in before],
        "removed": [key for key in before if key not in after],
        "changed": [
            key for key in both if before[key] != after[key] and _canonical(before[key]) != _canonical(after[key])
        ],
    }
    shown = [
        Sample(what, key.decode("utf-8", "backslashreplace"), _row(before.get(key)), _row(after.get(key)))
        for what, keys in found.items()
        for key in heapq.nsmallest(samples, keys)
    ]
    counts = {what: len(keys) for what, keys in found.items()}
    return Difference(len(both) - counts["changed"], **counts, samples=tuple(shown))


def of_stream(connection: Connection, old: str | None, new: str, samples: int) -> Difference:
    """How the stream in the topic `new` differs from that in `old`; without an old one everything is added."""
    before = _bag(distinct(read(connection, old))) if old is not None else {}
    after = _bag(distinct(read(connection, new)))
    same, counts = 0, {"added": 0, "removed": 0}
    found: dict[What, list[str]] = {"added": [], "removed": []}
    for text in before.keys() | after.keys():
        mine, theirs = before.get(text, 0), after.get(text, 0)
        same += max(0, min(mine, theirs))
        if mine != theirs:
            what: What = "added" if theirs > mine else "removed"
            counts[what] += abs(theirs - mine)
            found[what].append(text)
    shown = [
        Sample(what, None, None if what == "added" else _shown(text), _shown(text) if what == "added" else None)
        for what, texts in found.items()
        for text in heapq.nsmallest(samples, texts)
    ]
    return Difference(same, counts["added"], counts["removed"], 0, tuple(shown))


def _table(records: Iterable[Record]) -> dict[bytes, bytes]:
    rows: dict[bytes, bytes] = {}
    for record in records:
        if record.value is None:
            rows.pop(record.key or b"", None)
        else:
            rows[record.key or b""] = record.value
    return rows


def _bag(records: Iterable[Record]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for record in records:
        if record.value is None:
            continue
        row = _parsed(record.value)
        sign = _SIGNS.get(str(row.get(CHANGE)), 0)
        if sign:
            del row[CHANGE]
        text = json.dumps(row, sort_keys=True, ensure_ascii=False)
        rows[text] = rows.get(text, 0) + (sign or 1)
    return {text: count for text, count in rows.items() if count}


def _parsed(raw: bytes) -> dict[str, Any]:
    """The columns that are not null; what is no row is one column without a name."""
    try:
        found = json.loads(raw, parse_float=_tagged, parse_int=_tagged)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return {"": raw.decode("utf-8", "backslashreplace")}
    return {name: value for name, value in found.items() if value is not None}


def _tagged(text: str) -> dict[str, str]:
    """A number in the one form that its value has, and apart from a text of the same letters."""
    return {_NUMBER: str(Decimal(text).normalize(_EXACT))}


def _canonical(raw: bytes) -> str:
    return json.dumps(_parsed(raw), sort_keys=True, ensure_ascii=False)


def _row(raw: bytes | None) -> Mapping[str, Any] | None:
    return None if raw is None else _shown(json.dumps(_parsed(raw)))


def _shown(text: str) -> Mapping[str, Any]:
    return json.loads(text, object_hook=_untagged)


def _untagged(found: dict[str, Any]) -> Any:
    if _NUMBER not in found:
        return found
    number = Decimal(found[_NUMBER])
    return int(number) if number == number.to_integral_value(context=_EXACT) else float(number)
