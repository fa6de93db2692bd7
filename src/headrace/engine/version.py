"""Versions of what a query writes: which one is current, how another becomes current, and how one is removed.

A version is a query of its own: `totals` in the version `v2` is the query `totals.v2` with the topic `totals.v2`, so
with a checkpoint, a consumer group and transactions of its own. What is declared and was never replayed is the version
`first`. One record of the catalogue says which version is current (log/catalogue.py), and runs, followers and servers
use that one. So writing the record is the switch, and there is no moment between two versions.

**Who holds the switch.** A run holds the checkpoints of the versions that it runs, and looks at the catalogue again
when it has them; a switch holds the checkpoints of both versions. So no run goes on with a version that is not current:
a switch is refused while one runs (HR-324), and a run that was overtaken does not start (HR-328). Checkpoints that are
not on a file system cannot be held: there a run goes on with the version that it has begun with until it ends.

**A crash** in the middle of `promote` leaves the old version current or the new one. `drop` first marks the version, so
that a version that is partly removed neither becomes current nor goes on; called again, it removes the rest.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from headrace import names
from headrace.engine import checkpoint
from headrace.errors import RunError
from headrace.graph.graph import Graph
from headrace.graph.node import Derived
from headrace.graph.plan import Query, plan
from headrace.graph.statement import Statement
from headrace.log import catalogue
from headrace.log import topic as topics
from headrace.log.catalogue import Entries, Version, View
from headrace.log.connection import Connection
from headrace.names import FIRST_VERSION
from headrace.settings import Settings


def current(graph: Graph, connection: Connection) -> Graph:
    """The graph in the versions that are current; a function whose version was chosen already keeps it."""
    found = catalogue.entries(connection, graph.app).current
    chosen = {node.name for node in graph.derived if node.version != FIRST_VERSION}
    return graph.in_versions({name: one.version for name, one in found.items() if name not in chosen})


def overtaken(graph: Graph, found: Graph) -> RunError | None:
    """The error of a run that begins with `graph` where `found` is current by now; None when they are the same."""
    for mine, theirs in zip(graph.derived, found.derived, strict=True):
        if mine.version != theirs.version:
            return RunError(
                "HR-328",
                f"`{mine.name}` was switched to another version while the run started.",
                where=mine.where,
                found=f"it began with {mine.version}, and {theirs.version} is current",
                fix="start it again: it then uses what is current",
            )
    return None


@dataclass(frozen=True)
class Versions:
    """The versions of one query of an app, as the catalogue has them; made by `of`."""

    graph: Graph
    node: Derived
    entries: Entries

    @classmethod
    def of(cls, graph: Graph, name: str, connection: Connection) -> Versions:
        """Those of the query of this name."""
        queries = {query.node.name: query.node for query in plan(graph)}
        if name not in queries:
            raise RunError(
                "HR-311",
                f"There is no query `{name}`.",
                found=f"queries: {', '.join(sorted(queries)) or 'none'}",
                fix="name one of them; `headrace graph` shows the plan",
            )
        return cls(graph, queries[name], catalogue.entries(connection, graph.app))

    @property
    def current(self) -> str:
        """The name of the current one."""
        found = self.entries.current.get(self.node.name)
        return FIRST_VERSION if found is None else found.version

    @property
    def there(self) -> Mapping[str, Version]:
        """Those that were built or begun, by name, the current one among them; the first one when it has run."""
        found = dict(self.entries.versions.get(self.node.name, {}))
        now = self.entries.current.get(self.node.name)
        if now is not None:
            found[now.version] = replace(found.get(now.version, Version(now)), of=now, built=True)
        elif self.node.kind == "stream":
            found.setdefault(FIRST_VERSION, Version(self._undescribed(FIRST_VERSION), built=True))
        return dict(sorted(found.items(), key=lambda one: (one[0] != FIRST_VERSION, len(one[0]), one[0])))

    def find(self, version: str) -> Version:
        """The version of this name; RunError when there is none."""
        found = self.there.get(version)
        if found is None:
            raise RunError(
                "HR-321",
                f"`{self.node.name}` has no version `{version}`.",
                where=self.node.where,
                found=f"versions: {', '.join(self.there) or 'none: it has not run yet'}",
                fix=f"build it: `headrace replay app.py {self.node.name} --as {version}`"
                if names.is_version(version)
                else "name one of them; `headrace versions ls app.py` shows them",
            )
        return found

    def query(self, version: str) -> tuple[Graph, Query]:
        """The query in this version, and the graph in which all others are current."""
        versions = {name: one.version for name, one in self.entries.current.items()}
        graph = self.graph.in_versions(versions | {self.node.name: version})
        return graph, next(query for query in plan(graph) if query.node.name == self.node.name)

    def begun(self, version: str, *, start: str) -> Version:
        """A version that is about to be built."""
        _, query = self.query(version)
        return Version(self._undescribed(version), start=start, code=code(query))

    def _undescribed(self, version: str) -> View:
        topic = names.versioned(self.node.topic, version)
        return View(self.graph.app, self.node.name, topic, "", self.node.key, version=version, kind=self.node.kind)


def check_name(version: str) -> None:
    """RunError when a version cannot be called this."""
    if not names.is_version(version):
        raise RunError(
            "HR-320",
            f"A version cannot be called `{version[:50]}`.",
            found=version[:200],
            fix="use 1 to 20 small letters, digits and underscores, such as v2, but not `first`, `late` and `dead`",
        )


def code(query: Query) -> str | None:
    """A text that is the same when the functions of a query are, whatever their layout and comments, and SQL is to the
    letter; None where their source is not known. What they call is not looked at."""
    try:
        trees = [_meaning(node.function) for node in (*query.fused, query.node)]
    except (OSError, TypeError, SyntaxError):
        return None
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()[:16]


def _meaning(function: Callable[..., Any]) -> str:
    if isinstance(function, Statement):
        return function.text
    return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(function))))


@contextmanager
def held(settings: Settings, app: str, query: str, *versions: str) -> Iterator[None]:
    """Hold the checkpoints of these versions of a query, so that nobody runs them; RunError when somebody does."""
    with ExitStack() as stack:
        for version in dict.fromkeys(versions):
            name = names.versioned(query, version)
            try:
                stack.enter_context(checkpoint.held(checkpoint.location(settings, app, name), app, name))
            except RunError as error:
                if error.code != "HR-306":
                    raise
                raise RunError(
                    "HR-324",
                    f"The version `{version}` of `{query}` runs.",
                    found=error.found,
                    fix="stop that run first, and start it again afterwards: it then uses what is current",
                ) from None
        yield


def promote(versions: Versions, version: str, connection: Connection, settings: Settings) -> Version:
    """Make a version the current one. What was current can be brought back in the same way."""
    app, name = versions.graph.app, versions.node.name
    _ready(versions, version, settings)
    with held(settings, app, name, versions.current, version):
        versions = Versions.of(versions.graph, name, connection)
        chosen, before = _ready(versions, version, settings), versions.there.get(versions.current)
        ends = topics.ends(connection, chosen.of.topic)
        chosen = replace(chosen, since=ends)
        catalogue.record(connection, *([] if before is None else [before]), chosen)
        catalogue.publish(connection, chosen.of)
    return chosen


def _ready(versions: Versions, version: str, settings: Settings) -> Version:
    """The version, which can become current."""
    found = versions.find(version)
    name = names.versioned(versions.node.name, version)
    place = checkpoint.location(settings, versions.graph.app, name)
    directory = checkpoint.local(place)
    gone = directory is not None and not any(directory.glob("offsets/[0-9]*"))
    if found.built and not gone:
        return found
    raise RunError(
        "HR-323",
        f"The version `{version}` of `{versions.node.name}` cannot become current: "
        + ("its checkpoint is not there, so nobody could go on with it." if found.built else "it is not built yet."),
        where=versions.node.where,
        found=f"no checkpoint in {place}" if found.built else f"begun from {found.start}, and not at the end",
        fix="name the place of the checkpoints with --checkpoints, as for the run that made it"
        if found.built
        else f"let `headrace replay app.py {versions.node.name} --as {version}` come to its end",
    )


def drop(
    versions: Versions, version: str, connection: Connection, settings: Settings, *, also: Callable[[View], None]
) -> Version:
    """Take a version away that is not current: its topics, its checkpoint, its groups, what `also` takes away, and at
    last its entry."""
    app, name = versions.graph.app, versions.node.name
    found = versions.find(version)
    with held(settings, app, name, version):
        versions = Versions.of(versions.graph, name, connection)
        if versions.current == version:
            raise RunError(
                "HR-325",
                f"The version `{version}` of `{name}` is current, and stays.",
                where=versions.node.where,
                found=f"versions: {', '.join(versions.there)}",
                fix=f"make another one current first: `headrace promote app.py {name} --version …`",
            )
        catalogue.record(connection, replace(found, built=False, dropped=True))
        written = found.of.topic
        topics.delete(connection, written, names.late_topic(written), names.dead_topic(written))
        query = names.versioned(name, version)
        topics.forget_groups(connection, names.group(app, query), names.sink(app, query) + ".")
        directory = checkpoint.local(checkpoint.location(settings, app, query))
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
        also(found.of)
        catalogue.forget(connection, found)
    return found
