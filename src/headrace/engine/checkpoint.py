"""Where a query keeps its place, and what it was when it began.

One directory a query: Spark's offsets, commits and state, and `headrace.json` with what the state depends on: the
topics that are read, the stateful operators, and the columns of tables that the database told. A declaration that no
longer fits is refused before Spark touches the state, with the difference and the choices. A lock on `headrace.lock`
(released by the system when the process ends, however it ends) keeps a second driver away. `headrace.live` is there
while the last start was a live one. All three need a file system: under another URI none is done.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import Location, RunError
from headrace.log.schema import Schema
from headrace.settings import Settings

LOGS = ("offsets", "commits")  # Spark's two: what a batch is to read, and that it has ended
_FACTS = "headrace.json"
_LOCK = "headrace.lock"
_LIVE = "headrace.live"


def location(settings: Settings, app: str, query: str) -> str:
    """The directory of a query: under `checkpoints` of the settings, or in the state directory."""
    base = settings.checkpoints or str(settings.state / "checkpoints")
    return f"{base.rstrip('/')}/{app}/{query}"


def local(place: str) -> Path | None:
    """The directory as a path, or None when it is not on a file system of this machine."""
    if place.startswith("file:"):
        return Path(place.removeprefix("file:").replace("//", "/", 1) if place.startswith("file://") else place[5:])
    return None if "://" in place else Path(place)


@contextmanager
def held(place: str, app: str, query: str) -> Iterator[None]:
    """Hold the checkpoint for this process; a second holder is an error."""
    directory = local(place)
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / _LOCK).open("a+")
    except OSError as error:
        raise RunError(
            "HR-305",
            f"The checkpoint of `{query}` cannot be written: {error.strerror}.",
            found=directory,
            fix="free space or correct the permissions, or name another place with --checkpoints",
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise RunError(
                "HR-306",
                f"The query `{query}` of the app `{app}` runs already.",
                found=f"process {lock.read().strip() or 'unknown'} holds {directory}",
                fix="stop that run first; two runs of one query would write everything twice",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def columns(place: str) -> dict[str, Schema]:
    """The columns that a query has taken from the database when it began, by table."""
    directory = local(place)
    file = directory / _FACTS if directory else None
    if file is None or not file.exists():
        return {}
    told = json.loads(file.read_text(encoding="utf-8")).get("columns", {})
    return {table: Schema.parse(ddl) for table, ddl in told.items()}


def check(
    place: str,
    query: str,
    topics: Mapping[str, str],
    operators: list[str],
    where: Location,
    *,
    tables: Mapping[str, Schema] | None = None,
) -> None:
    """Compare with what the checkpoint was made for; the first start writes it down. `topics` are the identities of
    those that are read, by name; `tables` have their columns from the database."""
    directory = local(place)
    if directory is None:
        return
    file = directory / _FACTS
    facts: dict[str, Any] = {"topics": sorted(topics), "operators": operators}
    facts["identities"] = dict(sorted(topics.items()))
    if tables:
        facts["columns"] = {table: schema.ddl for table, schema in sorted(tables.items())}
    if not file.exists():
        file.write_text(json.dumps(facts), encoding="utf-8")
        return
    before = json.loads(file.read_text(encoding="utf-8"))
    if before == facts:
        return
    differences = [
        f"{name} were {_listed(before.get(name, []))}, and are {_listed(facts[name])}"
        for name in ("topics", "operators")
        if before.get(name) != facts[name]
    ]
    anew = [name for name, known in before.get("identities", {}).items() if topics.get(name, known) != known]
    if not differences and anew:
        raise RunError(
            "HR-309",
            f"`{query}` cannot go on: {_listed(anew)} was deleted and made anew, so records that it has not read yet"
            " may be gone.",
            where=where,
            found="; ".join(f"{name} was {before['identities'][name]}, and is {topics[name]}" for name in anew),
            fix=f"delete the checkpoint {directory} to begin again with what the log has now",
        )
    if not differences:
        file.write_text(json.dumps(facts), encoding="utf-8")
        return
    raise RunError(
        "HR-307",
        f"`{query}` was changed so that its state does not fit any more: {'; '.join(differences)}.",
        where=where,
        found=directory,
        fix="build it beside the old one and switch (`headrace replay`, `headrace promote`), give the function a new"
        " name, or delete the directory found to compute everything again from the log",
    )


def reached(place: str) -> dict[tuple[str, int], int]:
    """The next offsets that a query goes on from, by topic and partition; nothing for a new checkpoint."""
    directory = local(place)
    begun = batches(directory / "offsets") if directory else []
    finished = batches(directory / "commits") if directory else []
    if directory is None or not begun:
        return {}
    # A batch that was begun and not finished is read again, from where the one before it ended.
    last = begun[-1] if begun[-1] in finished else begun[-1] - 1
    file = directory / "offsets" / str(last)
    if not file.exists():
        return {}
    return covered(file.read_text(encoding="utf-8").splitlines()[2:])


@dataclass(frozen=True)
class Finished:
    """The id that Spark has given a query, and the last batch that it has finished, which its state is of; -1 before
    the first."""

    query: str
    batch: int


def finished(place: str) -> Finished | None:
    """How far a query is; None for a new checkpoint, and where it is not on a file system."""
    directory = local(place)
    file = directory / "metadata" if directory else None
    if directory is None or file is None or not file.exists():
        return None
    try:
        query = json.loads(file.read_text(encoding="utf-8"))["id"]
    except (ValueError, KeyError, TypeError):
        return None  # Spark refuses it, and says why
    return Finished(str(query), max(batches(directory / "commits"), default=-1))


def was_live(place: str) -> bool:
    """Whether the query was started live the last time, so that what it has written may be ahead of its state."""
    directory = local(place)
    return directory is not None and (directory / _LIVE).exists()


def note_live(place: str, live: bool) -> None:
    """Remember how the query is started; before it is."""
    directory = local(place)
    if directory is None:
        return
    if live:
        (directory / _LIVE).touch()
    else:
        (directory / _LIVE).unlink(missing_ok=True)


def covered(end_offsets: Iterable[str]) -> dict[tuple[str, int], int]:
    """The next offsets after a batch, by topic and partition, from the JSON of its sources; `-` had nothing to read."""
    found: dict[tuple[str, int], int] = {}
    for text in end_offsets:
        for topic, partitions in (json.loads(text) if text.startswith("{") else {}).items():
            found |= {(topic, int(partition)): int(offset) for partition, offset in partitions.items()}
    return found


def check_remembered(place: str, query: str, retention_s: Callable[[], float], where: Location) -> None:
    """Refuse a batch that was begun so long ago that the log may have forgotten whether it was written."""
    directory = local(place)
    offsets = batches(directory / "offsets") if directory else []
    if directory is None or not offsets or offsets[-1] in batches(directory / "commits"):
        return
    file = directory / "offsets" / str(offsets[-1])
    age = time.time() - file.stat().st_mtime
    if age > (kept_s := retention_s()):
        raise RunError(
            "HR-312",
            f"`{query}` was stopped {age / 86_400:.0f} days ago in the middle of a batch, and the log may have"
            " forgotten how much of it was written.",
            where=where,
            found=f"batch {offsets[-1]} in {file}; the log remembers {kept_s / 86_400:.3g} days"
            " (offsets.retention.minutes)",
            fix="compare the end of the query's topic with its input, then delete the file found: the batch is written,"
            " and what stood there already stands there twice",
        )


def batches(directory: Path) -> list[int]:
    """The batches that one of Spark's two logs, `offsets` or `commits`, has a file of, in order."""
    return sorted(int(file.name) for file in directory.glob("[0-9]*") if file.name.isdigit())


def forget(log: Path, batch: int) -> None:
    """Remove the file of a batch from one of the two logs, with its checksum."""
    (log / str(batch)).unlink()
    (log / f".{batch}.crc").unlink(missing_ok=True)


def clear_unfinished(place: str) -> None:
    """Remove what a kill has left and Spark will not start beside: parts of files of the two logs, and the state of a
    first batch that never ended, which belongs to nothing."""
    directory = local(place)
    if directory is None:
        return
    logs = [directory / name for name in LOGS]
    for log in logs:
        sums = {f".{batch}.crc" for batch in batches(log)}
        for file in log.glob(".*"):
            if file.name not in sums:
                file.unlink()
    if not any(batches(log) for log in logs):
        shutil.rmtree(directory / "state", ignore_errors=True)


def _listed(values: list[str]) -> str:
    return ", ".join(values) if values else "none"
