"""Class archives: the classes that a JVM loads at its start, in the form in which it holds them (Java's AppCDS).

Reading and checking thousands of classes is most of the start of the broker and of Spark. Which ones they are is
recorded in a rehearsal; Java writes them to an archive in the cache, once, and every later start maps that. An archive
belongs to one Java and to the very files on the class path: its key is made of both, so that a change of either makes
another one, and those whose Java or files are gone are removed.

It is never needed. A JVM that finds that the archive does not fit starts without, and one that could not be made is not
tried again. What a JVM does not survive is a cut file, so the size is compared before each use.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.errors import PartError
from headrace.parts.cache import entry, made_once
from headrace.parts.java import Java

SECONDS = 300
_KIND = "classes"
_ARCHIVE = "archive.jsa"
_NOTE = "archive.json"

Rehearsal = Callable[[list[str]], Sequence[str]]


def options(home: Java, files: Iterable[Path]) -> list[str]:
    """What to give to a JVM with these files on its class path; nothing when there is no archive for it."""
    place = entry(_KIND, _key(home, files))
    archive = place / _ARCHIVE
    try:
        whole = archive.stat().st_size == json.loads((place / _NOTE).read_text(encoding="utf-8"))["bytes"]
    except (OSError, ValueError, KeyError):
        whole = False
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if whole else []


def record(home: Java, files: Sequence[Path], rehearse: Rehearsal, report: Callable[[str], None]) -> None:
    """Make the archive, once. `rehearse(options)` runs the JVM with these options, through all that its start is made
    of, and returns the options that say what its class path was."""
    made_once(_KIND, _key(home, files), lambda place: _build(home, files, rehearse, place, report))


def _key(home: Java, files: Iterable[Path]) -> str:
    digest = hashlib.sha256(f"{home.executable} {home.version}".encode())
    with suppress(OSError):
        digest.update((home.home / "release").read_bytes())
    for file in sorted(files):
        state = file.stat()
        digest.update(f"\0{file}\0{state.st_size}\0{state.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def _build(home: Java, files: Sequence[Path], rehearse: Rehearsal, place: Path, report: Callable[[str], None]) -> None:
    classes, archive = place / "classes", place / _ARCHIVE
    try:
        class_path = rehearse([f"-XX:DumpLoadedClassList={classes}"])
        java, use = [str(home.executable), *class_path], f"-XX:SharedArchiveFile={archive}"
        _run([*java, "-Xshare:dump", f"-XX:SharedClassListFile={classes}", use])
        _run([*java, use, "-version"])
        note = {"bytes": archive.stat().st_size, "of": [str(home.executable), *map(str, files)]}
        (place / _NOTE).write_text(json.dumps(note), encoding="utf-8")
    except (PartError, OSError, subprocess.SubprocessError) as error:
        report(f"  it goes without: {str(error).splitlines()[0]}")
        archive.unlink(missing_ok=True)
    classes.unlink(missing_ok=True)
    for other in place.parent.glob(f"*/{_NOTE}"):
        with suppress(OSError, ValueError, KeyError):
            if not all(Path(file).exists() for file in json.loads(other.read_text(encoding="utf-8"))["of"]):
                shutil.rmtree(other.parent)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS)
