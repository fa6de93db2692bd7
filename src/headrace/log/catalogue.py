"""What views there are, for those who read them without the app: a compacted topic that names each one.

The topic `headrace.catalogue` has one partition. The key of a record is `<app>/<view>`, its value says where the view
is, what its rows look like and by which queries its changes come; the last record of a key holds, and one without a
value takes the view away. Whoever runs a view publishes it; followers and servers read it. Of two that publish at once
the later one holds. Fields that are not known here are passed over; a record that lacks one is an error (HR-237).

That record also says which version is the current one: everyone goes by it, so writing it is what switches from one
version to another, at once for all. A stream has such a record from its first switch on. The versions that were built
have records of their own, under `<app>/<query>/<version>`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
    that it reads. What is of the `kind` stream is no view, and only followers of streams and runs ask for it.
    """

    app: str
    view: str
    topic: str
    schema: str
    key: tuple[str, ...]
    version: str = names.FIRST_VERSION
    path: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    kind: str = "view"

    @property
    def id(self) -> str:
        """The key of its record."""
        return f"{self.app}/{self.view}"

    def as_json(self) -> dict[str, Any]:
        """What its record says."""
        return {
            "app": self.app,
            "view": self.view,
            "kind": self.kind,
            "topic": self.topic,
            "schema": self.schema,
            "key": list(self.key),
            "version": self.version,
            "path": [[query, output, list(inputs)] for query, output, inputs in self.path],
        }

    def encoded(self) -> bytes:
        """The value of its record."""
        return codec.encode(self.as_json())

    @classmethod
    def of(cls, record: Record) -> View:
        """The view in a record of the catalogue."""
        with _describing(record, "a view"):
            return cls.of_json(json.loads(record.value or b""))

    @classmethod
    def of_json(cls, found: dict[str, Any]) -> View:
        """The view that a record says."""
        path = [(_text(query), _text(output), _texts(inputs)) for query, output, inputs in found["path"]]
        return cls(
            app=_text(found["app"]),
            view=_text(found["view"]),
            topic=_text(found["topic"]),
            schema=_text(found["schema"]),
            key=_texts(found["key"]),
            version=_text(found["version"]),
            path=tuple(path),
            kind=_text(found["kind"]),
        )


@dataclass(frozen=True)
class Version:
    """One version of what a query writes, current or not.

    `built` says that it has read all that there was, so that it can become current; `dropped` that somebody has begun
    to take it away. `start` is where it began, and `code` what the function was then. `since` is where its topic ended
    when it last became current: who is told of changes is told of those behind it.
    """

    of: View
    built: bool = False
    start: str = ""
    code: str | None = None
    since: Mapping[int, int] = field(default_factory=dict, hash=False)
    dropped: bool = False

    @property
    def name(self) -> str:
        return self.of.version

    @property
    def id(self) -> str:
        """The key of its record."""
        return f"{self.of.id}/{self.name}"

    def encoded(self) -> bytes:
        """The value of its record."""
        since = {str(partition): offset for partition, offset in sorted(self.since.items())}
        more = {"built": self.built, "dropped": self.dropped, "start": self.start, "code": self.code, "since": since}
        return codec.encode(self.of.as_json() | more)

    @classmethod
    def read(cls, record: Record) -> Version:
        """The version in a record of the catalogue."""
        with _describing(record, "a version"):
            found = json.loads(record.value or b"")
            code = None if found["code"] is None else _text(found["code"])
            since = {int(partition): int(offset) for partition, offset in dict(found["since"]).items()}
            view, built, dropped = View.of_json(found), bool(found["built"]), bool(found["dropped"])
            return cls(view, built, _text(found["start"]), code, since, dropped)


@dataclass(frozen=True)
class Entries:
    """What the catalogue says of one app: the current version of each query, and all that were built, by query."""

    current: Mapping[str, View] = field(default_factory=dict)
    versions: Mapping[str, Mapping[str, Version]] = field(default_factory=dict)


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
    if app is not None:
        return {name: view for name, view in entries(connection, app).current.items() if view.kind == "view"}
    found = {key: View.of(record) for key, record in _there(connection).items() if key.count("/") == 1}
    return {key: view for key, view in found.items() if view.kind == "view"}


def entries(connection: Connection, app: str) -> Entries:
    """Everything of an app; nothing where there is no catalogue."""
    current: dict[str, View] = {}
    versions: dict[str, dict[str, Version]] = {}
    for key, record in _there(connection).items():
        if not key.startswith(f"{app}/"):
            continue
        if key.count("/") == 1:
            view = View.of(record)
            current[view.view] = view
        else:
            version = Version.read(record)
            versions.setdefault(version.of.view, {})[version.name] = version
    return Entries(current, versions)


def record(connection: Connection, *versions: Version) -> None:
    """Write what is known of versions."""
    ensure(connection)
    with Producer(connection) as producer:
        for version in versions:
            producer.send(names.CATALOGUE_TOPIC, version.encoded(), key=version.id)


def forget(connection: Connection, version: Version) -> None:
    """Take a version out of the catalogue."""
    with Producer(connection) as producer:
        producer.send(names.CATALOGUE_TOPIC, None, key=version.id)


def _there(connection: Connection) -> dict[str, Record]:
    """The records that hold; none where there is no catalogue."""
    try:
        return _records(connection)
    except LogError as error:
        if error.code != "HR-205":
            raise
        return {}


def _records(connection: Connection) -> dict[str, Record]:
    last: dict[str, Record] = {}
    for record in read(connection, names.CATALOGUE_TOPIC):
        last[_key(record)] = record
    return {key: record for key, record in sorted(last.items()) if record.value is not None}


@contextmanager
def _describing(record: Record, what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise LogError(
            "HR-237",
            f"A record of the catalogue does not describe {what}: {type(error).__name__} {error}",
            found=f"{record.position}, key {_key(record)}",
            fix=f"take the record away: write one with the same key and no value to `{names.CATALOGUE_TOPIC}`; the next"
            " start of its app names what runs anew",
        ) from None


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
