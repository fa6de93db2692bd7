"""A lock between processes, held on a file.

The operating system lets go of it when its holder ends, however it ends, so a lock is never stale. The file stays: to
delete it would let two processes hold «the» lock on two files. Works between processes of one machine only.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock on `path` (created if missing); waits for as long as another process holds it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
