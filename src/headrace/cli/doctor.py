"""`doctor`: what ails an app, with the evidence and the remedy, and repairs after asking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import terminal
from headrace.cli.place import AppFile, AsJson, Bootstrap, connection_at, load_app, settings_at
from headrace.doctor import checkpoints, loops, outputs, pace, tables, topics
from headrace.doctor.finding import Finding, Weight
from headrace.engine import checkpoint, offsets, progress, version
from headrace.errors import HeadraceError, LogError, RunError
from headrace.graph.graph import Graph
from headrace.graph.plan import Query, plan
from headrace.log import catalogue
from headrace.log.connection import Connection
from headrace.parts import part, postgres
from headrace.settings import Settings


def doctor(
    app: AppFile,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Offer to repair what can be repaired.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Repair without asking.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with an app, its topics, checkpoints and tables, and what to do about it."""
    settings = settings_at(app, bootstrap=bootstrap)
    visit = _Visit(load_app(app).graph(), settings, _log(app, bootstrap))
    findings = list(visit.findings())
    for finding in findings:
        _tell(finding, as_json)
    if not findings and not as_json:
        terminal.out("nothing is wrong")
    mended = sum(_mend(finding, yes=yes) for finding in findings) if repair or yes else 0
    broken = sum(finding.weight is Weight.BROKEN for finding in findings)
    if broken > mended:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Visit:
    graph: Graph
    settings: Settings
    log: Connection | HeadraceError

    def findings(self) -> Iterator[Finding]:
        """Everything that is found, the log first."""
        connection = self.log if isinstance(self.log, Connection) else None
        graph = self.graph if connection is None else version.current(self.graph, connection)
        queries = plan(graph)
        if isinstance(self.log, HeadraceError):
            yield Finding(Weight.BROKEN, "the log", self.log.what, str(self.log.found), self.log.fix)
        yield from loops.examine(progress.latest(self.settings, self.graph.app), datetime.now(UTC))
        for query in queries:
            yield from self._query(graph, query, connection)
        if connection is not None:
            yield from topics.examine(graph, queries, connection)
            views = catalogue.views(connection, self.graph.app)
            declared = {name: view for name, view in views.items() if name in self.graph.names}
            yield from tables.examine(declared, self._postgres(), connection)

    def _query(self, graph: Graph, query: Query, connection: Connection | None) -> Iterator[Finding]:
        location = checkpoint.location(self.settings, self.graph.app, query.name)
        place = checkpoint.local(location)
        cut_off: list[Finding] = []
        if place is not None:
            cut_off = list(checkpoints.examine(place, self.graph.app, query, connection))
            yield from cut_off
        whole = not any(finding.weight is Weight.BROKEN for finding in cut_off)
        if place is not None and connection is not None and whole:
            yield from checkpoints.foreign(place, graph, query, connection)
            yield from checkpoints.left_in_the_middle(place, query, partial(offsets.retention_s, connection))
            yield from topics.gone(location, query, connection)
        yield from pace.examine(progress.history(self.settings, self.graph.app, query.name))
        if connection is not None:
            yield from outputs.examine(self.graph, query, connection)

    def _postgres(self) -> str | None:
        if self.settings.postgres:
            return self.settings.postgres
        directory = self.settings.state / postgres.NAME
        running = part.read(directory)
        return None if running is None or not running.server.alive else postgres.url(directory, running.address)


def _log(app: Path, bootstrap: str | None) -> Connection | HeadraceError:
    try:
        connection = connection_at(app, bootstrap)
        connection.metadata()
    except (LogError, RunError) as error:
        return error
    return connection


def _tell(finding: Finding, as_json: bool) -> None:
    if as_json:
        shown = {name: getattr(finding, name) for name in ("weight", "of", "disease", "evidence", "remedy")}
        terminal.out_json(shown | {"repair": finding.repair.what if finding.repair else None})
        return
    terminal.out(f"{finding.weight}  {finding.of}: {finding.disease}")
    terminal.out(f"  found: {finding.evidence}")
    terminal.out(f"  do:    {finding.remedy}\n")


def _mend(finding: Finding, *, yes: bool) -> bool:
    if finding.repair is None:
        return False
    if not yes and not typer.confirm(f"{finding.of}: {finding.repair.what}?", err=True):
        return False
    terminal.note(f"{finding.of}: done; the backup is {finding.repair.do()}")
    return True
