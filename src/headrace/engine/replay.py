"""A version of a query, built from history beside the current one.

    what does it read, and from where → run it in exact mode, alone → it has read what was there when it began → built

The version runs like any query, with a checkpoint, a topic and transactions of its own (version.py), so a crash loses
and doubles nothing: called again, it goes on. It ends when it has processed what its topics held at its start; where
nothing has come since, its watermark has come to the newest event too. Called for a version that is built, it reads
what has come since. The current version may run at the same time.

The catalogue knows of a version before anything of it is made. It says where the version began and what the function
was: with another function, or another beginning, it is not continued (HR-322).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession

from headrace.engine import checkpoint, difference, unread, version
from headrace.engine.difference import Difference
from headrace.engine.mode import Mode
from headrace.engine.progress import Progress
from headrace.engine.run import Report, Run
from headrace.engine.version import Versions
from headrace.errors import LogError, RunError
from headrace.graph.graph import Graph
from headrace.graph.plan import Query
from headrace.log import catalogue, consumer
from headrace.log import topic as topics
from headrace.log.catalogue import Version, View
from headrace.log.connection import Connection
from headrace.log.position import Position
from headrace.names import group, versioned
from headrace.settings import Settings

BEGINNING = "beginning"
LOOK_S = 0.2
SHOW_S = 5.0
SAMPLES = 5

Starts = Mapping[str, Mapping[int, int]]
"""The first offset to read of each partition, by topic."""


@dataclass(frozen=True)
class Built:
    """A version that is built, and how it differs from the one that is current; `behind` is what each of them has yet
    to read of its topics, in records."""

    version: Version
    against: str
    difference: Difference
    behind: Mapping[str, int]


def build(
    graph: Graph,
    name: str,
    chosen: str,
    *,
    settings: Settings,
    bootstrap: str,
    start: str | None = None,
    again: bool = False,
    drop_also: Callable[[View], None] = lambda _: None,
    samples: int = SAMPLES,
    spark: SparkSession | None = None,
    report: Report = lambda _: None,
    show: Callable[[Sequence[Progress]], None] = lambda _: None,
) -> Built:
    """Build the version `chosen` of a query, or go on building it; `again` takes away what there is of it first, and
    calls `drop_also`."""
    version.check_name(chosen)
    connection = Connection.of(settings, bootstrap)
    versions = Versions.of(graph, name, connection)
    if versions.current == chosen:
        raise RunError(
            "HR-325",
            f"The version `{chosen}` of `{name}` is current, and `headrace run` goes on with it.",
            where=versions.node.where,
            found=f"versions: {', '.join(versions.there)}",
            fix=f"build another one: `headrace replay app.py {name} --as …`",
        )
    if again and chosen in versions.there:
        version.drop(versions, chosen, connection, settings, also=drop_also)
        versions = Versions.of(graph, name, connection)
    begun = _begun(versions, chosen, start, connection)
    of_version, query = versions.query(chosen)
    starts = _parsed(begun.start)
    _tell_what_is_gone(connection, query, of_version, starts, report)
    wanted = _ends(connection, of_version, query)
    with Run.start(
        of_version,
        mode=Mode.EXACT,
        settings=settings,
        bootstrap=bootstrap,
        only=[name],
        spark=spark,
        beside=_for_spark(connection, starts),
        report=report,
    ) as run:
        _work_off(run, query, wanted, show)
        if _ends(connection, of_version, query) == wanted:
            run.finish_input()
        show(run.progress())
        built = replace(begun, of=run.outputs[query.name], built=True)
    catalogue.record(connection, built)
    return compare(versions, built, connection, settings, samples)


def compare(versions: Versions, built: Version, connection: Connection, settings: Settings, samples: int) -> Built:
    """How a version differs from the one that is current."""
    there = set(topics.names(connection))
    old = versioned(versions.node.topic, versions.current)
    compared = difference.of_view if versions.node.kind == "view" else difference.of_stream
    found = compared(connection, old if old in there else None, built.of.topic, samples)
    behind = {one: _behind(versions, one, connection, settings) for one in (versions.current, built.name)}
    return Built(built, versions.current, found, behind)


def _begun(versions: Versions, chosen: str, start: str | None, connection: Connection) -> Version:
    """What the catalogue says of the version, where it was begun before; else it is entered now."""
    graph, query = versions.query(chosen)
    place = _start(start, graph, query, connection) if start is not None else None
    known = versions.there.get(chosen)
    if known is None:
        _check_topic(versions, query, connection)
        begun = versions.begun(chosen, start=place or BEGINNING)
        catalogue.record(connection, begun)
        return begun
    if known.dropped:
        raise RunError(
            "HR-322",
            f"The version `{chosen}` of `{query.node.name}` is half taken away, so it cannot go on.",
            where=query.node.where,
            found="`headrace versions drop` was interrupted",
            fix="build it anew with --again, or call `headrace versions drop` again",
        )
    same = {"function": known.code in (None, code := version.code(query)) or code is None}
    same["start"] = place in (None, known.start)
    for what, fits in same.items():
        if not fits:
            raise RunError(
                "HR-322",
                f"The version `{chosen}` of `{query.node.name}` was begun with another {what}, so it cannot go on.",
                where=query.node.where,
                found=f"it was begun from {known.start}" if what == "start" else "the function was changed since then",
                fix="build it anew with --again, or another one with --as",
            )
    return known


def _check_topic(versions: Versions, query: Query, connection: Connection) -> None:
    """A topic that is there already is somebody else's."""
    topic = query.node.topic
    declared = [node.name for node in versions.graph.nodes if node.topic == topic]
    if declared or topic in topics.names(connection):
        raise RunError(
            "HR-320",
            f"The version cannot be called `{query.node.version}`: its topic would be `{topic}`, and that is there"
            " already.",
            where=query.node.where,
            found=f"the topic of `{declared[0]}`"
            if declared
            else f"the topic {topic}, of which the catalogue knows nothing",
            fix="choose another name with --as",
        )


# Where it begins


def _start(text: str, graph: Graph, query: Query, connection: Connection) -> str:
    """Where `--from` says, as the catalogue keeps it: the beginning, or the positions of all partitions."""
    if text == BEGINNING:
        return BEGINNING
    read = _streams(graph, query)
    places = [(topic, one) for topic in read for one in topics.describe_partitions(connection, topic)]
    held = {(topic, one.partition): (one.first, one.next) for topic, one in places}
    if re.fullmatch(r"\d{1,18}", text, re.ASCII):
        if len(held) != 1:
            raise _no_start(
                text, "an offset is of one partition, and there are several", "payments[0]@42,payments[1]@17"
            )
        given = dict.fromkeys(held, int(text))
    elif "@" in text:
        try:
            positions = [Position.parse(one.strip()) for one in text.split(",")]
        except LogError as error:
            raise _no_start(text, error.what, "payments[0]@42, several with commas in between") from None
        given = {(one.topic, one.partition): one.offset for one in positions}
    else:
        given = _at(text, read, connection)
    for (topic, partition), offset in given.items():
        first, following = held.get((topic, partition), (0, -1))
        if not first <= offset <= following:
            there = ", ".join(f"{t}[{p}] from {low} to {high}" for (t, p), (low, high) in sorted(held.items()))
            raise _no_start(
                text, f"`{query.node.name}` cannot begin at {topic}[{partition}]@{offset}", f"one of {there}"
            )
    every = {place: given.get(place, first) for place, (first, _) in held.items()}
    return ",".join(str(Position(*place, offset)) for place, offset in sorted(every.items()))


def _streams(graph: Graph, query: Query) -> list[str]:
    """The topics of which a part can be read; tables and views are always read whole."""
    return [graph.node(name).topic for name in query.reads if graph.node(name).kind == "stream"]


def _at(text: str, read: Sequence[str], connection: Connection) -> dict[tuple[str, int], int]:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _no_start(text, "it is neither beginning, a time nor an offset", "2026-03-01T12:00:00Z") from None
    if moment.tzinfo is None:
        raise _no_start(text, "a time needs a time zone", f"{text}Z")
    return {
        (topic, i): offset for topic in read for i, offset in consumer.offsets_at(connection, topic, moment).items()
    }


def _no_start(text: str, why: str, example: str) -> RunError:
    return RunError(
        "HR-326",
        f"The replay cannot begin there: {why}.",
        found=text[:200],
        fix=f"write `beginning`, a time, or the position of a record: --from {example}",
    )


def _parsed(start: str) -> Starts:
    starts: dict[str, dict[int, int]] = {}
    for text in [] if start == BEGINNING else start.split(","):
        position = Position.parse(text)
        starts.setdefault(position.topic, {})[position.partition] = position.offset
    return starts


def _for_spark(connection: Connection, starts: Starts) -> dict[str, str]:
    """Offsets as Spark takes them: of all partitions, those that came since from their beginning (-2)."""
    return {
        topic: json.dumps({topic: {str(i): given.get(i, -2) for i in topics.partitions(connection, topic)}})
        for topic, given in starts.items()
    }


def _tell_what_is_gone(connection: Connection, query: Query, graph: Graph, starts: Starts, report: Report) -> None:
    for topic in _streams(graph, query):
        if topic in starts or topic not in topics.names(connection):
            continue
        gone = [one for one in topics.describe_partitions(connection, topic) if one.first > 0]
        if gone:
            told = ", ".join(f"{topic}[{one.partition}] before {one.first}" for one in gone)
            report(f"the log does not hold the whole history any more; gone are the offsets of {told}")


# Until it has read what was there


def _ends(connection: Connection, graph: Graph, query: Query) -> dict[tuple[str, int], int]:
    there = set(topics.names(connection))
    read = [graph.node(name).topic for name in query.reads]
    return topics.ends_of(connection, [topic for topic in read if topic in there])


def _work_off(
    run: Run, query: Query, wanted: Mapping[tuple[str, int], int], show: Callable[[Sequence[Progress]], None]
) -> None:
    shown = time.monotonic()
    while True:
        run.check()
        covered = run.covered(query.name)
        if all(covered.get(place, 0) >= offset for place, offset in wanted.items()):
            return
        run.wait(LOOK_S)
        if time.monotonic() - shown > SHOW_S:
            shown = time.monotonic()
            show(run.progress())


def _behind(versions: Versions, one: str, connection: Connection, settings: Settings) -> int:
    """What a version has yet to read of its topics."""
    graph, query = versions.query(one)
    ends = _ends(connection, graph, query)
    at = checkpoint.reached(checkpoint.location(settings, graph.app, query.name))
    if not at:
        at = consumer.committed(connection, group(graph.app, query.name), sorted({topic for topic, _ in ends}))
    # An older version may have read the topics of older versions, which nobody writes any more.
    read = {topic for topic, _ in at} & set(topics.names(connection))
    if read:
        ends = topics.ends_of(connection, read)
    below = {place: at.get(place, 0) for place, end in ends.items() if at.get(place, 0) < end}
    with connection.translated(f"asking what {query.name} has yet to read"):
        found = unread.following(connection, below)
    return sum(ends[place] - one.to for place, one in found.items() if one.to < ends[place])
