"""Files of a checkpoint that are not what was written: a byte that a disk has flipped, a copy that was cut off.

Beside every file of a checkpoint on a file system, Spark's own way of writing leaves its checksums, `.<name>.crc`: the
word `crc`, a zero, how many bytes each of them covers, and a CRC-32 for each such piece. Spark compares them when it
reads the file, which may be long after the start. Here they are compared without Spark. The next start needs these:

- `metadata`, the last file of `commits`, the last two of `offsets`, and what sources and operators have noted once;
- of the state of each shard the newest snapshot up to the last finished batch, the tables (`.sst`) that it names, and
  the changelogs after it. What is older is kept for a while and not read any more.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.engine import checkpoint
from headrace.errors import Location, RunError

MOST_AT_START = 64 * 1024 * 1024
_OWN = ("headrace.json", "headrace.live", "headrace.written")
_MAGIC = b"crc\0"
_VERSION = re.compile(r"(?P<version>\d+)(?:_[0-9a-f-]+)?\.(?P<kind>zip|changelog)")
_BADLY_READ = re.compile(
    r"hadoop\.fs\.ChecksumException|CHECKPOINT_FILE_CHECKSUM_VERIFICATION|STATE_STORE_ROW_CHECKSUM|Incomplete log file"
    r"|CANNOT_LOAD_STATE_STORE\.(?:AUTO_SNAPSHOT|CANNOT_|INVALID_|KEY_ROW|VALUE_ROW|UNEXPECTED_FILE)"
)
_SUSPECT = re.compile(r"CANNOT_LOAD_STATE_STORE|[Cc]hecksum|CHECKSUM|[Cc]orrupt|MALFORMED|Incomplete log file")
_FILE = re.compile(r"(?:file:)?(?P<path>/\S+?/(?:state|offsets|commits|sources)/[^\s,;:\]\)]+|/\S+?/metadata\b)")


@dataclass(frozen=True)
class Damage:
    """A file that cannot be trusted, why, and whether the next start needs it."""

    file: Path
    why: str
    is_needed: bool


def damages(place: Path) -> Iterator[Damage]:
    """All of a checkpoint."""
    needed = set(_needed(place))
    for file in sorted(place.rglob("*")):
        if not file.name.startswith(".") and file.is_file() and (why := changed(file)):
            yield Damage(file, why, file in needed)


def changed(file: Path) -> str | None:
    """Why a file is not what was written, by its checksums; None when it is, or has none."""
    beside = file.with_name(f".{file.name}.crc")
    try:
        sums = beside.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{beside.name} cannot be read: {error.strerror}"
    if sums[:4] != _MAGIC or len(sums) % 4 or len(sums) < 8 or not (size := struct.unpack(">I", sums[4:8])[0]):
        return f"its checksums in {beside.name} cannot be read"
    known = iter(struct.unpack(f">{len(sums) // 4 - 2}I", sums[8:]))
    at = 0
    try:
        with file.open("rb") as read:
            while piece := read.read(size):
                if next(known, None) != zlib.crc32(piece):
                    return f"its bytes {at} to {at + len(piece)} are not what was written, by {beside.name}"
                at += len(piece)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return f"it ends after {at} bytes, and more were written" if next(known, None) is not None else None


def refuse(place: str, query: str, where: Location) -> None:
    """Refuse a checkpoint with a damaged file that the start would read. Of large state only the newest part is looked
    at; Spark looks at the rest when it reads it (`named`)."""
    directory = checkpoint.local(place)
    if directory is None or not directory.is_dir():
        return
    left = MOST_AT_START
    for file in _needed(directory):
        left -= file.stat().st_size
        if left < 0 and file.is_relative_to(directory / "state"):
            return
        if why := changed(file) or _unreadable(directory, file):
            raise _error(query, where, f"{file}: {why}")


def behind(text: str, place: str, query: str, where: Location) -> RunError | None:
    """The damaged file that has caused a failure, as an error; None when the text of the failure does not come from the
    checkpoint, or no file that it needs is damaged. Spark itself often names no file."""
    directory = checkpoint.local(place)
    if directory is None or not _SUSPECT.search(text):
        return named(text, query, where)
    found = next((one for one in damages(directory) if one.is_needed), None)
    return named(text, query, where) if found is None else _error(query, where, f"{found.file}: {found.why}")


def named(text: str, query: str, where: Location) -> RunError | None:
    """The error of a query that Spark has ended because a file of its checkpoint cannot be read; None for any other."""
    if not _BADLY_READ.search(text):
        return None
    file = _FILE.search(text)
    return _error(query, where, file["path"] if file else next(iter(text.splitlines()), "unknown")[:500])


def _error(query: str, where: Location, found: str) -> RunError:
    app = Path(where.file).name
    return RunError(
        "HR-345",
        f"The checkpoint of `{query}` is damaged: a file is not what was written, and nothing was computed from it.",
        where=where,
        found=found,
        fix=f"`headrace doctor {app}` names every damaged file and what can be mended; where nothing can,"
        f" `headrace reset {app} {query}` throws the state away and computes it again from the log",
    )


def _unreadable(place: Path, file: Path) -> str | None:
    """Of Headrace's own files, which have no checksums and begin with a line of JSON: why one cannot be read."""
    if file.parent != place or file.name not in _OWN:
        return None
    try:
        json.loads(file.read_text(encoding="utf-8").partition("\n")[0] or "{}")
    except (OSError, ValueError) as error:
        return str(error)
    return None


def _needed(place: Path) -> Iterator[Path]:
    """What the next start reads, the small files first."""
    begun, finished = (checkpoint.batches(place / log) for log in checkpoint.LOGS)
    logs = [place / "offsets" / str(batch) for batch in begun[-2:]]
    logs += [place / "commits" / str(batch) for batch in finished[-1:]]
    once = [*place.glob("sources/*/*"), *place.glob("state/*/_metadata/**/*"), *place.glob("state/*/_stateSchema/**/*")]
    first = [place / "metadata", *(place / name for name in _OWN), *logs, *sorted(once)]
    yield from (file for file in first if file.is_file() and not file.name.startswith("."))
    last = finished[-1] + 1 if finished else 0
    for shard in sorted({file.parent for file in place.glob("state/**/*.changelog")}):
        yield from _of_shard(shard, last)


def _of_shard(shard: Path, last: int) -> Iterator[Path]:
    """The files that the state of a shard is made of after so many batches."""
    named = [(found, file) for file in shard.iterdir() if (found := _VERSION.fullmatch(file.name))]
    files = [(int(found["version"]), found["kind"], file) for found, file in named]
    snapshots = [version for version, kind, _ in files if kind == "zip" and version <= last]
    base = max(snapshots, default=0)
    for version, kind, file in sorted(files):
        if (kind == "zip" and version == base) or (kind == "changelog" and base < version <= last):
            yield from (file, *(beside for beside in [file.with_name(f"{file.name}.crc")] if beside.exists()))
        if kind == "zip" and version == base:
            yield from (table for name in _tables(file) if (table := shard / "SSTs" / name).exists())


def _tables(snapshot: Path) -> list[str]:
    """The tables that a snapshot names; none when it cannot be read, which is reported for the snapshot itself."""
    try:
        with zipfile.ZipFile(snapshot) as read:
            _, text = read.read("metadata").decode().split("\n", 1)
        return [str(table["dfsSstFileName"]) for table in json.loads(text).get("sstFiles", [])]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error):
        return []
