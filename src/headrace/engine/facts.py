"""What the state of a query depends on, kept in its checkpoint as `headrace.json`.

The topics that are read, the stateful operators with all that their state means (the kernel's bridge describes them as
the operators declare it), the key of a view, and the columns of tables that the database gave. A declaration that no
longer fits is refused before Spark touches the state, with the difference and the choices. Before the first batch there
is no state, and the facts are simply written again. Without a file system none of this is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.engine import checkpoint
from headrace.errors import Location, RunError
from headrace.log.schema import Schema

_FILE = "headrace.json"


def columns(place: str) -> dict[str, Schema]:
    """The columns that a query has taken from the database when it began, by table."""
    try:
        told = _read(place).get("columns", {})
    except ValueError:
        return {}  # the start refuses it, and says why
    return {table: Schema.parse(ddl) for table, ddl in told.items()}


@dataclass(frozen=True)
class Facts:
    """Those of a query as it is declared; `tables` have their columns from the database, and `key` is that of a
    view. An operator has a name, `operator`, and what its state means."""

    query: str
    where: Location | None
    topics: Sequence[str]
    operators: Sequence[Mapping[str, Any]]
    key: Sequence[str] = ()
    tables: Mapping[str, Schema] = field(default_factory=dict)

    def check(self, place: str) -> None:
        """Refuse a checkpoint with a state that does not fit."""
        before, now = _known(place), self._written({})
        if not before:
            return
        differences = [
            f"{name} {told} {_listed(before.get(name, []))}, and {tells} {_listed(now[name])}"
            for name, told, tells in (("topics", "were", "are"), ("key", "was", "is"))
            if before.get(name, []) != now[name]
        ]
        differences += _of_operators(before.get("operators", []), now["operators"])
        if differences:
            raise RunError(
                "HR-307",
                f"`{self.query}` was changed so that its state does not fit any more: {'; '.join(differences)}.",
                where=self.where,
                found=checkpoint.local(place),
                fix="build it beside the old one and switch (`headrace replay`, `headrace promote`), give the function"
                " a new name, or compute everything again:"
                f" `headrace reset app.py {self.query.partition('.')[0]}`, which says what will happen",
            )

    def note(self, place: str, identities: Mapping[str, str]) -> None:
        """Write them down where they fit, with the `identities` of the topics; refuse topics that are others by now."""
        directory = checkpoint.local(place)
        if directory is None:
            return
        known = _known(place).get("identities", {})
        if anew := [name for name, before in known.items() if identities.get(name, before) != before]:
            raise RunError(
                "HR-309",
                f"`{self.query}` cannot go on: {_listed(anew)} was deleted and made anew, so records that it has not"
                " read yet may be gone.",
                where=self.where,
                found="; ".join(f"{name} was {known[name]}, and is {identities[name]}" for name in anew),
                fix="to begin again with what the log has now:"
                f" `headrace reset app.py {self.query.partition('.')[0]}`, which says what will happen",
            )
        (directory / _FILE).write_text(json.dumps(self._written(identities)), encoding="utf-8")

    def _written(self, identities: Mapping[str, str]) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "topics": sorted(self.topics),
            "key": list(self.key),
            "operators": [dict(one) for one in self.operators],
            "identities": dict(sorted(identities.items())),
            "columns": {table: schema.ddl for table, schema in sorted(self.tables.items())},
        }
        return json.loads(json.dumps(facts))


def _known(place: str) -> dict[str, Any]:
    """The facts of a checkpoint that has begun; nothing where there is no state that depends on them."""
    directory = checkpoint.local(place)
    return _read(place) if directory is not None and checkpoint.has_begun(directory) else {}


def _read(place: str) -> dict[str, Any]:
    directory = checkpoint.local(place)
    file = directory / _FILE if directory else None
    return json.loads(file.read_text(encoding="utf-8")) if file is not None and file.exists() else {}


def _of_operators(before: Sequence[Any], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """How operators differ: in which there are, or else in what one of them means. What is no mapping was written in
    another form, and does not say enough."""
    names = [[one["operator"] if isinstance(one, Mapping) else str(one) for one in kept] for kept in (before, now)]
    if names[0] != names[1]:
        return [f"operators were {_listed(names[0])}, and are {_listed(names[1])}"]
    return [
        f"{facet} of {old['operator']} was {_shown(old.get(facet))}, and is {_shown(new.get(facet))}"
        for old, new in zip(before, now, strict=True)
        for facet in dict.fromkeys([*old, *new])
        if old.get(facet) != new.get(facet)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return _listed([str(one) for one in value])
    return "none" if value is None else str(value)


def _listed(values: Sequence[str]) -> str:
    return ", ".join(values) if values else "none"
