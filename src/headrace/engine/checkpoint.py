"""Where a query keeps its place.

One directory a query: Spark's offsets, commits and state, and `headrace.json` with what the state depends on
(facts.py). `headrace.live` is there while the last start was a live one, `headrace.written` while rows of an unfinished
live batch are in the query's topic (resumption.py), `headrace.reset` since the query was reset (reset.py).

Two locks keep a second driver away. A run is two processes: Python holds `headrace.lock` from before it looks at the
checkpoint, and Spark's process, the one that writes, `headrace.writer.lock` from before its first query starts. The
system releases each when its process ends, however it ends, so when Python is killed alone nobody is let in before
Spark's process has ended too. They are two files because Java's locks are of another kind than Python's (fcntl, flock),
which a local file system keeps apart and a network file system does not.

All of it needs a file system: under another URI none is done.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.errors import Location, RunError
from headrace.settings import Settings

LOGS = ("offsets", "commits")  # Spark's two: what a batch is to read, and that it has ended
_LOCK = "headrace.lock"
_WRITER = "headrace.writer.lock"
_WRITER_ENDS_S = 10.0  # it does within a fraction of a second, unless the machine is very busy
_LIVE = "headrace.live"
_WRITTEN = "headrace.written"
_RESET = "headrace.reset"
_PLAN_DIGITS = 16


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
    """Hold the checkpoint for this process; a second holder is an error. Spark's process of a run that was killed ends
    by itself and is waited for."""
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
            raise taken(directory / _LOCK, app, query) from None
        _wait_for_writer(directory / _WRITER, app, query)
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def writer(place: str) -> Path | None:
    """The file whose lock is for Spark's process; None when the checkpoint is not on a file system of this machine."""
    directory = local(place)
    return directory / _WRITER if directory else None


def taken(lock: Path, app: str, query: str) -> RunError:
    """The error of a lock that another process holds."""
    holder = lock.read_text(encoding="utf-8").strip() if lock.exists() else ""
    return RunError(
        "HR-306",
        f"The query `{query}` of the app `{app}` runs already.",
        found=f"process {holder or 'unknown'} holds {lock.parent}",
        fix="stop that run first; two runs of one query would write everything twice",
    )


def _wait_for_writer(lock: Path, app: str, query: str) -> None:
    until = time.monotonic() + _WRITER_ENDS_S
    while lock.exists():
        with lock.open("a") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if time.monotonic() > until:
                    raise taken(lock, app, query) from None
            else:
                return
        time.sleep(0.1)


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
class Written:
    """The ids of rows that are in a query's topic and unknown to its state, and the offsets up to which the query has
    to read until it has made all of them again."""

    until: Mapping[tuple[str, int], int]
    ids: frozenset[str]


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


def live_since(place: str) -> dict[int, int] | None:
    """Where the partitions of the query's topic ended when it was first started live, so that what it has written from
    there on may be ahead of its state; None when the last start was not a live one."""
    directory = local(place)
    file = directory / _LIVE if directory else None
    if file is None or not file.exists():
        return None
    return {
        int(partition): offset for partition, offset in json.loads(file.read_text(encoding="utf-8") or "{}").items()
    }


def note_live(place: str, ends: Mapping[int, int] | None) -> None:
    """Remember how the query is started, before it is: where its topic ends when it is live, or None."""
    directory = local(place)
    if directory is None:
        return
    if ends is None:
        (directory / _LIVE).unlink(missing_ok=True)
    else:
        _write(directory / _LIVE, json.dumps(ends))


def written(place: str) -> Written | None:
    """The rows in the query's topic that were not finished when the query was last started."""
    directory = local(place)
    file = directory / _WRITTEN if directory else None
    if file is None or not file.exists():
        return None
    until, *ids = file.read_text(encoding="utf-8").splitlines()
    return Written(covered([until]), frozenset(ids))


def note_written(place: str, written: Written | None) -> None:
    """Note them, or that there are none."""
    directory = local(place)
    if directory is None:
        return
    if written is None:
        (directory / _WRITTEN).unlink(missing_ok=True)
        return
    until: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(written.until.items()):
        until.setdefault(topic, {})[str(partition)] = offset
    _write(directory / _WRITTEN, "\n".join([json.dumps(until), *sorted(written.ids)]))


def _write(file: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    with part.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    part.replace(file)


def covered(end_offsets: Iterable[str]) -> dict[tuple[str, int], int]:
    """The next offsets after a batch, by topic and partition, from the JSON of its sources; `-` had nothing to read.
    Where a topic is read more than once, those of the slowest reader."""
    found: dict[tuple[str, int], int] = {}
    for text in end_offsets:
        for topic, partitions in (json.loads(text) if text.startswith("{") else {}).items():
            for partition, offset in partitions.items():
                place = topic, int(partition)
                found[place] = min(int(offset), found.get(place, int(offset)))
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


def is_new(place: str) -> bool:
    """Whether Spark has never begun with this checkpoint, so that it has no identity yet."""
    directory = local(place)
    return directory is not None and not (directory / "metadata").exists()


def has_begun(directory: Path) -> bool:
    """Whether a batch has begun, so that there is state, and something that depends on how the query was declared."""
    return any(batches(directory / log) for log in LOGS)


def begun(place: str) -> tuple[int, str | None]:
    """The last batch that was begun, -1 before the first; and, if it has not finished, how it is planned, in the form
    in which the log records it (the kernel's BatchPlan)."""
    directory = local(place)
    planned = batches(directory / "offsets") if directory else []
    if directory is None or not planned:
        return -1, None
    if planned[-1] in batches(directory / "commits"):
        return planned[-1], None
    plan = (directory / "offsets" / str(planned[-1])).read_bytes()
    return planned[-1], hashlib.sha256(plan).hexdigest()[:_PLAN_DIGITS]


def reset(place: str) -> Literal["begun", "done"] | None:
    """Whether the query was reset, and how far that has come."""
    directory = local(place)
    file = directory / _RESET if directory else None
    if file is None or not file.exists():
        return None
    return "done" if file.read_text(encoding="utf-8") == "done" else "begun"


def note_reset(place: str, state: Literal["begun", "done"]) -> None:
    """Remember how far a reset has come."""
    if (directory := local(place)) is not None:
        _write(directory / _RESET, state)


def clear(place: str) -> None:
    """Remove the checkpoint, but not the lock that is held on it, nor what is remembered of its reset."""
    directory = local(place)
    for file in directory.iterdir() if directory is not None else ():
        if file.name in (_LOCK, _RESET):
            continue
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()


def batches(directory: Path) -> list[int]:
    """The batches that one of Spark's two logs, `offsets` or `commits`, has a file of, in order."""
    return sorted(int(file.name) for file in directory.glob("[0-9]*") if file.name.isdigit())


def forget(log: Path, batch: int) -> None:
    """Remove the file of a batch from one of the two logs, with its checksum."""
    (log / str(batch)).unlink()
    (log / f".{batch}.crc").unlink(missing_ok=True)


def clear_unfinished(place: str) -> None:
    """Remove what a kill has left and what would stop Spark from starting: parts of files of the two logs, and the
    state of a first batch that never ended."""
    directory = local(place)
    if directory is None:
        return
    for log in (directory / name for name in LOGS):
        sums = {f".{batch}.crc" for batch in batches(log)}
        for file in log.glob(".*"):
            if file.name not in sums:
                file.unlink()
    if not has_begun(directory):
        shutil.rmtree(directory / "state", ignore_errors=True)
