"""Appends whole lines to a file. On a full disk nothing is left of a line that did not fit, so the next line begins at
the start of a line. One process writes to a file at a time.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def append(file: Path, line: str, *, durable: bool = False) -> None:
    """Append a line; OSError when it does not fit. A `durable` one is on the disk when this returns."""
    text = f"{line}\n".encode()
    with file.open("ab", buffering=0) as out:
        end = out.seek(0, os.SEEK_END)
        if (out.write(text) or 0) < len(text):
            out.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if durable:
            os.fsync(out.fileno())
