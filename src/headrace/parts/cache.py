"""The per-user cache: what was downloaded or compiled, made once and kept.

`HEADRACE_CACHE` names another place for it. An entry is a directory that appears whole or not at all: it is built
beside its place, flushed to the disk and renamed, under a lock, so that two processes do not make it twice and a crash
leaves nothing half-made to be found. Deleting the cache is always safe while nothing runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_dir

from headrace.errors import PartError
from headrace.parts.lock import locked

CACHE_VARIABLE = "HEADRACE_CACHE"


def root() -> Path:
    """The cache directory; it need not exist."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given).expanduser().absolute() if given else Path(user_cache_dir("headrace"))


def entry(kind: str, key: str) -> Path:
    """Where the entry `key` of a kind is, made or not."""
    return root() / kind / key


def made_once(kind: str, key: str, build: Callable[[Path], None]) -> Path:
    """The entry, built by `build(directory)` if this is the first call on this machine that needs it."""
    place = entry(kind, key)
    if place.is_dir():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.parent / f"{key}.lock"):
            if not place.is_dir():
                _make(place, build)
    except OSError as error:
        raise PartError(
            "HR-103",
            f"The cache directory {root()} cannot be written: {error.strerror or error}",
            found=root(),
            fix=f"free some space or correct its permissions, or set {CACHE_VARIABLE} to a directory you can write",
        ) from error
    return place


def _make(place: Path, build: Callable[[Path], None]) -> None:
    making = place.with_name(f"{place.name}.making")
    shutil.rmtree(making, ignore_errors=True)  # of a process that was killed: we hold the lock, so it is nobody's
    making.mkdir()
    try:
        build(making)
        for path in [*making.rglob("*"), making]:
            _flush(path)
        making.rename(place)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
