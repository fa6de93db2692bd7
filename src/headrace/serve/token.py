"""The bearer token: HEADRACE_TOKEN, or one that is made once and kept in `.headrace/token` for its owner's eyes.

The file appears whole or not at all, so that two servers that start at once agree on one token.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from headrace.errors import PartError
from headrace.settings import Settings

FILE = "token"


def obtain(settings: Settings) -> str:
    """The token of the settings, or the one in the state directory, which is made if there is none."""
    if settings.token:
        return settings.token
    path = place(settings)
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        token = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PartError(
            "HR-106",
            f"The token of the server cannot be kept in {path}: {error.strerror}",
            found=path,
            fix="make the directory writable, or give a token as HEADRACE_TOKEN",
        ) from None
    if not token:
        path.unlink()
        return obtain(settings)
    return token


def place(settings: Settings) -> Path:
    """Where the token is kept when the settings do not give one."""
    return settings.state / FILE


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, making = tempfile.mkstemp(dir=path.parent, prefix=f"{FILE}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(32))
        os.link(making, path)
    except FileExistsError:
        pass
    finally:
        Path(making).unlink()
