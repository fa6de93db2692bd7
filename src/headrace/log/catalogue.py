"""What views there are, for those who read them without the app: a compacted topic that names each one.

The topic `headrace.catalogue` has one partition. The key of a record is `<app>/<view>`, its value says where the view
is, what its rows look like and by which queries its changes come; the last record of a key holds, and one without a
value takes the view away. Whoever runs a view publishes it; followers and servers read it. Of two that publish at once
the later one holds. Fields that are not known here are passed over; a record that lacks one is an error (HR-237).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headrace import names
from headrace.errors import LogError
from headrace.log import codec
from headrace.log import topic as topics
from headrace.log.connection import Connection
from headrace.log.consumer import Record, read
from headrace.log.producer import Producer
from headrace.log.topic import Topic

TOPIC = Topic(names.CATALOGUE_TOPIC, 1, compacted=True)


@dataclass(frozen=True)
class View:
    """One view: `schema` is Spark's DDL of its rows, `key` the columns that make a row unique.

    `path` holds the queries that lead to it in the order of the plan, each with the topic that it writes and those
    that it reads.
    """

    app: str
    view: str
    topic: str
    schema: str
    key: tuple[str, ...]
    version: int = 1
    path: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    @property
    def id(self) -> str:
        """The key of its record."""
        return f"{self.app}/{self.view}"

    def encoded(self) -> bytes:
        """The value of its record."""
        path = [[query, output, list(inputs)] for query, output, inputs in self.path]
        return codec.encode(
            {
                "app": self.app,
                "view": self.view,
                "topic": self.topic,
                "schema": self.schema,
                "key": list(self.key),
                "version": self.version,
                "path": path,
            }
        )

    @classmethod
    def of(cls, record: Record) -> View:
        """The view in a record of the catalogue."""
        try:
            found: dict[str, Any] = json.loads(record.value or b"")
            path = [(_text(query), _text(output), _texts(inputs)) for query, output, inputs in found["path"]]
            return cls(
                app=_text(found["app"]),
                view=_text(found["view"]),
                topic=_text(found["topic"]),
                schema=_text(found["schema"]),
                key=_texts(found["key"]),
                version=int(found["version"]),
                path=tuple(path),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise LogError(
                "HR-237",
                f"A record of the catalogue does not describe a view: {type(error).__name__} {error}",
                found=f"{record.position}, key {_key(record)}",
                fix="start the app of that view again, which publishes it anew; or take the record away: "
                f"write one with the same key and no value to `{names.CATALOGUE_TOPIC}`",
            ) from None


def ensure(connection: Connection) -> None:
    """Make the topic, if it is not there."""
    topics.ensure(connection, [TOPIC])


def publish(connection: Connection, *views: View) -> list[View]:
    """Write the views that differ from what the catalogue says; those that were written."""
    ensure(connection)
    there = _records(connection)
    changed = [view for view in views if view.id not in there or there[view.id].value != view.encoded()]
    if changed:
        with Producer(connection) as producer:
            for view in changed:
                producer.send(names.CATALOGUE_TOPIC, view.encoded(), key=view.id)
    return changed


def views(connection: Connection, app: str | None = None) -> dict[str, View]:
    """The views of an app by their names, or those of all apps by `<app>/<view>`; none where there is no catalogue."""
    try:
        found = _records(connection)
    except LogError as error:
        if error.code != "HR-205":
            raise
        return {}
    if app is None:
        return {key: View.of(record) for key, record in found.items()}
    mine = (View.of(record) for key, record in found.items() if key.startswith(f"{app}/"))
    return {view.view: view for view in mine}


def _records(connection: Connection) -> dict[str, Record]:
    last: dict[str, Record] = {}
    for record in read(connection, names.CATALOGUE_TOPIC):
        last[_key(record)] = record
    return {key: record for key, record in sorted(last.items()) if record.value is not None}


def _key(record: Record) -> str:
    return (record.key or b"").decode("utf-8", "replace")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {value!r}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {value!r}")
    return tuple(_text(one) for one in value)
