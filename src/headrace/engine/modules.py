"""Headrace and the modules beside an app, as one file for the Python processes of a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

import headrace.errors
from headrace.settings import Settings


def package(settings: Settings) -> Path:
    """The zip of both, made anew in the state directory."""
    root = Path(headrace.errors.__file__).parent
    target = settings.state / "modules.zip"
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as out:
        for file in sorted(root.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                out.write(file, Path("headrace") / file.relative_to(root))
        for file in sorted(settings.directory.glob("*.py")):
            out.write(file, file.name)
    return target
