"""Checkpoints whose files are cut off or changed, that are older than what they wrote, or gone; batches left in the
middle.

Spark writes a file of `offsets` before a batch and one of `commits` after it, each whole or not at all; a full disk or
a copy that was interrupted can still leave one cut off, and a disk can flip a byte of any file. Spark then refuses to
start, begins again from nothing, or ends when it reads the file. Checksums stand beside every file (engine/damage.py).

**What can be mended.** A cut-off record of a commit only says that the batch ended: without it the batch is run again,
and in exact mode not written again. A cut-off plan of a batch can be taken away as long as nothing of that batch is in
the log, which the groups of the query's sink tell: the batch is planned anew. Otherwise the batch would be planned with
other records than were written, so the query would stop (HR-314); then only a new beginning helps, and so it does when
a file of the state is damaged: what it held is nowhere else but in the log that it was computed from.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from headrace import names
from headrace.doctor.finding import Finding, Repair, Weight
from headrace.engine import checkpoint, traces
from headrace.engine.damage import Damage, changed, damages
from headrace.errors import RunError
from headrace.graph.graph import Graph
from headrace.graph.plan import Query
from headrace.log import topic as topics
from headrace.log.connection import Connection

_LAST = {"offsets": 2, "commits": 1}  # how many files of a log Spark reads when it starts


def examine(place: Path, app: str, query: Query, connection: Connection | None) -> Iterator[Finding]:
    """What is wrong with the checkpoint of a query; without a connection the log is not asked."""
    if not place.is_dir():
        return
    identity = list(_identity(place, query))
    yield from identity
    for log in checkpoint.LOGS:
        batches = checkpoint.batches(place / log)
        for file in (place / log / str(batch) for batch in batches):
            if (why := unreadable(file)) is not None:
                evidence = f"{file.relative_to(place.parent)}: {why}"
                yield (
                    _old(query, evidence)
                    if file.name not in map(str, batches[-_LAST[log] :])
                    else _cut_off(file, evidence, query, lambda batch: _written(connection, app, query, batch))
                )
    told = [place / log for log in checkpoint.LOGS] + ([place] if identity else [])
    for damage in damages(place):
        if damage.file.parent not in told:
            yield _changed(place, damage, query)


def unreadable(file: Path) -> str | None:
    """Why a file of Spark's logs cannot be read; None when it can."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        return str(error)
    if not lines:
        return "it is empty"
    if not (lines[0].startswith("v") and lines[0][1:].isdigit()):
        return f"it begins with `{lines[0][:20]}` and not with a version"
    if len(lines) == 1:
        return "it ends after the version"
    for line in lines[1:]:
        if line == "-":
            continue  # a source that had nothing
        try:
            json.loads(line)
        except ValueError:
            return f"a line is cut off: `{line[-40:]}`"
    return changed(file)


def _identity(place: Path, query: Query) -> Iterator[Finding]:
    file = place / "metadata"
    if not file.exists():
        return
    try:
        known = isinstance(json.loads(file.read_text(encoding="utf-8"))["id"], str)
    except (OSError, ValueError, KeyError, TypeError):
        known = False
    if not known:
        yield Finding(
            Weight.BROKEN,
            query.name,
            "the identity of the checkpoint cannot be read",
            f"{file} holds no id",
            "restore the file from a backup: without it Spark takes the checkpoint for another one, and what exact mode"
            f" has written of an unfinished batch is not recognised. Or begin again: {_again(query)}",
        )


def _again(query: Query) -> str:
    return f"`headrace reset app.py {query.node.name}`, which says what will happen"


def _changed(place: Path, damage: Damage, query: Query) -> Finding:
    evidence = f"{damage.file.relative_to(place.parent)}: {damage.why}"
    if not damage.is_needed:
        return _old(query, evidence)
    remedy = (
        f"begin again with what the log has: {_again(query)}; or restore the file, as it was, from a copy of this"
        " checkpoint at this batch"
    )
    return Finding(Weight.BROKEN, query.name, "a file of the checkpoint is damaged", evidence, remedy)


def _old(query: Query, evidence: str) -> Finding:
    remedy = "nothing: it is not read any more, and Spark deletes it in time"
    return Finding(Weight.NOTE, query.name, "an old file of the checkpoint is damaged", evidence, remedy)


def _cut_off(file: Path, evidence: str, query: Query, written_by: Callable[[int], list[str] | None]) -> Finding:
    place, log, number = file.parent.parent, file.parent.name, int(file.name)
    how = "damaged" if changed(file) else "cut off"
    repair = Repair(f"take {log}/{number} away, after a backup", partial(_take_away, place, file))
    if log == "commits":
        remedy = "take it away: the batch is run again, and in exact mode not written again"
        return Finding(Weight.BROKEN, query.name, f"the record of batch {number} is {how}", evidence, remedy, repair)
    disease, again = f"the plan of batch {number} is {how}", f"begin again: {_again(query)}"
    if number != max(checkpoint.batches(file.parent)) or (place / "commits" / file.name).exists():
        remedy = f"{again}: the batch has ended, and how far it had read stood only there"
        return Finding(Weight.BROKEN, query.name, disease, evidence, remedy)
    written = written_by(number)
    if written is None:
        remedy = "start Kafka and ask again: whether the plan can be taken away depends on what is in the log"
        return Finding(Weight.BROKEN, query.name, disease, evidence, remedy)
    if written:
        remedy = (
            f"{again}: the tasks {', '.join(written)} have written their part of this batch, and planned anew it would"
            " hold other records"
        )
        return Finding(Weight.BROKEN, query.name, disease, evidence, remedy)
    remedy = "take it away: nothing of the batch is in the log, and it is planned anew"
    return Finding(Weight.BROKEN, query.name, disease, evidence, remedy, repair)


def _written(connection: Connection | None, app: str, query: Query, batch: int) -> list[str] | None:
    """The tasks that have written this batch; None when the log cannot be asked."""
    if connection is None:
        return None
    prefix = names.sink(app, query.name) + "."
    found = topics.group_offsets(connection, prefix)
    return sorted(
        group.removeprefix(prefix) for group, tasks in found.items() if any(one.offset == batch + 1 for one in tasks)
    )


def _take_away(place: Path, file: Path) -> str:
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    backup = place.parent / f"{place.name}.backup-{moment}"
    backup.mkdir()
    for name in (*checkpoint.LOGS, "metadata", "headrace.json"):
        kept = place / name
        if kept.is_dir():
            shutil.copytree(kept, backup / name)
        elif kept.exists():
            shutil.copy2(kept, backup / name)
    checkpoint.forget(file.parent, int(file.name))
    return str(backup)


def foreign(place: Path, graph: Graph, query: Query, connection: Connection) -> Iterator[Finding]:
    """A checkpoint that is not the one that wrote last, or that is gone."""
    groups = topics.group_offsets(connection, names.group(graph.app, ""))
    if error := traces.refusal(connection, graph, query, str(place), groups):
        yield Finding(Weight.BROKEN, query.name, error.what, str(error.found), error.fix)


def left_in_the_middle(place: Path, query: Query, retention_s: Callable[[], float]) -> Iterator[Finding]:
    """A batch that the log may have forgotten."""
    try:
        checkpoint.check_remembered(str(place), query.name, retention_s, query.node.where)
    except RunError as error:
        yield Finding(Weight.BROKEN, query.name, error.what, str(error.found), error.fix)
