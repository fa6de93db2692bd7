"""Arguments that many commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AppFile = Annotated[
    Path, typer.Argument(metavar="APP", show_default=False, help="The Python file that declares the app.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
